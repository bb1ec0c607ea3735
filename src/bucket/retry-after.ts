import type { Balance, Terms } from "./balance.ts";
import { gapMulDivCeil, mulDivCeil } from "./integers.ts";

/**
 * The first `elapsedMs` since the epoch, not before `fromMs`, at which `amountMilli` can be taken; `Infinity` when it
 * never can, because it is more than the balance can hold or because nothing drips in.
 */
export function elapsedUntil(balance: Balance, terms: Terms, fromMs: number, amountMilli: number): number {
  if (amountMilli > terms.capacityMilli) return Number.POSITIVE_INFINITY;
  const { tokensMilli, remainder } = balance;
  if (amountMilli <= tokensMilli) return Math.max(0, fromMs);
  if (terms.refillAmountMilli === 0) return Number.POSITIVE_INFINITY;
  // What is missing times the period is more than the remainder: that is less than one millitoken. From a deep debt to a
  // large amount the gap itself can pass 2^53.
  const elapsedMs = gapMulDivCeil(amountMilli, tokensMilli, terms.refillPeriodMs, remainder, terms.refillAmountMilli);
  return Math.max(0, fromMs, elapsedMs);
}

/** Milliseconds that `missingMilli` take to drip in, rounded up; 0 when nothing is missing. */
export function dripMs(missingMilli: number, terms: Terms): number {
  if (missingMilli <= 0) return 0;
  if (terms.refillAmountMilli === 0) return Number.POSITIVE_INFINITY;
  return mulDivCeil(missingMilli, terms.refillPeriodMs, 0, terms.refillAmountMilli);
}
