import { type Balance, DEBT_MAX_MILLI, type Terms } from "./balance.ts";
import { levelMilli, refilledMilli } from "./level.ts";

/**
 * The tokens of a balance, still relative to its epoch, after `amountMilli` was taken `elapsedMs` later; `undefined` when
 * they do not suffice. Nothing that another client depends on moves: not the epoch, not the remainder.
 */
export function take(balance: Balance, terms: Terms, elapsedMs: number, amountMilli: number): number | undefined {
  const left = takeOrShort(balance, terms, elapsedMs, amountMilli);
  return left === Number.NEGATIVE_INFINITY ? undefined : left;
}

/**
 * Like `take`, with `-Infinity` for undefined, for takes in memory: V8 does not allocate a number where a function only returns
 * numbers.
 */
export function takeOrShort(balance: Balance, terms: Terms, elapsedMs: number, amountMilli: number): number {
  const refilled = drippedMilli(balance, terms, elapsedMs);
  const left = Math.min(balance.tokensMilli, terms.capacityMilli - refilled) - amountMilli;
  return left + refilled >= 0 ? left : Number.NEGATIVE_INFINITY;
}

/** Like `take`, but at least `floorMilli` must be left. */
export function takeAbove(
  floorMilli: number,
  balance: Balance,
  terms: Terms,
  elapsedMs: number,
  amountMilli: number,
): number | undefined {
  if (levelMilli(balance, terms, elapsedMs) - amountMilli < floorMilli) return undefined;
  return take(balance, terms, elapsedMs, amountMilli);
}

/** Like `take`, but the balance may go into debt; `undefined` where that would be so deep that it is no longer exact. */
export function debit(balance: Balance, terms: Terms, elapsedMs: number, amountMilli: number): number | undefined {
  if (levelMilli(balance, terms, elapsedMs) - amountMilli < -DEBT_MAX_MILLI) return undefined;
  return debited(balance, terms, elapsedMs, amountMilli);
}

/** Tokens after giving `amountMilli` back. There is no cap: the next take cuts the overflow off, and a cap here would need the time. */
export function credit(balance: Balance, amountMilli: number): number {
  return Math.min(Number.MAX_SAFE_INTEGER, balance.tokensMilli + amountMilli);
}

// The overflow is cut off in the same step in which tokens leave. Were it left for a later refill, an idle hour would
// count twice: once as the stored tokens, once as the time that filled them.
function debited(balance: Balance, terms: Terms, elapsedMs: number, amountMilli: number): number {
  const refilled = drippedMilli(balance, terms, elapsedMs);
  const tokensMilli = Math.min(balance.tokensMilli, terms.capacityMilli - refilled) - amountMilli;
  if (tokensMilli < -Number.MAX_SAFE_INTEGER) throw tooOld(elapsedMs);
  return tokensMilli;
}

// A saturated refill would place the capacity too high, and the difference would be spent a second time.
function drippedMilli(balance: Balance, terms: Terms, elapsedMs: number): number {
  const refilled = refilledMilli(balance.remainder, terms, elapsedMs);
  if (refilled === Number.MAX_SAFE_INTEGER) throw tooOld(elapsedMs);
  return refilled;
}

function tooOld(elapsedMs: number): RangeError {
  return new RangeError(
    `An epoch ${elapsedMs} ms old is past exact integers for these terms; rebase the balance first.`,
  );
}
