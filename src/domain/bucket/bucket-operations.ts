import { levelMilli } from "../../bucket/level.ts";
import { type Amount, milliOf } from "../charge/amounts.ts";
import { marksAfterUse } from "../limits/changed-limit.ts";
import { rulesOf } from "../limits/kinds/table.ts";
import { MILLI_MAX } from "../limits/limit-numbers.ts";
import type { Calendar } from "../limits/schedule.ts";
import { assembled, type BucketState, boundedBy } from "./bucket-state.ts";
import { NO_SLICES } from "./holds.ts";
import { type LimitState, renewed } from "./limit-state.ts";

/** The outcome of a purchase. `tooLarge`: nothing was done, as the limit would hold more than can be counted exactly. */
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
    const milli = milliOf(amounts, name);
    if (quota !== undefined && milli > 0 && !hasRoomFor(terms.capacityMilli, milli)) return tooLarge(name);
  }
  const limits = state.limits.map((held) => {
    const milli = milliOf(amounts, held.name);
    if (milli === 0) return held;
    // There is no balance to fill: what is not held is free.
    if (rulesOf(held.limit).holdsSlots) return held;
    const after = held.quota === undefined ? filled(held, milli, atMs - state.epochMs) : extended(held, milli, atMs);
    gained.push({ limit: held.name, milli: held.quota === undefined ? after.tokensMilli - held.tokensMilli : milli });
    return after;
  });
  return { kind: "toppedUp", state: withLimitsNow(state, limits, calendar), gained };
}

/**
 * The bucket with some limits (all when undefined) full again: debt forgiven, a new period begun, a session closed. The work that holds
 * slots still runs: slots are forgotten only where their limit is named.
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
    // Leases from before the reset give nothing back after it. A limit that was forgotten would count its resets anew when it comes back
    // within the period, and take such give-backs. A closed one has no period, and knows the next one by when it opens.
    const rules = rulesOf(held.limit);
    const rememberUntilMs =
      holdsSlots || rules.isClosed(full.quota) ? 0 : rules.endMs(held.limit, full.quota, atMs, calendar);
    return { ...full, quota: { ...full.quota, resets: held.quota.resets + 1 }, rememberUntilMs };
  });
  return withLimitsNow(state, limits, calendar);
}

/** The bucket with its limits in another state. Where its boundary is none of theirs, an override ends then: that one stays. */
function withLimitsNow(state: BucketState, limits: readonly LimitState[], calendar: Calendar): BucketState {
  const next = assembled({ ...state, limits }, calendar);
  const isAtEnd = assembled(state, calendar).validUntilMs > state.validUntilMs;
  return isAtEnd ? boundedBy(next, state.validUntilMs) : next;
}

/** The instant at which a quota is full again by itself; undefined for a limit that drips, and for a session that has not begun. */
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
  // A purchase counts from now on: a session that had not begun begins.
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
