import type { Balance, Terms } from "./balance.ts";
import { addMulDiv, divFloor, gapMulDivCeil, mulDivCeil, mulMod } from "./integers.ts";

/** Millitokens that dripped in since the epoch, whole ones only; saturates at the largest safe integer. */
export function refilledMilli(remainder: number, terms: Terms, elapsedMs: number): number {
  if (elapsedMs <= 0 || terms.refillAmountMilli === 0) return 0;
  return addMulDiv(0, elapsedMs, terms.refillAmountMilli, remainder, terms.refillPeriodMs, Number.MAX_SAFE_INTEGER);
}

/** The level `elapsedMs` after the epoch: at most the capacity, negative in debt. It never decreases with time. */
export function levelMilli(balance: Balance, terms: Terms, elapsedMs: number): number {
  if (elapsedMs <= 0 || terms.refillAmountMilli === 0) return Math.min(terms.capacityMilli, balance.tokensMilli);
  return addMulDiv(
    balance.tokensMilli,
    elapsedMs,
    terms.refillAmountMilli,
    balance.remainder,
    terms.refillPeriodMs,
    terms.capacityMilli,
  );
}

/**
 * Whole tokens in a level, for people to read: rounded down, debts too. A limit that owes anything shows at least -1, so that
 * none that refuses a request for 0 ever shows 0.
 */
export function wholeTokens(milli: number): number {
  return divFloor(milli, 1000);
}

/** Moves the epoch of a balance `elapsedMs` on, and cuts the overflow off. Every millitoken is conserved. */
export function rebase(balance: Balance, terms: Terms, elapsedMs: number): Balance {
  if (elapsedMs <= 0) return balance;
  const { refillAmountMilli, refillPeriodMs } = terms;
  if (refillPeriodMs <= 0) throw new RangeError(`A refill period of ${refillPeriodMs} ms; it must be at least 1.`);
  const tokensMilli = levelMilli(balance, terms, elapsedMs);
  // The remainder is kept above the capacity too: a take that cuts the overflow off without a rebase cannot touch it, and the two
  // must agree to the millitoken. It can never lift the level above the capacity. A balance that does not drip for a while keeps
  // its fraction for the time when it does.
  const remainder =
    refillAmountMilli === 0
      ? balance.remainder
      : mulMod(elapsedMs, refillAmountMilli, balance.remainder, refillPeriodMs);
  return { tokensMilli, remainder };
}

/**
 * The first `elapsedMs` since the epoch, not before `fromMs`, at which `amountMilli` can be taken; `Infinity` when it
 * never can, because it is more than the balance can hold or because nothing drips in.
 */
export function elapsedUntil(balance: Balance, terms: Terms, fromMs: number, amountMilli: number): number {
  if (amountMilli > terms.capacityMilli) return Number.POSITIVE_INFINITY;
  const { tokensMilli, remainder } = balance;
  if (amountMilli <= tokensMilli) return Math.max(0, fromMs);
  if (terms.refillAmountMilli === 0) return Number.POSITIVE_INFINITY;
  // The missing tokens times the period exceed the remainder, which is less than one millitoken. From a deep debt to a large
  // amount the gap itself can pass 2^53.
  const elapsedMs = gapMulDivCeil(amountMilli, tokensMilli, terms.refillPeriodMs, remainder, terms.refillAmountMilli);
  return Math.max(0, fromMs, elapsedMs);
}

/** Milliseconds that `missingMilli` take to drip in, rounded up; 0 when nothing is missing. */
export function dripMs(missingMilli: number, terms: Terms): number {
  if (missingMilli <= 0) return 0;
  if (terms.refillAmountMilli === 0) return Number.POSITIVE_INFINITY;
  return mulDivCeil(missingMilli, terms.refillPeriodMs, 0, terms.refillAmountMilli);
}
