import assert from "node:assert/strict";
import { test } from "node:test";
import { createCalendar } from "../../adapters/system/calendar.ts";
import { bucketKey } from "../../domain/bucket/bucket-key.ts";
import { type BucketState, debitFrom, freshBucket } from "../../domain/bucket/bucket-state.ts";
import { limitSet } from "../../domain/limits/limit-set.ts";
import type { Calendar } from "../../domain/limits/schedule.ts";
import { Limit } from "../../entry/limits.ts";
import { checkRefusal } from "../acquire/request.ts";
import { fitsAtMs, type ObservedBucket, type RefusalTimes, refusalOf } from "./refusal.ts";

const calendar = createCalendar();
const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const T0 = Date.UTC(2026, 2, 15, 11, 50);

/** A bucket from which so much was taken at T0, and what is asked of it, in tokens. */
function asked(
  entityId: string,
  limits: readonly Limit[],
  taken: Record<string, number>,
  ask: Record<string, number>,
): ObservedBucket {
  const amounts = (tokens: Record<string, number>) =>
    Object.entries(tokens).map(([limit, count]) => ({ limit, milli: count * 1000 }));
  const full = freshBucket(limitSet(limits), { asOfMs: T0, generation: null }, T0, calendar);
  const state = debitFrom(full, amounts(taken), T0) as BucketState;
  return {
    bucket: bucketKey(entityId, "api"),
    state,
    limits,
    take: amounts(ask),
    leavePercent: 0,
    taken: false,
    bypass: false,
    seen: "now",
  };
}

/** Every level of the chain was asked. */
const refused = (observed: readonly ObservedBucket[], times: RefusalTimes, by: Calendar) =>
  refusalOf(observed, observed, times, by);

const rpm = [Limit.perMinute("rpm", 60)];

test("a refusal has one wait, counted from when the caller hears of it", () => {
  const observed = [asked("a", rpm, { rpm: 60 }, { rpm: 4 })];
  const refusal = refused(observed, { askedMs: T0, toldMs: T0 + 901 }, calendar);
  assert.equal(refusal.retryAfterMs, 3_099);
  assert.equal(refusal.primary.retryAfterMs, 3_099);
  assert.deepEqual(
    refusal.statuses.map(({ retryAfterMs }) => retryAfterMs),
    [3_099],
  );
});

test("the wait is that of the level that takes longest, and every level has a status", () => {
  const observed = [
    asked("key", rpm, { rpm: 58 }, { rpm: 4 }),
    asked("team", rpm, { rpm: 60 }, { rpm: 4 }),
    asked("org", rpm, { rpm: 10 }, { rpm: 4 }),
  ];
  const refusal = refused(observed, { askedMs: T0, toldMs: T0 }, calendar);
  assert.deepEqual(
    refusal.statuses.map((status) => [status.entityId, status.available, status.exceeded, status.retryAfterMs]),
    [
      ["key", 2, true, 2_000],
      ["team", 0, true, 4_000],
      ["org", 50, false, 0],
    ],
  );
  assert.equal(refusal.primary, refusal.statuses[1]);
  assert.equal(refusal.retryAfterMs, 4_000);
});

test("limits that fit at different times only are waited for until they fit together, and the primary status says so", () => {
  // From noon to one the first limit holds 100 and fills within a minute; the second is full at 13:50.
  const window = { cron: "* 12 * * *", capacity: 100, refillAmount: 6_000 };
  const limits = [
    Limit.perHour("a", 10, { schedule: [window] }),
    Limit.custom("b", { capacity: 60, refillAmount: 30, refillPeriodMs: HOUR_MS }),
  ];
  const observed = [asked("key", limits, { b: 60 }, { a: 50, b: 60 })];
  const nextNoon = 24 * HOUR_MS + 10 * MINUTE_MS + 24_000;
  assert.equal(fitsAtMs(observed, T0, calendar), T0 + nextNoon);
  const refusal = refused(observed, { askedMs: T0, toldMs: T0 }, calendar);
  assert.equal(refusal.retryAfterMs, nextNoon);
  assert.equal(refusal.primary.limit, "a");
  assert.equal(refusal.primary.retryAfterMs, nextNoon);
  assert.equal(refusal.statuses[1]?.retryAfterMs, 2 * HOUR_MS, "the other one alone");
});

test("a status speaks of what there was before the request, also where the request had been taken already", () => {
  const before = asked("team", rpm, { rpm: 14 }, { rpm: 4 });
  const observed = [{ ...before, taken: true }, asked("org", rpm, { rpm: 60 }, { rpm: 4 })];
  const { statuses } = refused(observed, { askedMs: T0, toldMs: T0 }, calendar);
  assert.equal(statuses[0]?.available, 50);
});

test("a millitoken owed shows as a debt of 1, as it refuses a request for 0, and is waited for one millisecond", () => {
  const slow = [Limit.custom("r", { capacity: 10, refillAmount: 1, refillPeriodMs: 1_000 })];
  const observed = [asked("a", slow, { r: 11 }, { r: 0 })];
  const refusal = refused(observed, { askedMs: T0 + 999, toldMs: T0 + 999 }, calendar);
  assert.equal(refusal.primary.available, -1);
  assert.equal(refusal.primary.exceeded, true);
  assert.equal(refusal.retryAfterMs, 1);
});

test("soft limits and bypassed buckets have a status and are never the reason", () => {
  const soft = [Limit.perMinute("rpm", 60, { soft: true })];
  const observed = [
    asked("a", soft, { rpm: 100 }, { rpm: 1 }),
    { ...asked("b", rpm, { rpm: 100 }, { rpm: 1 }), bypass: true },
    asked("c", rpm, { rpm: 60 }, { rpm: 1 }),
  ];
  const refusal = refused(observed, { askedMs: T0, toldMs: T0 }, calendar);
  assert.deepEqual(
    refusal.statuses.map(({ available, exceeded }) => [available, exceeded]),
    [
      [-40, false],
      [-40, false],
      [0, true],
    ],
  );
  assert.equal(refusal.primary.entityId, "c");
});

test("what a bucket can never hold, but the limits of the request can, is a refusal and no mistake of the caller", () => {
  const [seen] = [asked("a", rpm, { rpm: 1 }, { rpm: 200 })];
  const planned = { ...seen, limits: [Limit.perMinute("rpm", 500)] } as ObservedBucket;
  const times = { askedMs: T0, toldMs: T0 };
  const unsure = refused([planned], times, calendar);
  assert.equal(unsure.retryAfterMs, Number.POSITIVE_INFINITY);
  assert.doesNotThrow(() => checkRefusal(unsure));
  const sure = refused([seen as ObservedBucket], times, calendar);
  assert.equal(sure.retryAfterMs, Number.POSITIVE_INFINITY);
  assert.throws(() => checkRefusal(sure), { code: "amount_above_capacity", message: /the capacity is 60/ });
});

test("of a bucket that could not be looked at and was never seen nothing is said; of one that was, when", () => {
  const [key, parent] = [asked("key", rpm, { rpm: 60 }, { rpm: 4 }), asked("p", rpm, { rpm: 10 }, { rpm: 4 })];
  const times = { askedMs: T0, toldMs: T0 };
  const unseen = refused([key, { ...parent, seen: "never" }], times, calendar);
  assert.deepEqual(
    unseen.statuses.map(({ entityId }) => entityId),
    ["key"],
  );
  assert.deepEqual(unseen.levels, ["key", "p"]);
  const before = refused([key, { ...parent, seen: { atMs: T0 - 500 } }], times, calendar);
  assert.deepEqual(
    before.statuses.map(({ asOfMs }) => asOfMs),
    [undefined, T0 - 500],
  );
  // Not decided in time, and nothing seen: not full, and asked again at once.
  const blind = refused([{ ...parent, seen: "never" }], times, calendar);
  assert.deepEqual([blind.primary.available, blind.primary.exceeded, blind.retryAfterMs], [0, true, 1]);
});
