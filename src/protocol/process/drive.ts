import { LimiterError, RateLimiterUnavailable } from "../../domain/errors.ts";
import { ItemUnreadable } from "../../domain/item-unreadable.ts";
import type { MaybePromise } from "../../ports/bucket-store.ts";
import type { Item, ItemAnswer, ItemKey, ItemWrite, TransactionAnswer, Undecided } from "../../ports/item-store.ts";
import type { ProtocolContext } from "../context.ts";
import { SENDING_SHEET, SheetWriting } from "../decide/sheet.ts";
import { damageIn } from "../item/damage.ts";
import { isShardKey } from "../item/item-key.ts";
import { hourOfSheet } from "../usage/hours.ts";
import type { BucketCaches } from "./bucket-cache.ts";
import type { Action, Event, Machine, ReadAction, SheetAction, TransactAction, WriteAction } from "./machine.ts";
import { backoffMs, RETRY, type RetryPolicy } from "./retry-policy.ts";

export interface Budget {
  readonly policy: RetryPolicy;
  readonly attemptsMax: number;
  /** A caller that waits for less time than the work may take. */
  readonly caller: Caller | undefined;
}

/** `leave` is called once the work goes on without the caller. */
export interface Caller {
  readonly untilMs: number;
  leave(): void;
}

/** The one loop of the protocol: whatever it sends to the store is sent from here. */
export async function drive<Progress, Act extends Action, Result>(
  machine: Machine<Progress, Act, Result>,
  start: Progress,
  budget: Budget,
  context: ProtocolContext,
): Promise<Result> {
  const { clock } = context;
  let progress = start;
  let attempts = 0;
  let waits = 0;
  for (;;) {
    const ended = machine.ended(progress);
    if (ended !== undefined) return ended.result;
    const nowMs = clock.now();
    const untilMs = machine.untilMs(progress);
    const over = nowMs >= untilMs ? "time" : attempts >= budget.attemptsMax ? "attempts" : undefined;
    const action = machine.next(progress, { nowMs, over });
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
        attempts++;
        const sentAtSequence = context.caches.sequence;
        const timeoutMs = timeLeft(untilMs, budget, nowMs);
        let first: ItemAnswer;
        try {
          const answer = context.items.write(action.write, { timeoutMs });
          first = answer instanceof Promise ? await answer : answer;
        } catch (error) {
          throw await damageOr(context, [action.write], error, timeLeft(untilMs, budget, clock.now()));
        }
        const told = orLater(context, budget, first);
        event = observed(context, action, told instanceof Promise ? await told : told, sentAtSequence);
        for (let resends = 0; event.kind === "refused"; resends++) {
          if (event.why === "throttled") machine.throttled();
          if (resends >= budget.policy.resends || clock.now() >= untilMs) break;
          await wait(context, budget, resends, untilMs);
          if (clock.now() >= untilMs) break;
          const sequence = context.caches.sequence;
          const again = await context.items.write(action.write, { timeoutMs: timeLeft(untilMs, budget, clock.now()) });
          const late = orLater(context, budget, again);
          event = observed(context, action, late instanceof Promise ? await late : late, sequence);
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

/** How long one call may take: no longer than the caller waits for it. */
function timeLeft(untilMs: number, { policy, caller }: Budget, nowMs: number): number {
  const left = Math.min(untilMs - nowMs, policy.callMs);
  if (caller === undefined) return Math.max(1, left);
  if (nowMs < caller.untilMs) return Math.max(1, Math.min(left, caller.untilMs - nowMs));
  caller.leave();
  return Math.max(1, left);
}

/**
 * The answer to a write; where it did not come within the caller's time, the one that comes late. The caller leaves then: its
 * time says nothing about the work's, and a write that turns out to have been refused can be sent again.
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

/** No longer than there is time: who has none left is told. */
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

/** Half of the time is left for what the caller asked for; where none waits, a sheet has the time of a call. */
function sheetTime(untilMs: number, budget: Budget, nowMs: number): number {
  const isBackground = untilMs === Number.POSITIVE_INFINITY && budget.caller === undefined;
  return isBackground ? RETRY.sheet.callMs : Math.ceil(timeLeft(untilMs, budget, nowMs) / 2);
}

/** A sheet that could not be written is told like a write. */
async function sheet(context: ProtocolContext, { write }: SheetAction, timeoutMs: number): Promise<Event> {
  const written = await writeSheet(context, write, timeoutMs);
  if (written === "there") return THERE;
  const { bucket, shard } = write.key;
  noteUndecided(context.caches, { bucket, shard }, written);
  return written;
}

/** Puts a closed hour on its sheet. What the store said last, where that is not certain in the time given. */
export async function writeSheet(
  context: ProtocolContext,
  write: ItemWrite,
  timeoutMs: number,
): Promise<"there" | Undecided> {
  const { clock, caches } = context;
  const { bucket, shard } = write.key;
  const hour = hourOfSheet(write);
  const policy = RETRY.sheet;
  const budget = { policy, attemptsMax: policy.attempts, caller: undefined };
  const writing = new SheetWriting(write, clock.now() + timeoutMs);
  const written = await drive(writing, SENDING_SHEET, budget, context);
  const note = written === "there" ? ({ is: "there" } as const) : ({ is: "unwritable", atMs: clock.now() } as const);
  caches.of(bucket).noteSheet(shard, { ...note, hour });
  return written;
}

/** Why nothing is known of an item: by this it is told apart later whether the store was silent, or only busy. */
function noteUndecided(caches: BucketCaches, key: ItemKey, answer: Undecided): void {
  // Where others are in the way, the store is there.
  if (answer.kind !== "refused" || answer.why !== "conflict") noteSilence(caches, key, answer.cause);
  else if (isShardKey(key)) caches.noteAnswer(key);
}

function noteSilence(caches: BucketCaches, key: ItemKey, cause: unknown): void {
  if (isShardKey(key)) caches.of(key.bucket).noteSilence(key.shard, cause);
}

async function read({ items, caches }: ProtocolContext, action: ReadAction, timeoutMs: number): Promise<Event> {
  const { keys, consistent, atMs, sets, raw = false } = action;
  const sentAtSequence = caches.sequence;
  let found: readonly (Item | undefined)[];
  try {
    found = await items.read(keys, { consistent }, { timeoutMs });
  } catch (error) {
    if (!(error instanceof RateLimiterUnavailable)) throw error;
    for (const key of keys) noteSilence(caches, key, error);
    return { kind: "unread", cause: error };
  }
  const seen = keys.map((key, i) => {
    if (raw || !isShardKey(key)) return undefined;
    const about = { atMs, eventuallyConsistent: !consistent, set: sets?.[i], ownWrites: 0, sentAtSequence };
    return caches.observe(caches.of(key.bucket), key, found[i], about);
  });
  return { kind: "read", items: found, seen };
}

function observed(
  { caches }: ProtocolContext,
  { write: { key }, atMs, set }: WriteAction,
  answer: ItemAnswer,
  sentAtSequence: number,
): Event {
  if (answer.kind !== "applied" && answer.kind !== "failed") {
    noteUndecided(caches, key, answer);
    return answer;
  }
  // Failed: it is there already.
  if (!isShardKey(key)) return THERE;
  const ownWrites = answer.kind === "applied" ? 1 : 0;
  const about = { atMs, eventuallyConsistent: false, set, ownWrites, sentAtSequence };
  return { kind: answer.kind, seen: caches.observe(caches.of(key.bucket), key, answer.item, about) };
}

/**
 * The store cannot carry out a write. Where that is because of what stands in an item, such as a text that it was to add to, the
 * error says which item and what; otherwise it is the store's own. A write goes by what was seen of an item before.
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
    // What the store said first is told.
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
    // No images come back, so what was known of the items is out of date.
    caches.of(key.bucket).forget();
    if (answer.kind === "unknown" || answer.kind === "refused") noteUndecided(caches, key, answer);
    else if (isShardKey(key)) caches.noteAnswer(key);
  }
  if (answer.kind === "applied") return { kind: "committed" };
  return answer.kind === "failed" ? { kind: "outrun" } : answer;
}
