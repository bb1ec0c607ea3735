import { addMulDiv } from "./integers.ts";

/** Refill terms of a balance between two boundaries: `refillAmountMilli` every `refillPeriodMs`, up to `capacityMilli`. */
export interface Terms {
  readonly capacityMilli: number;
  readonly refillAmountMilli: number;
  readonly refillPeriodMs: number;
}

/**
 * Tokens as they stood at an epoch. They may be negative without any debt, or above the capacity: the level at a time is computed
 * from the epoch, and the overflow is cut off when tokens are taken, not when they drip in.
 */
export interface Balance {
  readonly tokensMilli: number;
  /** The fraction of a millitoken that the last rebase left over, as a numerator over `refillPeriodMs`. */
  readonly remainder: number;
}

/** The most that a balance may owe: past this, millitokens would no longer be exact. */
export const DEBT_MAX_MILLI = 9_000_000_000_000_000;

/** Part `index` of `count` of a whole number, so that the parts differ by at most one and add up to it exactly. */
export function share(whole: number, index: number, count: number): number {
  return part(whole, index + 1, count) - part(whole, index, count);
}

/** One part of several. */
export interface Part {
  readonly index: number;
  readonly count: number;
  /** `exact`: the parts add up to the whole. `floor`: all are alike, each rounded down, as the original has them. */
  readonly rounding: "exact" | "floor";
  /** Set for a quota on a table that the original writes too: the number of parts when it was last full. */
  readonly grantedAmong?: number;
}

export function divided(whole: number, { index, count, rounding, grantedAmong }: Part): number {
  return rounding === "floor" ? Math.floor(whole / (grantedAmong ?? count)) : share(whole, index, count);
}

/** The most that a limit may owe. A part may owe its share of that, so that parts can be joined. */
export function debtMaxMilli(part: Part | undefined): number {
  return part === undefined ? DEBT_MAX_MILLI : Math.floor(DEBT_MAX_MILLI / part.count);
}

function part(whole: number, index: number, count: number): number {
  return addMulDiv(0, whole, index, 0, count, Number.MAX_SAFE_INTEGER);
}
