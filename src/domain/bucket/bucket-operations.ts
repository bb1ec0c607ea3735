import { levelMilli } from "../../bucket/level.ts";
import type { Amount } from "../charge/amounts.ts";
import type { Calendar } from "../limits/calendar.ts";
import { rulesOf } from "../limits/kinds/table.ts";
import { marksAfterUse } from "../limits/limit-kinds.ts";
import { MILLI_MAX } from "../limits/limit-numbers.ts";
import { assembled, type BucketState } from "./bucket-state.ts";
import { NO_SLICES } from "./holds.ts";
import { type LimitState, renewed } from "./limit-state.ts";

/** What became of a purchase. `tooLarge`: nothing was done, as the limit would hold more than can be counted exactly. */
export type ToppedUp =
  | { readonly kind: "toppedUp"; readonly state: BucketState; readonly gained: readonly Amount[] }
  | TooLarge;

/** No limit gained anything. */
export interface TooLarge {
  readonly kind: "tooLarge";
  readonly limit: string;
  readonly repeated: false;
  readonly amounts: readonly [];
}

export function tooLarge(limit: string): TooLarge {
  return { kind: "tooLarge", limit, repeated: false, amounts: [] };
}

/** Whether a quota of so many millitokens has room for so many more among the exact numbers. */
export function hasRoomFor(capacityMilli: number, milli: number): boolean {
  return capacityMilli + milli <= MILLI_MAX;
}

/**
 * The bucket after a purchase: a quota gains exactly the amount, and its capacity rises by it until the next reset; a limit
 * that drips gains at most the room below its capacity. It is relative to `nowMs`, before and after.
 */
export function toppedUp(state: BucketState, amounts: readonly Amount[], nowMs: number, calendar: Calendar): ToppedUp {
  const atMs = Math.max(nowMs, state.epochMs);
  const gained: Amount[] = [];
  for (const { name, quota, terms } of state.limits) {
    const milli = amounts.find(({ limit }) => limit === name)?.milli ?? 0;
    if (quota !== undefined && milli > 0 && !hasRoomFor(terms.capacityMilli, milli)) {
      return tooLarge(name);
    }
  }
  const limits = state.limits.map((held) => {
    const milli = amounts.find(({ limit }) => limit === held.name)?.milli;
    if (milli === undefined || milli === 0) return held;
    // There is no balance to fill: what is not held is free.
    if (rulesOf(held.limit).holdsSlots) return held;
    const after = held.quota === undefined ? filled(held, milli, atMs - state.epochMs) : extended(held, milli, atMs);
    gained.push({ limit: held.name, milli: held.quota === undefined ? after.tokensMilli - held.tokensMilli : milli });
    return after;
  });
  return { kind: "toppedUp", state: assembled({ ...state, limits }, calendar), gained };
}

/**
 * The bucket with some limits (all when undefined) full again: debt forgiven, a new period begun, a session closed. What is at once still
 * runs: slots are forgotten only where their limit is named.
 */
export function resetLimits(
  state: BucketState,
  names: readonly string[] | undefined,
  nowMs: number,
  calendar: Calendar,
): BucketState {
  const atMs = Math.max(nowMs, state.epochMs);
  const limits = state.limits.map((held) => {
    if (names !== undefined && !names.includes(held.name)) return held;
    const { holdsSlots } = rulesOf(held.limit);
    if (names === undefined && holdsSlots) return held;
    const kept = names === undefined ? held : { ...held, slices: NO_SLICES };
    const full = renewed(kept, atMs, calendar);
    if (held.quota === undefined || full.quota === undefined) return { ...full, rememberUntilMs: 0 };
    // Leases from before the reset give nothing back after it.
    // Forgotten, it would count its resets anew when it comes back within the period, and what was taken before this one would
    // be given back after it. What is closed has no period, and knows the next one by when it opens.
    const rules = rulesOf(held.limit);
    const rememberUntilMs =
      holdsSlots || rules.isClosed(full.quota) ? 0 : rules.endMs(held.limit, full.quota, atMs, calendar);
    return { ...full, quota: { ...full.quota, resets: held.quota.resets + 1 }, rememberUntilMs };
  });
  return assembled({ ...state, limits }, calendar);
}

/** When a quota's balance is full again by itself; undefined for what drips, and for a session that has not begun. */
export function resetsAtMs({ limit, quota }: LimitState, nowMs: number, calendar: Calendar): number | undefined {
  const rules = rulesOf(limit);
  if (quota === undefined || rules.isClosed(quota)) return undefined;
  const atMs = rules.endMs(limit, quota, nowMs, calendar);
  return atMs === Number.POSITIVE_INFINITY ? undefined : atMs;
}

function filled(held: LimitState, milli: number, elapsedMs: number): LimitState {
  const room = held.terms.capacityMilli - levelMilli(held, held.terms, elapsedMs);
  return { ...held, tokensMilli: held.tokensMilli + Math.min(milli, Math.max(0, room)) };
}

function extended(held: LimitState, milli: number, atMs: number): LimitState {
  const { terms } = held;
  // What is bought begins to count now: a session that had not begun does.
  const quota = marksAfterUse(held, milli, atMs);
  if (quota === undefined) return held;
  const capacityMilli = terms.capacityMilli + milli;
  return {
    ...held,
    terms: { ...terms, capacityMilli },
    tokensMilli: Math.min(held.tokensMilli, terms.capacityMilli) + milli,
    quota: { ...quota, topUpMilli: quota.topUpMilli + milli },
  };
}
