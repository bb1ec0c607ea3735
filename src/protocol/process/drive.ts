import type { MaybePromise } from "../../ports/bucket-store.ts";
import type { ItemAnswer, ItemWrite, Undecided } from "../../ports/item-store.ts";
import type { ProtocolContext } from "../context.ts";
import { SENDING_SHEET, SheetWriting } from "../decide/sheet.ts";
import { hourOfSheet } from "../usage/sheet-text.ts";
import { damageOr, noteUndecided, observed, read, transact } from "./calls.ts";
import type { Action, Event, Machine, SheetAction } from "./machine.ts";
import { backoffMs, RETRY, type RetryPolicy } from "./retry-policy.ts";

interface Budget {
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
        if (action.prepares === undefined) attempts++;
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
