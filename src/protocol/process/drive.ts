import { ItemUnreadable } from "../../domain/bucket/item-unreadable.ts";
import { LimiterError, RateLimiterUnavailable } from "../../domain/names/errors.ts";
import type { MaybePromise } from "../../ports/bucket-store.ts";
import type { Item, ItemAnswer, ItemKey, ItemWrite, TransactionAnswer, Undecided } from "../../ports/item-store.ts";
import type { ProtocolContext } from "../context.ts";
import { SENDING_SHEET, sheetWriting } from "../decide/sheet.ts";
import { damageIn } from "../item/damage.ts";
import { isShardKey } from "../item/write-builder.ts";
import { hourOfSheet } from "../usage/sheets.ts";
import type { BucketCaches } from "./bucket-caches.ts";
import type { Action, Event, Machine, ReadAction, SheetAction, TransactAction, WriteAction } from "./machine.ts";
import { backoffMs, RETRY, type RetryPolicy } from "./retry-policy.ts";

/** Notes why nothing is known of an item: a later job needs to know whether the store was silent or only busy. */
function noteUndecided(caches: BucketCaches, key: ItemKey, answer: Undecided): void {
  // If others are in the way, the store is reachable.
  if (answer.kind !== "refused" || answer.why !== "conflict") noteFault(caches, key, answer.cause);
  else if (isShardKey(key)) caches.noteAnswer(key);
}

function noteFault(caches: BucketCaches, key: ItemKey, cause: unknown): void {
  if (isShardKey(key)) caches.of(key.bucket).lastFaults[key.shard] = cause;
}

async function read({ items, caches }: ProtocolContext, action: ReadAction, timeoutMs: number): Promise<Event> {
  const { keys, consistent, atMs, sets, raw = false } = action;
  const sentAtSequence = caches.sequence;
  let found: readonly (Item | undefined)[];
  try {
    found = await items.read(keys, { consistent }, { timeoutMs });
  } catch (error) {
    if (!(error instanceof RateLimiterUnavailable)) throw error;
    for (const key of keys) noteFault(caches, key, error);
    return { kind: "unread", cause: error };
  }
  const seen = keys.map((key, i) => {
    if (raw || !isShardKey(key)) return undefined;
    const about = { atMs, eventuallyConsistent: !consistent, set: sets?.[i], ownWrites: 0, sentAtSequence };
    return caches.observe(caches.of(key.bucket), key, found[i], about);
  });
  return { kind: "read", items: found, seen };
}

/** Notes the answer to a write in the cache. */
function noteAnswer(
  { caches }: ProtocolContext,
  { write: { key }, atMs, set }: WriteAction,
  answer: ItemAnswer,
  sentAtSequence: number,
): Event {
  if (answer.kind !== "applied" && answer.kind !== "failed") {
    noteUndecided(caches, key, answer);
    return answer;
  }
  // A failed write means that the record is already there.
  if (!isShardKey(key)) return { kind: "there" };
  const ownWrites = answer.kind === "applied" ? 1 : 0;
  const about = { atMs, eventuallyConsistent: false, set, ownWrites, sentAtSequence };
  return { kind: answer.kind, seen: caches.observe(caches.of(key.bucket), key, answer.item, about) };
}

/**
 * The error for a write that the store cannot carry out. If an item is the reason, such as a text where a number is added, the
 * error names the item and the damage; otherwise it is the store's own.
 */
async function damageOr(
  { items }: ProtocolContext,
  writes: readonly ItemWrite[],
  error: unknown,
  timeoutMs: number,
): Promise<unknown> {
  if (!(error instanceof LimiterError) || error.code !== "store_refused") return error;
  const keys = writes.map(({ key }) => key).filter(isShardKey);
  if (keys.length === 0) return error;
  try {
    const found = await items.read(keys, { consistent: true }, { timeoutMs });
    for (const [i, key] of keys.entries()) {
      const damage = found[i] === undefined ? undefined : damageIn(found[i]);
      if (damage !== undefined) return new ItemUnreadable(key, damage);
    }
  } catch {
    // Report the first error.
  }
  return error;
}

async function transact(context: ProtocolContext, action: TransactAction, leftMs: () => number): Promise<Event> {
  const { items, caches } = context;
  const { writes, token, event } = action;
  let answer: TransactionAnswer;
  try {
    answer = await items.transact(writes, { token, event }, { timeoutMs: leftMs() });
  } catch (error) {
    throw await damageOr(context, writes, error, leftMs());
  }
  for (const { key } of writes) {
    // A transaction returns no images, so the cached ones are out of date.
    caches.of(key.bucket).forget();
    if (answer.kind === "unknown" || answer.kind === "refused") noteUndecided(caches, key, answer);
    else if (isShardKey(key)) caches.noteAnswer(key);
  }
  if (answer.kind === "applied") return { kind: "committed" };
  return answer.kind === "failed" ? { kind: "outrun" } : answer;
}

interface Budget {
  readonly policy: RetryPolicy;
  /** In place of the policy's attempts. */
  readonly attemptsMax?: number;
  /** A caller that waits for less time than the work may take. */
  readonly caller?: Caller | undefined;
}

/** `leave` is called once the work goes on without the caller. */
export interface Caller {
  readonly untilMs: number;
  leave(): void;
}

/** The one loop of the protocol: every call to the store is made here. */
export async function drive<Progress, Act extends Action, Result>(
  machine: Machine<Progress, Act, Result>,
  start: Progress,
  budget: Budget,
  context: ProtocolContext,
): Promise<Result> {
  const { clock } = context;
  const { attemptsMax = budget.policy.attempts } = budget;
  let progress = start;
  let attempts = 0;
  let waits = 0;
  for (;;) {
    const ended = machine.ended(progress);
    if (ended !== undefined) return ended.result;
    const nowMs = clock.now();
    const untilMs = machine.untilMs?.(progress) ?? Number.POSITIVE_INFINITY;
    const over = nowMs >= untilMs ? "time" : attempts >= attemptsMax ? "attempts" : undefined;
    const action = machine.next(progress, { nowMs, over });
    if (action.do === "end") return action.result;
    let event: Event = MOVED_ON;
    switch (action.do) {
      case "settle":
        break;
      case "pause":
        await wait(context, budget, waits++, untilMs);
        break;
      case "read":
        // A read that may be old decides nothing.
        if (action.consistent) attempts++;
        event = await read(context, action, timeLeft(untilMs, budget, nowMs));
        break;
      case "write": {
        if (action.prepares === undefined) attempts++;
        let sentMs = nowMs;
        for (let resends = 0; ; resends++) {
          const sentAtSequence = context.caches.sequence;
          const timeoutMs = timeLeft(untilMs, budget, sentMs);
          let answer: ItemAnswer;
          try {
            const sent = context.items.write(action.write, { timeoutMs });
            answer = sent instanceof Promise ? await sent : sent;
          } catch (error) {
            throw await damageOr(context, [action.write], error, timeLeft(untilMs, budget, clock.now()));
          }
          const told = orLater(context, budget, answer);
          event = noteAnswer(context, action, told instanceof Promise ? await told : told, sentAtSequence);
          if (event.kind !== "refused") break;
          if (event.why === "throttled") machine.throttled?.();
          if (resends >= budget.policy.resends || clock.now() >= untilMs) break;
          await wait(context, budget, resends, untilMs);
          sentMs = clock.now();
          if (sentMs >= untilMs) break;
        }
        break;
      }
      case "sheet":
        event = await sheet(context, action, sheetTime(untilMs, budget, nowMs));
        break;
      case "transact":
        attempts++;
        event = await transact(context, action, () => timeLeft(untilMs, budget, clock.now()));
    }
    progress = machine.on(progress, action, event);
  }
}

const MOVED_ON: Event = Object.freeze({ kind: "moved on" });
const THERE: Event = Object.freeze({ kind: "there" });

/** The timeout of one call: no longer than the caller waits for it. */
function timeLeft(untilMs: number, { policy, caller }: Budget, nowMs: number): number {
  const left = Math.min(untilMs - nowMs, policy.callMs);
  if (caller === undefined) return Math.max(1, left);
  if (nowMs < caller.untilMs) return Math.max(1, Math.min(left, caller.untilMs - nowMs));
  caller.leave();
  return Math.max(1, left);
}

/**
 * The answer to a write, or the late one if it did not come within the caller's time. The caller leaves then: the work has more
 * time, and a refused write can be sent again.
 */
function orLater({ clock }: ProtocolContext, { policy, caller }: Budget, answer: ItemAnswer): MaybePromise<ItemAnswer> {
  if (caller === undefined || answer.kind !== "unknown" || answer.later === undefined) return answer;
  caller.leave();
  const over = new AbortController();
  const inVain = clock.sleep(policy.callMs, over.signal).then(
    () => answer,
    () => answer,
  );
  return Promise.race([answer.later, inVain]).finally(() => over.abort());
}

/** Waits no longer than there is time. A caller that runs out of time leaves. */
async function wait(
  { clock, random }: ProtocolContext,
  { policy, caller }: Budget,
  waits: number,
  untilMs: number,
): Promise<void> {
  const waitMs = Math.min(backoffMs(policy, waits, random()), Math.max(0, untilMs - clock.now()));
  if (caller !== undefined && clock.now() + waitMs >= caller.untilMs) caller.leave();
  await clock.sleep(waitMs, undefined);
}

/** Half of the time is left for the caller's own write; without a caller, a sheet has the time of a call. */
function sheetTime(untilMs: number, budget: Budget, nowMs: number): number {
  const isBackground = untilMs === Number.POSITIVE_INFINITY && budget.caller === undefined;
  return isBackground ? RETRY.sheet.callMs : Math.ceil(timeLeft(untilMs, budget, nowMs) / 2);
}

/** Reports a sheet that could not be written like a write. */
async function sheet(context: ProtocolContext, { write }: SheetAction, timeoutMs: number): Promise<Event> {
  const written = await writeSheet(context, write, timeoutMs);
  if (written === "there") return THERE;
  const { bucket, shard } = write.key;
  noteUndecided(context.caches, { bucket, shard }, written);
  return written;
}

/** Puts a closed hour on its sheet. Returns the store's last answer if that did not succeed in time. */
export async function writeSheet(
  context: ProtocolContext,
  write: ItemWrite,
  timeoutMs: number,
): Promise<"there" | Undecided> {
  const { clock, caches } = context;
  const { bucket, shard } = write.key;
  const hour = hourOfSheet(write);

  const writing = sheetWriting(write, clock.now() + timeoutMs);
  const written = await drive(writing, SENDING_SHEET, { policy: RETRY.sheet }, context);
  const note = written === "there" ? ({ is: "there" } as const) : ({ is: "unwritable", atMs: clock.now() } as const);
  caches.of(bucket).sheets[shard] = { ...note, hour };
  return written;
}

/** Reads items unchecked, in the order of the keys. Throws `RateLimiterUnavailable` if they cannot be read. */
export function readItems(
  context: ProtocolContext,
  keys: readonly ItemKey[],
  policy: RetryPolicy,
): Promise<readonly (Item | undefined)[]> {
  const atMs = context.clock.now();
  const read: ReadAction = { do: "read", keys, consistent: true, atMs, sets: undefined, raw: true };
  return readOnce(context, read, Number.POSITIVE_INFINITY, policy);
}

export function readOnce(
  context: ProtocolContext,
  read: ReadAction,
  untilMs: number,
  policy: RetryPolicy,
): Promise<readonly (Item | undefined)[]> {
  type Found = readonly (Item | undefined)[];
  const machine: Machine<Found | "unread", ReadAction, Found> = {
    ended: (progress) => (progress === "unread" ? undefined : { result: progress }),
    next: () => read,
    on: (progress, _, event) => {
      if (event.kind === "unread") throw event.cause;
      return event.kind === "read" ? event.items : progress;
    },
    untilMs: () => untilMs,
  };
  return drive(machine, "unread", { policy, attemptsMax: 1 }, context);
}

/** A caller that gets an answer in its time, while the work goes on after it. */
export class WaitingCaller implements Caller {
  readonly untilMs: number;
  /** Resolves when the work takes longer than the caller waits; perhaps never. */
  readonly left: Promise<void>;
  readonly leave: () => void;

  constructor(untilMs: number) {
    this.untilMs = untilMs;
    let leave = () => {};
    this.left = new Promise((resolve) => {
      leave = resolve;
    });
    this.leave = leave;
  }
}
