import type { Balance, Terms } from "./balance.ts";
import { addMulDiv, divFloor, mulMod } from "./integers.ts";

/** Millitokens that dripped in since the epoch, whole ones only; saturates at the largest safe integer. */
export function refilledMilli(remainder: number, terms: Terms, elapsedMs: number): number {
  if (elapsedMs <= 0 || terms.refillAmountMilli === 0) return 0;
  return addMulDiv(0, elapsedMs, terms.refillAmountMilli, remainder, terms.refillPeriodMs, Number.MAX_SAFE_INTEGER);
}

/** What the balance holds `elapsedMs` after its epoch: at most the capacity, negative in debt. Never decreases with time. */
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

/** The same balance relative to an epoch `elapsedMs` later, with the overflow cut off: conserves every millitoken. */
export function rebase(balance: Balance, terms: Terms, elapsedMs: number): Balance {
  if (elapsedMs <= 0) return balance;
  const { refillAmountMilli, refillPeriodMs } = terms;
  if (refillPeriodMs <= 0) throw new RangeError(`A refill period of ${refillPeriodMs} ms; it must be at least 1.`);
  const tokensMilli = levelMilli(balance, terms, elapsedMs);
  // The remainder is kept over the brim too: a take that cuts the overflow off without a rebase cannot touch it, and the
  // two must agree to the millitoken. It can never lift the level over the capacity.
  // What does not drip for a while keeps its fraction: it drips again when its terms change.
  const remainder =
    refillAmountMilli === 0
      ? balance.remainder
      : mulMod(elapsedMs, refillAmountMilli, balance.remainder, refillPeriodMs);
  return { tokensMilli, remainder };
}
