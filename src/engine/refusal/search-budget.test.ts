import assert from "node:assert/strict";
import { test } from "node:test";
import { calendar } from "../../../test/limits/kind-arbitraries.ts";
import { bucketKey } from "../../domain/bucket/bucket-key.ts";
import { type BucketState, debitFrom, freshBucket, wholeOf } from "../../domain/bucket/bucket-state.ts";
import { SEARCH_STEPS } from "../../domain/bucket/search.ts";
import { type Limit, limitMakers } from "../../domain/limits/limit.ts";
import { limitSet } from "../../domain/limits/limit-set.ts";
import type { Calendar } from "../../domain/limits/schedule.ts";
import { RateLimiter } from "../../entry/index.ts";
import { SimulatedClock } from "../../testing/simulated-clock.ts";
import { type ObservedBucket, refusalOf } from "./refusal.ts";

// One search for a wait costs a bounded number of steps, whatever the limits are; within them the wait is exact.

const Kinds = limitMakers(calendar);
const T0 = Date.UTC(2026, 2, 10, 12, 30);

/** Asks for so much of `a` and of `b`, at so many levels, and counts the questions to the calendar. */
function counted(limits: readonly Limit[], tokens: number, levels: number, isTouched: boolean) {
  let questions = 0;
  const asked = <Args extends unknown[], Value>(ask: (...args: Args) => Value) => {
    return (...args: Args): Value => {
      questions++;
      return ask(...args);
    };
  };
  const counting: Calendar = {
    problemOf: calendar.problemOf,
    matches: asked(calendar.matches),
    nextChange: asked(calendar.nextChange),
    nextReset: asked(calendar.nextReset),
    previousReset: asked(calendar.previousReset),
  };
  const take = limits.map(({ name }) => ({ limit: name, milli: tokens * 1000 }));
  const observed = Array.from({ length: levels }, (_, level): ObservedBucket => {
    const full = freshBucket(limitSet(limits), { asOfMs: T0, generation: null }, T0, calendar);
    const one = limits.map(({ name }) => ({ limit: name, milli: 1000 }));
    const state = isTouched ? (debitFrom(full, one, T0) as BucketState) : full;
    const asked = { take, leavePercent: 0, taken: false, bypass: false };
    return { bucket: bucketKey(`e${level}`, "api"), state, limits, ...asked, seen: "now" };
  });
  const { retryAfterMs } = refusalOf(observed, observed, { askedMs: T0, toldMs: T0 }, counting);
  return { questions, retryAfterMs };
}

/** A step asks each window of one limit, when it changes next and whether it is open, once before and once after it. */
function questionsMost(limits: readonly Limit[]): number {
  const windows = Math.max(...limits.map(({ schedule }) => schedule?.length ?? 0));
  return SEARCH_STEPS * (4 * windows + 4);
}

const newYear = "0 0 1 1 *";
const EVERY_OTHER_MINUTE: readonly Limit[] = [
  Kinds.perMinute("a", 2, { schedule: [{ cron: "*/2 * * * *", capacity: 50 }] }),
  Kinds.perMinute("b", 100, { schedule: [{ cron: "*/2 * * * *", capacity: 3 }] }),
];
const NEVER_MEET: readonly (readonly [string, readonly Limit[]])[] = [
  [
    "a minute at new year in which the other holds too little",
    [
      Kinds.quota("a", 2, { reset: { cron: "0 0 * * *" }, schedule: [{ cron: newYear, capacity: 50 }] }),
      Kinds.perMinute("b", 100, {
        schedule: [
          { cron: newYear, capacity: 3 },
          { cron: "0-9 * * * *", scale: 0.5 },
        ],
      }),
    ],
  ],
  ["odd and even minutes", EVERY_OTHER_MINUTE],
  [
    "a night of the week, in a zone",
    [
      Kinds.perMinute("a", 2, { schedule: [{ cron: "30 2 * * 0", tz: "America/New_York", capacity: 50 }] }),
      Kinds.perMinute("b", 100, { schedule: [{ cron: "30 2 * * 0", tz: "America/New_York", capacity: 3 }] }),
    ],
  ],
  [
    "a limit that takes years to fill, under windows that change every minute",
    [
      Kinds.custom("a", {
        capacity: 100,
        refillAmount: 1,
        refillPeriodMs: 365 * 86_400_000,
        schedule: [{ cron: "*/2 * * * *", scale: 2 }],
      }),
      Kinds.perMinute("b", 2, { schedule: [{ cron: "0 0 29 2 *", capacity: 50 }] }),
    ],
  ],
];

for (const [when, limits] of NEVER_MEET) {
  for (const levels of [1, 3, 8]) {
    test(`a refusal does not search without end: ${when}, at ${levels} levels`, () => {
      for (const isTouched of [false, true]) {
        const { questions, retryAfterMs } = counted(limits, 10, levels, isTouched);
        assert.ok(questions <= questionsMost(limits) + 100 * levels, `${questions} questions to the calendar`);
        assert.ok(retryAfterMs > 60_000, `asked to come back in ${retryAfterMs} ms, which is no progress`);
      }
    });
  }
}

test("a bucket in many shards is searched by the same steps", () => {
  const limits = EVERY_OTHER_MINUTE;
  const set = limitSet(limits);
  const shards = Array.from({ length: 16 }, (_, index) => {
    const full = freshBucket(set, { asOfMs: T0, generation: null }, T0, calendar);
    const part = { index, count: 16, rounding: "exact" as const };
    return { ...full, untouched: false, limits: full.limits.map((held) => ({ ...held, part, tokensMilli: 0 })) };
  });
  const state = wholeOf(shards, calendar);
  const take = limits.map(({ name }) => ({ limit: name, milli: 10_000 }));
  let questions = 0;
  const nextChange: Calendar["nextChange"] = (...asked) => {
    questions++;
    return calendar.nextChange(...asked);
  };
  const observed: ObservedBucket = {
    ...{ bucket: bucketKey("e", "api"), state, limits, take },
    ...{ leavePercent: 0, taken: false, bypass: false, seen: "now" },
  };
  refusalOf([observed], [observed], { askedMs: T0, toldMs: T0 }, { ...calendar, nextChange });
  assert.ok(questions <= questionsMost(limits), `${questions} questions to the calendar`);
});

test("windows that meet after 455 boundaries are told once, to the millisecond", async () => {
  const clock = new SimulatedClock(T0);
  const limiter = await RateLimiter.open({ store: "memory", clock });
  const tenMinutes = "0-9 * * * *";
  await limiter.setResourceDefaults("api", [
    Kinds.perMinute("a", 1, { schedule: [{ cron: tenMinutes, capacity: 50 }] }),
    Kinds.perMinute("b", 5, {
      schedule: [
        { cron: "* * 20 * *", capacity: 5 },
        { cron: tenMinutes, capacity: 1 },
      ],
    }),
  ]);
  const both = { entityId: "e", resource: "api", consume: { a: 2, b: 2 } };
  const refused = await limiter.tryAcquire(both);
  assert.ok(!refused.ok);
  assert.equal(refused.retryAfterMs, 227.5 * 3_600_000);
  assert.equal(await limiter.timeUntilAvailable(both), refused.retryAfterMs);
  assert.equal((await limiter.explain(both)).retryAfterMs, refused.retryAfterMs);
  await clock.advance(refused.retryAfterMs - 1);
  assert.equal((await limiter.tryAcquire(both)).ok, false);
  await clock.advance(1);
  assert.equal((await limiter.tryAcquire(both)).ok, true);
});

test("beyond the steps a caller is told when to ask again: never too late, and it gets there", async () => {
  const clock = new SimulatedClock(T0);
  const limiter = await RateLimiter.open({ store: "memory", clock });
  // They meet on the 20th at midnight, some 27,000 boundaries ahead.
  await limiter.setResourceDefaults("api", [
    Kinds.perMinute("a", 1, { schedule: [{ cron: "*/2 * * * *", capacity: 50 }] }),
    Kinds.perMinute("b", 5, {
      schedule: [
        { cron: "* * 20 * *", capacity: 5 },
        { cron: "*/2 * * * *", capacity: 1 },
      ],
    }),
  ]);
  const both = { entityId: "e", resource: "api", consume: { a: 2, b: 2 } };
  let asks = 0;
  for (; asks < 30; asks++) {
    const outcome = await limiter.tryAcquire(both);
    if (outcome.ok) break;
    assert.equal(await limiter.timeUntilAvailable(both), outcome.retryAfterMs);
    assert.equal((await limiter.explain(both)).retryAfterMs, outcome.retryAfterMs);
    clock.set(clock.now() + outcome.retryAfterMs);
  }
  assert.equal(clock.now(), Date.UTC(2026, 2, 20));
  assert.ok(asks > 5 && asks < 30, `${asks} times`);
});

test("a wait beyond the calendar beside one that never ends is never, whichever limit comes first", async () => {
  const clock = new SimulatedClock(T0);
  const limiter = await RateLimiter.open({ store: "memory", clock });
  const eternal = Kinds.custom("e", { capacity: 9_000_000_000, refillAmount: 1, refillPeriodMs: 86_400_000_000 });
  const quota = Kinds.quota("q", 10, { reset: { cron: "0 0 * * *" } });
  for (const [i, limits] of [
    [eternal, quota],
    [quota, eternal],
  ].entries()) {
    await limiter.setResourceDefaults(`r${i}`, limits);
    await limiter.acquire({ entityId: "a", resource: `r${i}`, consume: { e: 9_000_000_000 } });
    const asked = { entityId: "a", resource: `r${i}`, consume: { e: 9_000_000_000, q: 11 } };
    assert.equal(await limiter.timeUntilAvailable(asked), Number.POSITIVE_INFINITY);
    const { outcome, retryAfterMs } = await limiter.explain(asked);
    assert.deepEqual({ outcome, retryAfterMs }, { outcome: "never", retryAfterMs: Number.POSITIVE_INFINITY });
    await assert.rejects(limiter.tryAcquire(asked), { code: "amount_above_capacity" });
  }
});
