import assert from "node:assert/strict";
import { test } from "node:test";
import { anyLimit, calendar, ODD_NUMBERS } from "../../../test/limits/kind-arbitraries.ts";
import { fc } from "../../../test/properties.ts";
import { numberOfInstant } from "../config/change-number.ts";
import { type Limit, limitMakers } from "../limits/limit.ts";
import { type LimitsFrom, limitSet, type SetOrigin } from "../limits/limit-set.ts";
import type { ScheduleEntry } from "../limits/schedule.ts";
import { toppedUp } from "./bucket-operations.ts";
import { availableMilli, type BucketState, bucketFor, findLimit, freshBucket, takeFrom } from "./bucket-state.ts";

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
  assert.equal(tokensAt(sameDay, "day", 3 * HOUR_MS), 60, "all but what was used");
  const nextDay = bucketFor(used, claim(before, after, more), T0 + DAY_MS, calendar);
  assert.equal(tokensAt(nextDay, "day", DAY_MS), 70);
});

/** A monthly quota. */
function month(amount: number, options: { readonly soft?: boolean } = {}): Limit {
  return Limits.quota("month", amount, { reset: { cron: "0 0 1 * *" }, ...options });
}

test("a quota keeps what was used: who used 900 of 1,000 and comes to 100,000 has 99,100 left", () => {
  const used = taken(fresh(claim([0, month(1_000)]), 0), "month", 900, 0);
  const left = (...amounts: readonly Limit[]) => {
    const changes = amounts.map((limit, i): Change => [(i + 1) * HOUR_MS, limit]);
    const late = bucketFor(used, claim([0, month(1_000)], ...changes), T0 + 9 * HOUR_MS, calendar);
    return tokensAt(late, "month", 9 * HOUR_MS);
  };
  assert.equal(left(month(100_000)), 99_100);
  assert.equal(left(month(10), month(1_000)), 100, "a wrong plan, and back");
  assert.equal(left(month(500)), -400);
  assert.equal(left(month(500), month(950)), 50);
  assert.equal(left(month(500, { soft: true }), month(600)), 0, "a soft limit made hard owes nothing");
  assert.equal(left(month(500, { soft: true }), month(1_000)), 100);
  assert.equal(left(Limits.quota("month", 2_000, { reset: { cron: "0 0 * * *" } })), 1_100, "another pattern");
  assert.equal(left(Limits.quota("month", 2_000, { resetAfterMs: 10 * HOUR_MS })), 1_100, "a session that began then");
  assert.equal(left(Limits.perDay("month", 2_400)), 100 + 800, "a rate keeps its balance");
});

test("a quota holds its amount less what was used, however amounts come and go within its period", () => {
  const step = fc.oneof(
    fc.record({ amount: fc.integer({ min: 1, max: 300 }), isAway: fc.boolean() }),
    fc.record({ take: fc.integer({ min: 0, max: 100 }) }),
    fc.record({ topUp: fc.integer({ min: 1, max: 50 }) }),
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 20 }), fc.boolean(), (steps, isSession) => {
      const of = (amount: number) =>
        Limits.quota("q", amount, isSession ? { resetAfterMs: DAY_MS } : { reset: { cron: "0 0 * * *" } });
      const set = (limit: Limit | undefined) =>
        limitSet([Limits.perHour("other", 5), ...(limit === undefined ? [] : [limit])]);
      let [amount, used, bought, atMs] = [100, 1, 0, T0];
      let state = taken(freshBucket(set(of(amount)), { asOfMs: T0, generation: null }, T0, calendar), "q", used, 0);
      const bring = (limit: Limit | undefined) => {
        state = bucketFor(state, { set: set(limit), origin: { asOfMs: ++atMs, generation: null } }, atMs, calendar);
      };
      for (const one of steps) {
        if ("amount" in one) {
          if (one.isAway) bring(undefined);
          bring(of(one.amount));
          amount = one.amount;
        } else if ("take" in one) {
          const after = takeFrom(state, [{ limit: "q", milli: one.take * 1000 }], atMs);
          const fits = used + one.take <= amount + bought;
          assert.equal(after !== undefined, fits || (one.take === 0 && used <= amount + bought));
          if (after !== undefined) [state, used] = [after, used + one.take];
        } else {
          const after = toppedUp(state, [{ limit: "q", milli: one.topUp * 1000 }], atMs, calendar);
          assert.equal(after.kind, "toppedUp");
          if (after.kind === "toppedUp") [state, bought] = [after.state, bought + one.topUp];
        }
        assert.equal(tokensAt(state, "q", atMs - T0), amount + bought - used);
      }
    }),
  );
});

test("a quota with a window is counted from the capacity that its period began with, so a change mints nothing", () => {
  // At noon it holds at most 100 of 1,000.
  const narrow = (amount: number) =>
    Limits.quota("q", amount, { reset: { cron: "0 0 * * *" }, schedule: [{ cron: "* 12 * * *", capacity: 100 }] });
  const used = taken(fresh(claim([0, narrow(1_000)]), 0), "q", 800, 0);
  const after = (atMs: number, ...changes: readonly Change[]) =>
    tokensAt(bucketFor(used, claim([0, narrow(1_000)], ...changes), T0 + atMs, calendar), "q", atMs);
  const noon = 12 * HOUR_MS;
  assert.equal(after(11 * HOUR_MS, [HOUR_MS, narrow(2_000)]), 1_200);
  assert.equal(after(13 * HOUR_MS), 100, "what a window cut off is gone");
  assert.equal(after(13 * HOUR_MS, [13 * HOUR_MS, narrow(2_000)]), 1_100);
  assert.equal(after(13 * HOUR_MS, [noon, narrow(10)], [13 * HOUR_MS, narrow(1_000)]), 100);
});

test("a schedule that is only written in another way is no other amount", () => {
  // Stores write Sunday as 7, and the zone beside it. At the weekend it holds 100; what was left on Friday is cut to that.
  const weekends = (schedule: ScheduleEntry) =>
    Limits.quota("q", 1_000, { reset: { cron: "0 0 31 * *" }, schedule: [schedule] });
  const written = weekends({ cron: "* * * * 0,6", capacity: 100 });
  const used = fresh(claim([0, written]), 0);
  const sameAgain: Change = [5 * DAY_MS, weekends({ capacity: 100, cron: "* * * * 7,6", tz: "UTC" })];
  assert.equal(
    tokensAt(bucketFor(used, claim([0, written], sameAgain), T0 + 5 * DAY_MS, calendar), "q", 5 * DAY_MS),
    100,
  );
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
