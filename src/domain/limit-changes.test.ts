import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { anyLimit, calendar, ODD_NUMBERS } from "../../test/limits/kind-arbitraries.ts";
import { availableMilli, type BucketState, bucketFor, findLimit, freshBucket, takeFrom } from "./bucket-state.ts";
import { numberOfInstant } from "./change-number.ts";
import { type Limit, limitMakers } from "./limit.ts";
import { type LimitsFrom, limitSet, type SetOrigin } from "./limit-set.ts";

const Limits = limitMakers(calendar);
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/** A midnight of UTC. */
const T0 = Date.UTC(2026, 2, 10);

type Change = readonly [fromMs: number, ...limits: Limit[]];

/** A claim of somebody who has read these changes; the last of them has the limits of now. */
function claim(...changes: readonly Change[]): { readonly set: LimitsFrom["set"]; readonly origin: SetOrigin } {
  const all = changes.map(
    ([fromMs, ...limits]): LimitsFrom => ({
      fromMs: T0 + fromMs,
      number: numberOfInstant(T0 + fromMs),
      set: limitSet(limits),
    }),
  );
  const { fromMs, number, set } = all.at(-1) as LimitsFrom;
  return { set, origin: { asOfMs: fromMs, generation: null, changeNumber: number, changes: all } };
}

function taken(state: BucketState, limit: string, tokens: number, atMs: number): BucketState {
  const after = takeFrom(state, [{ limit, milli: tokens * 1000 }], T0 + atMs);
  assert.ok(after, `${tokens} of ${limit} at ${atMs}`);
  return after;
}

function tokensAt(state: BucketState, limit: string, atMs: number): number {
  const held = findLimit(state, limit);
  assert.ok(held, `there is a limit ${limit}`);
  return availableMilli(state, held, T0 + atMs) / 1000;
}

function fresh(of: ReturnType<typeof claim>, atMs: number): BucketState {
  return freshBucket(of.set, of.origin, T0 + atMs, calendar);
}

test("a rate that was lowered while nobody asked counts from then on, not from the next request on", () => {
  const fast: Change = [0, Limits.perSecond("r", 10, { burst: 10_000 })];
  const slow: Change = [1_000_000, Limits.perSecond("r", 1, { burst: 10_000 })];
  const empty = taken(fresh(claim(fast), 0), "r", 10_000, 0);
  const late = bucketFor(empty, claim(fast, [100_000, ...slow.slice(1)] as Change), T0 + 1_100_000, calendar);
  assert.equal(tokensAt(late, "r", 1_100_000), 100 * 10 + 1_000 * 1);
});

test("a rate that was raised while nobody asked counts from then on", () => {
  const slow: Change = [0, Limits.perSecond("r", 1, { burst: 1_000 })];
  const fast: Change = [100_000, Limits.perSecond("r", 5, { burst: 1_000 })];
  const empty = taken(fresh(claim(slow), 0), "r", 1_000, 0);
  const late = bucketFor(empty, claim(slow, fast), T0 + 200_000, calendar);
  assert.equal(tokensAt(late, "r", 200_000), 100 * 1 + 100 * 5);
});

test("a limit that was lowered and raised again has lost what it could not hold in between", () => {
  const wide: Change = [0, Limits.perHour("r", 1_000)];
  const narrow: Change = [60_000, Limits.perHour("r", 10)];
  const again: Change = [120_000, Limits.perHour("r", 1_000)];
  const used = taken(fresh(claim(wide), 0), "r", 100, 0);
  // Nothing on the bucket tells that its limits were others meanwhile: they are the same again.
  const late = bucketFor(used, claim(wide, narrow, again), T0 + 120_000, calendar);
  assert.equal(tokensAt(late, "r", 120_000), 10);
});

test("each of several changes counts for its own time", () => {
  const changes: Change[] = [
    [0, Limits.perSecond("r", 1, { burst: 100_000 })],
    [10_000, Limits.perSecond("r", 100, { burst: 100_000 })],
    [20_000, Limits.perSecond("r", 2, { burst: 100_000 })],
    [30_000, Limits.perSecond("r", 50, { burst: 100_000 })],
  ];
  const empty = taken(fresh(claim(changes[0] as Change), 0), "r", 100_000, 0);
  const late = bucketFor(empty, claim(...changes), T0 + 40_000, calendar);
  assert.equal(tokensAt(late, "r", 40_000), 10 * 1 + 10 * 100 + 10 * 2 + 10 * 50);
});

test("a change that the bucket has gone through does not count again", () => {
  const fast: Change = [0, Limits.perSecond("r", 10, { burst: 1_000 })];
  const slow: Change = [10_000, Limits.perSecond("r", 1, { burst: 1_000 })];
  const both = claim(fast, slow);
  const met = bucketFor(taken(fresh(claim(fast), 0), "r", 1_000, 0), both, T0 + 20_000, calendar);
  assert.equal(met, bucketFor(met, both, T0 + 20_000, calendar), "the same object");
  assert.equal(tokensAt(bucketFor(met, both, T0 + 30_000, calendar), "r", 30_000), 100 + 10 + 10);
});

test("a change counts from the last write of the bucket where that came later and went by the old limits", () => {
  const slow: Change = [0, Limits.perSecond("r", 1, { burst: 1_000 })];
  const fast: Change = [10_000, Limits.perSecond("r", 50, { burst: 1_000 })];
  const empty = { ...taken(fresh(claim(slow), 0), "r", 1_000, 0), writtenMs: T0 + 15_000 };
  const late = bucketFor(empty, claim(slow, fast), T0 + 20_000, calendar);
  assert.equal(tokensAt(late, "r", 20_000), 15 * 1 + 5 * 50);
});

test("a change is never later than the request that meets it, whatever clock it was made by", () => {
  const slow: Change = [0, Limits.perSecond("r", 1, { burst: 1_000 })];
  const fast: Change = [10_000, Limits.perSecond("r", 100, { burst: 1_000 })];
  const empty = taken(fresh(claim(slow), 0), "r", 1_000, 0);
  const met = bucketFor(empty, claim(slow, fast), T0 + 5_000, calendar);
  assert.equal(tokensAt(met, "r", 5_000), 5);
  assert.equal(tokensAt(met, "r", 6_000), 105);
});

test("a calendar quota is full by its new amount at the next reset, also one before the next request", () => {
  const before: Change = [0, Limits.quota("day", 100, { reset: { cron: "0 0 * * *" } })];
  const after: Change = [HOUR_MS, Limits.quota("day", 40, { reset: { cron: "0 0 * * *" } })];
  const more: Change = [2 * HOUR_MS, Limits.quota("day", 70, { reset: { cron: "0 0 * * *" } })];
  const used = taken(fresh(claim(before), 0), "day", 10, 0);
  const sameDay = bucketFor(used, claim(before, after, more), T0 + 3 * HOUR_MS, calendar);
  assert.equal(tokensAt(sameDay, "day", 3 * HOUR_MS), 40, "cut to what it held in between");
  const nextDay = bucketFor(used, claim(before, after, more), T0 + DAY_MS, calendar);
  assert.equal(tokensAt(nextDay, "day", DAY_MS), 70);
});

test("a quota that became a limit that drips does so from the change on", () => {
  const quota: Change = [0, Limits.quota("r", 100, { reset: { cron: "0 0 * * *" } })];
  const drip: Change = [HOUR_MS, Limits.perHour("r", 60)];
  const used = taken(fresh(claim(quota), 0), "r", 100, 0);
  const late = bucketFor(used, claim(quota, drip), T0 + HOUR_MS + 600_000, calendar);
  assert.equal(tokensAt(late, "r", HOUR_MS + 600_000), 10);
});

test("an open session ends by its new length, and is full from the change on where that is over by then", () => {
  const long: Change = [0, Limits.quota("s", 10, { resetAfterMs: 5 * HOUR_MS })];
  const short: Change = [2 * HOUR_MS, Limits.quota("s", 10, { resetAfterMs: HOUR_MS })];
  const longer: Change = [3 * HOUR_MS, Limits.quota("s", 10, { resetAfterMs: 4 * HOUR_MS })];
  const used = taken(fresh(claim(long), 0), "s", 10, 0);
  const late = bucketFor(used, claim(long, short, longer), T0 + 3 * HOUR_MS + 1, calendar);
  assert.equal(tokensAt(late, "s", 3 * HOUR_MS + 1), 10, "over when it was shortened");
  const goesOn = bucketFor(used, claim(long, [HOUR_MS, ...longer.slice(1)] as Change), T0 + 3 * HOUR_MS, calendar);
  assert.equal(tokensAt(goesOn, "s", 3 * HOUR_MS), 0);
  assert.equal(goesOn.validUntilMs, T0 + 4 * HOUR_MS);
});

test("the debt of a soft limit that was made hard is forgiven at the change, and drips from there", () => {
  const soft: Change = [0, Limits.perSecond("r", 1, { burst: 100, soft: true })];
  const hard: Change = [10_000, Limits.perSecond("r", 1, { burst: 100 })];
  const deep = taken(fresh(claim(soft), 0), "r", 1_000, 0);
  const late = bucketFor(deep, claim(soft, hard), T0 + 30_000, calendar);
  assert.equal(tokensAt(late, "r", 30_000), 20);
});

test("a limit that was taken away goes on by its last rule until it comes back", () => {
  const both: Change = [0, Limits.perHour("a", 3_600), Limits.perSecond("b", 1, { burst: 1_000 })];
  const one: Change = [10_000, Limits.perHour("a", 3_600)];
  const again: Change = [50_000, Limits.perHour("a", 3_600), Limits.perSecond("b", 10, { burst: 1_000 })];
  const empty = taken(fresh(claim(both), 0), "b", 1_000, 0);
  const late = bucketFor(empty, claim(both, one, again), T0 + 60_000, calendar);
  assert.equal(tokensAt(late, "b", 60_000), 50 * 1 + 10 * 10);
});

test("limits brought with a request count from the request on, and stored ones after them from the next request on", () => {
  const stored: Change = [0, Limits.perSecond("r", 1, { burst: 1_000 })];
  const given = {
    set: limitSet([Limits.perSecond("r", 10, { burst: 1_000 })]),
    origin: { asOfMs: T0 + 10_000, generation: null, changeNumber: numberOfInstant(T0), given: true as const },
  };
  const empty = taken(fresh(claim(stored), 0), "r", 1_000, 0);
  const byGiven = bucketFor(empty, given, T0 + 10_000, calendar);
  assert.equal(tokensAt(byGiven, "r", 10_000), 10);
  const { set, origin } = claim(stored);
  const back = bucketFor(byGiven, { set, origin: { ...origin, asOfMs: T0 + 20_000 } }, T0 + 20_000, calendar);
  assert.equal(tokensAt(back, "r", 20_000), 110);
});

test("changes that are met late leave what requests in between would have left, whatever the kinds", () => {
  const sets = fc.array(anyLimit("fine", ODD_NUMBERS), { minLength: 0, maxLength: 2 }).map((limits) =>
    // Two names, so that limits come, go and return as something else.
    limits.map((limit, i): Limit => ({ ...limit, name: i === 0 ? "a" : "b" })),
  );
  const gapMs = fc.oneof(fc.integer({ min: 1, max: 60_000 }), fc.integer({ min: 1, max: 2 * DAY_MS }));
  let moved = 0;
  fc.assert(
    fc.property(
      sets.filter((limits) => limits.length > 0),
      fc.array(fc.record({ gapMs, limits: sets }), { minLength: 1, maxLength: 5 }),
      fc.nat(100),
      gapMs,
      (first, steps, percent, lastMs) => {
        const changes: Change[] = [[0, ...first]];
        let atMs = 1_000;
        for (const step of steps) {
          atMs += step.gapMs;
          changes.push([atMs, ...step.limits]);
        }
        const start = fresh(claim(changes[0] as Change), 0);
        const amounts = start.limits.map(({ name, terms }) => ({
          limit: name,
          milli: Math.floor((terms.capacityMilli * percent) / 100),
        }));
        const used = takeFrom(start, amounts, T0) as BucketState;
        const endMs = T0 + atMs + lastMs;
        const late = bucketFor(used, claim(...changes), endMs, calendar);
        let stepwise = used;
        for (let i = 1; i < changes.length; i++) {
          stepwise = bucketFor(stepwise, claim(...changes.slice(0, i + 1)), T0 + (changes[i]?.[0] ?? 0), calendar);
        }
        stepwise = bucketFor(stepwise, claim(...changes), endMs, calendar);
        for (const { name } of stepwise.limits)
          assert.equal(tokensAt(late, name, endMs - T0), tokensAt(stepwise, name, endMs - T0));
        assert.deepEqual(
          late.limits.map(({ name, configured }) => [name, configured]),
          stepwise.limits.map(({ name, configured }) => [name, configured]),
        );
        if (percent > 0 && steps.length > 1) moved++;
      },
    ),
    { numRuns: 400 },
  );
  assert.ok(moved > 150, `only ${moved} stories had several changes`);
});
