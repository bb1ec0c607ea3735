import assert from "node:assert/strict";
import { test } from "node:test";
import { thousandths, usualTerms } from "../../test/limits/arbitraries.ts";
import { ExactBucket, unitsPerMilliOf } from "../../test/limits/exact-bucket.ts";
import { fc } from "../../test/properties.ts";
import { type Balance, DEBT_MAX_MILLI, type Terms } from "./balance.ts";
import { levelMilli, rebase } from "./level.ts";
import { credit, debit, take } from "./take.ts";

const HOUR_MS = 3_600_000;
const perMinute = (tokens: number): Terms => ({
  capacityMilli: tokens * 1000,
  refillAmountMilli: tokens * 1000,
  refillPeriodMs: 60_000,
});
const holding = (tokensMilli: number): Balance => ({ tokensMilli, remainder: 0 });

test("an idle hour gives the capacity once, not the stored tokens and then the hour's refill", () => {
  const terms = perMinute(100);
  let balance = holding(99_000); // one call at birth, then silence
  let admitted = 0;
  for (let i = 0; i < 300; i++) {
    const tokensMilli = take(balance, terms, HOUR_MS, 1000);
    if (tokensMilli === undefined) continue;
    balance = { ...balance, tokensMilli };
    admitted++;
  }
  assert.equal(admitted, 100);
});

test("a debit on an overfull bucket comes off the capacity, not off the overflow", () => {
  const terms = perMinute(100);
  const tokensMilli = debit(holding(100_000), terms, HOUR_MS, 30_000) ?? 0;
  assert.equal(levelMilli(holding(tokensMilli), terms, HOUR_MS), 70_000);
});

test("a debit of nothing cuts the overflow off and changes no level", () => {
  const terms = perMinute(100);
  const tokensMilli = debit(holding(250_000), terms, HOUR_MS, 0) ?? 0;
  assert.equal(levelMilli(holding(tokensMilli), terms, HOUR_MS), 100_000);
  assert.equal(levelMilli(holding(tokensMilli), terms, HOUR_MS + 60_000), 100_000);
});

test("what is given back over the brim is gone with the next take", () => {
  const terms = perMinute(100);
  const full = holding(credit(holding(100_000), 50_000));
  assert.equal(levelMilli(full, terms, 0), 100_000);
  assert.equal(take(full, terms, 0, 100_001), undefined);
  assert.equal(take(full, terms, 0, 100_000), 0);
});

test("taking exactly what is there succeeds, one millitoken more does not", () => {
  assert.equal(take(holding(1500), perMinute(60), 500, 2000), -500);
  assert.equal(take(holding(1500), perMinute(60), 500, 2001), undefined);
});

test("taking nothing is refused in debt and granted at zero", () => {
  assert.equal(take(holding(-1), perMinute(60), 0, 0), undefined);
  assert.equal(take(holding(0), perMinute(60), 0, 0), 0);
});

test("a debt past the exact integers is refused, not rounded", () => {
  const terms = perMinute(60);
  const deep = holding(-DEBT_MAX_MILLI);
  assert.equal(debit(deep, terms, 0, 0), -DEBT_MAX_MILLI);
  assert.equal(debit(deep, terms, 0, 1), undefined);
});

test("an epoch so old that its refill passes the exact integers is refused, not spent twice", () => {
  const terms = { capacityMilli: 9e15, refillAmountMilli: 9e15, refillPeriodMs: 1000 };
  assert.throws(() => take(holding(9e15), terms, 60_000, 1000), /rebase/);
  const young = rebase(holding(9e15), terms, 60_000);
  assert.equal(take(young, terms, 0, 1000), 9e15 - 1000);
});

interface Step {
  readonly kind: "take" | "debit" | "credit" | "look";
  readonly waitMs: number;
  readonly parts: number;
  readonly rebase: boolean;
}

const steps: fc.Arbitrary<Step[]> = fc.array(
  fc.record({
    kind: fc.constantFrom("take", "take", "debit", "credit", "look"),
    waitMs: fc.oneof(fc.integer({ min: 0, max: 50 }), fc.integer({ min: 0, max: 100_000 }), fc.constant(HOUR_MS)),
    parts: fc.integer({ min: 0, max: 1100 }),
    rebase: fc.boolean(),
  }),
  { minLength: 1, maxLength: 30, size: "max" },
);

interface Outcome {
  readonly nowMs: number;
  readonly amountMilli: number;
  /** False for a take that was refused. */
  readonly applied: boolean;
  readonly levelMilli: number;
}

/** Runs a story on one balance, told from its first epoch or from a later one wherever the story says so. */
function run(terms: Terms, story: readonly Step[], rebasing: boolean): Outcome[] {
  let balance = holding(terms.capacityMilli);
  let epochMs = 0;
  let nowMs = 0;
  return story.map((step) => {
    nowMs += step.waitMs;
    if (rebasing && step.rebase) {
      balance = rebase(balance, terms, nowMs - epochMs);
      epochMs = nowMs;
    }
    const ageMs = nowMs - epochMs;
    const amountMilli = thousandths(terms.capacityMilli, step.parts);
    const tokensMilli = tokensAfter(balance, terms, { kind: step.kind, ageMs, amountMilli });
    if (tokensMilli !== undefined) balance = { ...balance, tokensMilli };
    return { nowMs, amountMilli, applied: tokensMilli !== undefined, levelMilli: levelMilli(balance, terms, ageMs) };
  });
}

function tokensAfter(
  balance: Balance,
  terms: Terms,
  call: { kind: Step["kind"]; ageMs: number; amountMilli: number },
): number | undefined {
  switch (call.kind) {
    case "take":
      return take(balance, terms, call.ageMs, call.amountMilli);
    case "debit":
      return debit(balance, terms, call.ageMs, call.amountMilli);
    case "credit":
      return credit(balance, call.amountMilli);
    case "look":
      return balance.tokensMilli;
  }
}

test("splitting an interval by rebases changes no answer, not by a millitoken", () => {
  fc.assert(
    fc.property(usualTerms, steps, (terms, story) => {
      assert.deepEqual(run(terms, story, true), run(terms, story, false));
    }),
    { numRuns: 1500 },
  );
});

test("any mix of calls leaves the level at that of a bucket that never rounds, or less than a millitoken above", () => {
  fc.assert(
    fc.property(usualTerms, steps, fc.boolean(), (terms, story, rebasing) => {
      const exact = new ExactBucket(terms, unitsPerMilliOf([terms]), 0);
      for (const [i, outcome] of run(terms, story, rebasing).entries()) {
        const { kind } = story[i] as Step;
        const amount = BigInt(outcome.amountMilli);
        exact.advance(outcome.nowMs);
        // A take may be judged differently only where a millitoken decides it.
        if (kind === "take" && outcome.applied) assert.ok(exact.floorMilli() >= amount - 1n, `step ${i} granted`);
        if (kind === "take" && !outcome.applied) assert.ok(exact.floorMilli() <= amount, `step ${i} refused`);
        if (kind === "credit") exact.add(outcome.amountMilli);
        else if (kind !== "look" && outcome.applied) exact.add(0 - outcome.amountMilli);
        const apart = BigInt(outcome.levelMilli) - exact.floorMilli();
        assert.ok(apart === 0n || apart === 1n, `step ${i}: ${outcome.levelMilli} against ${exact.floorMilli()}`);
      }
    }),
    { numRuns: 1500 },
  );
});
