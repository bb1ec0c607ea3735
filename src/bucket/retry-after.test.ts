import assert from "node:assert/strict";
import { test } from "node:test";
import { anyTerms, magnitude } from "../../test/limits/arbitraries.ts";
import { ceilDiv } from "../../test/limits/exact-bucket.ts";
import { fc } from "../../test/properties.ts";
import type { Balance, Terms } from "./balance.ts";
import { dripMs, elapsedUntil } from "./level.ts";
import { take } from "./take.ts";

const perMinute = (tokens: number): Terms => ({
  capacityMilli: tokens * 1000,
  refillAmountMilli: tokens * 1000,
  refillPeriodMs: 60_000,
});
const holding = (tokensMilli: number): Balance => ({ tokensMilli, remainder: 0 });

test("a refused caller is let in at exactly the moment it was told", () => {
  const drained = holding(0);
  assert.equal(elapsedUntil(drained, perMinute(60), 0, 1000), 1000);
  assert.equal(take(drained, perMinute(60), 999, 1000), undefined);
  assert.equal(take(drained, perMinute(60), 1000, 1000), -1000);
});

test("what fits now is not waited for, and never before now", () => {
  assert.equal(elapsedUntil(holding(5000), perMinute(60), 250, 1000), 250);
  assert.equal(elapsedUntil(holding(0), perMinute(60), 5000, 1000), 5000);
  assert.equal(elapsedUntil(holding(5000), perMinute(60), -250, 1000), 0);
});

test("an amount above the capacity, or one that nothing refills, is waited for for ever", () => {
  assert.equal(elapsedUntil(holding(0), perMinute(60), 0, 60_001), Number.POSITIVE_INFINITY);
  const once = { capacityMilli: 1000, refillAmountMilli: 0, refillPeriodMs: 1000 };
  assert.equal(elapsedUntil(holding(0), once, 0, 1), Number.POSITIVE_INFINITY);
  assert.equal(elapsedUntil(holding(1), once, 0, 1), 0);
  assert.equal(dripMs(1, once), Number.POSITIVE_INFINITY);
});

test("nothing while in debt has to wait until the debt is paid", () => {
  assert.equal(elapsedUntil(holding(-2000), perMinute(60), 0, 0), 2000);
});

test("millitokens that drip in between two milliseconds count from the later one", () => {
  assert.equal(dripMs(0, perMinute(60)), 0);
  assert.equal(dripMs(-5, perMinute(60)), 0);
  assert.equal(dripMs(1, perMinute(7)), 9); // 7000 a minute: one in 8.57 ms
});

test("the wait is the first millisecond at which the take succeeds, for every limit that may exist", () => {
  const cases = anyTerms.chain((terms) =>
    fc.record({
      terms: fc.constant(terms),
      amountMilli: fc.integer({ min: 0, max: terms.capacityMilli }),
      debtMilli: magnitude(0, 9_000_000_000_000_000),
      remainder: fc.integer({ min: 0, max: terms.refillPeriodMs - 1 }),
    }),
  );
  fc.assert(
    fc.property(cases, ({ terms, amountMilli, debtMilli, remainder }) => {
      const balance = { tokensMilli: 0 - debtMilli, remainder };
      const gap = (BigInt(amountMilli) + BigInt(debtMilli)) * BigInt(terms.refillPeriodMs) - BigInt(remainder);
      const expected = gap <= 0n ? 0n : ceilDiv(gap, BigInt(terms.refillAmountMilli));
      const waitMs = elapsedUntil(balance, terms, 0, amountMilli);
      if (expected > BigInt(Number.MAX_SAFE_INTEGER)) return assert.equal(waitMs, Number.POSITIVE_INFINITY);
      assert.equal(BigInt(waitMs), expected);
    }),
    { numRuns: 3000 },
  );
});

test("asking for the drip of what is missing is exact beyond 2^53", () => {
  fc.assert(
    fc.property(anyTerms, magnitude(1, 9_000_000_000_000_000), (terms, missingMilli) => {
      const exact = ceilDiv(BigInt(missingMilli) * BigInt(terms.refillPeriodMs), BigInt(terms.refillAmountMilli));
      const expected = exact > BigInt(Number.MAX_SAFE_INTEGER) ? Number.POSITIVE_INFINITY : Number(exact);
      assert.equal(dripMs(missingMilli, terms), expected);
    }),
    { numRuns: 1000 },
  );
});
