import type { Terms } from "../../src/bucket/balance.ts";
import { fc } from "../properties.ts";

/** Millitokens of the largest capacity or amount that a limit may have: 9 * 10^12 tokens. */
export const MILLI_MAX = 9_000_000_000_000_000;

/** Whole numbers of every magnitude up to `max`, not only the large ones that a uniform draw gives. */
export function magnitude(min: number, max: number): fc.Arbitrary<number> {
  const bounds = [min];
  for (let high = Math.max(10, min * 10); high < max; high *= 1000) bounds.push(high);
  return fc.oneof(...bounds.map((low, i) => fc.integer({ min: low, max: bounds[i + 1] ?? max })), fc.constant(max));
}

export const safeInteger = fc.oneof(
  magnitude(0, Number.MAX_SAFE_INTEGER),
  fc.integer({ min: 2 ** 53 - 50, max: Number.MAX_SAFE_INTEGER }),
);

/** Terms of any limit that may exist, from one millitoken a fortnight to the bounds. */
export const anyTerms: fc.Arbitrary<Terms> = fc.record({
  capacityMilli: magnitude(1, MILLI_MAX),
  refillAmountMilli: magnitude(1, MILLI_MAX),
  refillPeriodMs: magnitude(1, 1_000_000_000_000),
});

/** Terms as callers write them: hundreds of tokens, periods from a second to a day, rates that do not divide evenly. */
export const usualTerms: fc.Arbitrary<Terms> = fc.record({
  capacityMilli: fc.integer({ min: 1, max: 200 }).map((tokens) => tokens * 1000),
  refillAmountMilli: fc.integer({ min: 1, max: 200 }).map((tokens) => tokens * 1000),
  refillPeriodMs: fc.constantFrom(1_000, 3_000, 7_000, 60_000, 3_600_000, 86_400_000),
});

/** A part of a whole number, in thousandths, rounded down. */
export function thousandths(whole: number, parts: number): number {
  return Number((BigInt(whole) * BigInt(parts)) / 1000n);
}
