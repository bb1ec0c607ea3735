import assert from "node:assert/strict";
import { test } from "node:test";
import { anyTerms, magnitude, thousandths } from "../../test/limits/arbitraries.ts";
import { floorDiv, lesser } from "../../test/limits/exact-bucket.ts";
import { fc } from "../../test/properties.ts";
import type { Balance, Terms } from "./balance.ts";
import { levelMilli, rebase, refilledMilli, wholeTokens } from "./level.ts";

const perMinute = (tokens: number): Terms => ({
  capacityMilli: tokens * 1000,
  refillAmountMilli: tokens * 1000,
  refillPeriodMs: 60_000,
});
const holding = (tokensMilli: number): Balance => ({ tokensMilli, remainder: 0 });

/** Ages of an epoch, from nothing to thirty years. */
const ages = magnitude(0, 1_000_000_000_000);

/** A balance below, at and over the brim, or in debt, with any remainder its terms allow. */
const anyBalance = (terms: Terms): fc.Arbitrary<Balance> =>
  fc.record({
    tokensMilli: fc.oneof(
      fc.integer({ min: -1000, max: 2000 }).map((parts) => thousandths(Math.min(terms.capacityMilli, 4e15), parts)),
      magnitude(0, 9_000_000_000_000_000).map((debt) => 0 - debt),
    ),
    remainder: fc.integer({ min: 0, max: terms.refillPeriodMs - 1 }),
  });
const anyBucket = anyTerms.chain((terms) => fc.record({ terms: fc.constant(terms), balance: anyBalance(terms) }));

test("60 a minute drip in one by one, a millitoken a millisecond", () => {
  const drained = holding(0);
  assert.equal(levelMilli(drained, perMinute(60), 0), 0);
  assert.equal(levelMilli(drained, perMinute(60), 1), 1);
  assert.equal(levelMilli(drained, perMinute(60), 1000), 1000);
  assert.equal(levelMilli(drained, perMinute(60), 60_000), 60_000);
  assert.equal(levelMilli(drained, perMinute(60), 60_001), 60_000);
});

test("a clock behind the epoch sees no time pass, and none is taken away", () => {
  assert.equal(levelMilli(holding(500), perMinute(60), -3_600_000), 500);
  assert.equal(refilledMilli(0, perMinute(60), -1), 0);
  assert.deepEqual(rebase({ tokensMilli: 500, remainder: 7 }, perMinute(60), -1), { tokensMilli: 500, remainder: 7 });
});

test("a limit that refills nothing stays where it is, for ever", () => {
  const terms = { capacityMilli: 1000, refillAmountMilli: 0, refillPeriodMs: 1000 };
  assert.equal(levelMilli(holding(400), terms, 1e12), 400);
  assert.deepEqual(rebase(holding(400), terms, 1e12), holding(400));
});

test("a debt of a single millitoken shows as -1 whole token, never as 0", () => {
  assert.equal(wholeTokens(-1), -1);
  assert.equal(wholeTokens(0), 0);
  assert.equal(wholeTokens(999), 0);
  assert.equal(wholeTokens(-1000), -1);
  assert.equal(wholeTokens(-1001), -2);
  assert.equal(wholeTokens(-4364), -5);
});

test("whole tokens are the exact ones rounded down, from the deepest debt to the largest capacity", () => {
  const levels = fc.tuple(magnitude(0, 9_000_000_000_000_000), fc.boolean());
  fc.assert(
    fc.property(levels, ([size, isOwed]) => {
      const milli = isOwed ? 0 - size : size;
      assert.equal(BigInt(wholeTokens(milli)), floorDiv(BigInt(milli), 1000n));
    }),
    { numRuns: 3000 },
  );
});

test("terms without a period are refused rather than divided by", () => {
  const terms = { capacityMilli: 1000, refillAmountMilli: 1000, refillPeriodMs: 0 };
  assert.throws(() => rebase(holding(0), terms, 1), /refill period of 0 ms/);
});

test("what a third of a millitoken leaves over is not lost by asking often", () => {
  const terms = { capacityMilli: 1000, refillAmountMilli: 1, refillPeriodMs: 3 };
  let balance = holding(0);
  for (let i = 0; i < 10; i++) balance = rebase(balance, terms, 1);
  assert.deepEqual(balance, { tokensMilli: 3, remainder: 1 });
});

test("the level is exact for every limit that may exist, thirty years after its epoch", () => {
  fc.assert(
    fc.property(anyBucket, ages, ({ balance, terms }, ageMs) => {
      const dripped = BigInt(ageMs) * BigInt(terms.refillAmountMilli) + BigInt(balance.remainder);
      const line = BigInt(balance.tokensMilli) + floorDiv(dripped, BigInt(terms.refillPeriodMs));
      assert.equal(BigInt(levelMilli(balance, terms, ageMs)), lesser(line, BigInt(terms.capacityMilli)));
    }),
    { numRuns: 3000 },
  );
});

test("the level never stands above the capacity and never falls as time goes on", () => {
  fc.assert(
    fc.property(anyBucket, ages, ages, ({ balance, terms }, a, b) => {
      const [sooner, later] = [Math.min(a, b), Math.max(a, b)];
      const level = levelMilli(balance, terms, sooner);
      assert.ok(level <= terms.capacityMilli);
      assert.ok(level <= levelMilli(balance, terms, later));
      assert.ok(levelMilli(balance, terms, -later) <= level);
    }),
    { numRuns: 1500 },
  );
});

test("telling a balance from a later epoch changes its level at no later time, not by a millitoken", () => {
  fc.assert(
    fc.property(
      anyBucket,
      fc.array(ages, { minLength: 1, maxLength: 6 }),
      ages,
      ({ balance, terms }, steps, restMs) => {
        let told = balance;
        let ageMs = 0;
        for (const stepMs of steps) {
          told = rebase(told, terms, stepMs);
          ageMs += stepMs;
          assert.ok(told.remainder >= 0 && told.remainder < terms.refillPeriodMs);
          assert.equal(levelMilli(told, terms, 0), levelMilli(balance, terms, ageMs));
        }
        assert.equal(levelMilli(told, terms, restMs), levelMilli(balance, terms, ageMs + restMs));
      },
    ),
    { numRuns: 1500 },
  );
});
