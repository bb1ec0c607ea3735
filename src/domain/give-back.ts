import { credit } from "../bucket/take.ts";
import type { Amount } from "./amounts.ts";
import type { BucketState, LimitState } from "./bucket-state.ts";
import { findLimit } from "./bucket-state.ts";
import type { Calendar } from "./calendar.ts";
import { periodEndMs, sameReset } from "./limit-state.ts";
import type { Reset } from "./schedule.ts";

/** In which period of a quota something was taken: it is given back into that one, never into the next. */
export interface PeriodPin {
  readonly limit: string;
  /** Of a calendar quota: its period is known by its end, as long as the calendar it goes by stays the same. */
  readonly reset: Reset | undefined;
  /** End of the calendar period; `Infinity` for a session. */
  readonly untilMs: number;
  readonly windowStartMs: number | undefined;
  readonly resets: number;
}

/** What a store remembers of a take, to give it back later. */
export interface TakeMark {
  readonly pins: readonly PeriodPin[];
}

/** The mark of nearly every take: nothing about it needs remembering. */
export const PLAIN_MARK: TakeMark = Object.freeze({ pins: Object.freeze([]) });

/** The mark of a take, from the state it left behind. */
export function markOf(state: BucketState, amounts: readonly Amount[], nowMs: number, calendar: Calendar): TakeMark {
  if (state.plain) return PLAIN_MARK;
  let pins: PeriodPin[] | undefined;
  for (let a = 0; a < amounts.length; a++) {
    const name = (amounts[a] as Amount).limit;
    const held = findLimit(state, name);
    if (held?.quota === undefined) continue;
    const { windowStartMs, resets } = held.quota;
    const untilMs = periodEndMs(held.limit, Math.max(nowMs, state.epochMs), calendar);
    pins ??= [];
    pins.push({ limit: name, reset: held.limit.reset, untilMs, windowStartMs, resets });
  }
  return pins === undefined ? PLAIN_MARK : { pins };
}

/**
 * The bucket with the amounts given back: a limit that the bucket no longer holds is left out, and so is a quota whose
 * period has ended since. The bucket must be across its boundaries, lest what comes back now is clipped by
 * a window of before.
 */
export function giveBack(state: BucketState, amounts: readonly Amount[], mark: TakeMark, nowMs: number): BucketState {
  const limits = state.limits.slice();
  for (const amount of amounts) {
    const i = limits.findIndex(({ name }) => name === amount.limit);
    const held = limits[i];
    if (held === undefined || !isOfPeriod(held, mark, Math.max(nowMs, state.epochMs))) continue;
    limits[i] = { ...held, tokensMilli: credit(held, amount.milli) };
  }
  return { ...state, limits };
}

/** Whether what was taken then belongs into the period that a limit is in now. */
export function isOfPeriod({ name, limit, quota }: LimitState, { pins }: TakeMark, nowMs: number): boolean {
  const pin = pins.find((one) => one.limit === name);
  if (quota === undefined) return pin === undefined;
  if (pin === undefined || pin.resets !== quota.resets || pin.windowStartMs !== quota.windowStartMs) return false;
  if (limit.resetAfterMs === undefined) return sameReset(pin.reset, limit.reset) && nowMs < pin.untilMs;
  return quota.windowStartMs !== undefined && nowMs < quota.windowStartMs + limit.resetAfterMs;
}
