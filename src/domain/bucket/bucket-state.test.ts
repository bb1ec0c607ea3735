import assert from "node:assert/strict";
import { test } from "node:test";
import { createCalendar } from "../../adapters/system/calendar.ts";
import type { Amount } from "../charge/amounts.ts";
import { Limit } from "../limits/limit.ts";
import { type LimitSet, limitSet, type SetOrigin } from "../limits/limit-set.ts";
import { fits, isIdle } from "./bucket-questions.ts";
import {
  assembled,
  availableMilli,
  type BucketState,
  bucketFor,
  debitFrom as debitNow,
  findLimit,
  freshBucket,
  takeFrom as takeNow,
} from "./bucket-state.ts";
import { giveBack, PLAIN_TICKET } from "./give-back.ts";
import { fullLimit } from "./limit-state.ts";
import { searchFor } from "./search.ts";

const T0 = 1_800_000_000_000;
const SECOND_MS = 1_000;
const HOUR_MS = 3_600_000;

const calendar = createCalendar();

const stored = (generation: number): SetOrigin => ({ asOfMs: T0, generation });
const given = (asOfMs: number): SetOrigin => ({ asOfMs, generation: null });

function fresh(...limits: Limit[]): BucketState {
  return freshBucket(limitSet(limits), stored(1), T0, calendar);
}

function bringLimits(state: BucketState, set: LimitSet, origin: SetOrigin, nowMs: number): BucketState {
  return bucketFor(state, { set, origin }, nowMs, calendar);
}

/** As a store brings it before it takes: by the limits that the bucket has, with what time did since. */
function asOf(state: BucketState, nowMs: number): BucketState {
  return bringLimits(
    state,
    { limits: [], signature: state.signature, isByName: true, isBeyondRates: false },
    state.origin,
    nowMs,
  );
}

function takeFrom(state: BucketState, amounts: readonly Amount[], nowMs: number): BucketState | undefined {
  return takeNow(asOf(state, nowMs), amounts, nowMs);
}

function debitFrom(state: BucketState, amounts: readonly Amount[], nowMs: number): BucketState {
  const after = debitNow(asOf(state, nowMs), amounts, nowMs);
  assert.ok(after !== undefined, "so much can be owed");
  return after;
}

function creditTo(state: BucketState, amounts: readonly Amount[]): BucketState {
  return giveBack(state, amounts, PLAIN_TICKET, T0);
}

function tokens(amounts: Readonly<Record<string, number>>): Amount[] {
  return Object.entries(amounts).map(([limit, whole]) => ({ limit, milli: whole * 1000 }));
}

function taken(state: BucketState, amounts: Readonly<Record<string, number>>, nowMs: number): BucketState {
  const after = takeFrom(state, tokens(amounts), nowMs);
  assert.ok(after !== undefined, `${JSON.stringify(amounts)} at ${nowMs - T0} ms was refused`);
  return after;
}

function milli(state: BucketState, name: string, nowMs: number): number {
  const limit = findLimit(state, name);
  assert.ok(limit !== undefined, `the bucket has no limit ${name}`);
  return availableMilli(state, limit, nowMs);
}

test("a bucket that nobody has taken from is full, and stays so", () => {
  const state = fresh(Limit.perMinute("rpm", 10, { burst: 25 }));
  assert.equal(milli(state, "rpm", T0), 25_000);
  assert.equal(milli(state, "rpm", T0 + HOUR_MS), 25_000);
});

test("when one limit of two is short, nothing is taken from the other", () => {
  const state = fresh(Limit.perMinute("rpm", 10), Limit.perMinute("tpm", 100));
  assert.equal(takeFrom(state, tokens({ rpm: 1, tpm: 101 }), T0), undefined);
  assert.equal(milli(state, "rpm", T0), 10_000);
  assert.equal(fits(state, tokens({ rpm: 1, tpm: 101 }), T0, 0), false);
  assert.equal(fits(state, tokens({ rpm: 1, tpm: 100 }), T0, 0), true);
  const after = taken(state, { rpm: 1, tpm: 100 }, T0);
  assert.deepEqual([milli(after, "rpm", T0), milli(after, "tpm", T0)], [9_000, 0]);
});

test("a taken bucket is a new value; the one before still shows what it held", () => {
  const before = fresh(Limit.perMinute("rpm", 10));
  taken(before, { rpm: 10 }, T0);
  assert.equal(milli(before, "rpm", T0), 10_000);
});

test("one call at birth and an idle hour admit 100 of 100 a minute, not 199", () => {
  let state = taken(fresh(Limit.perMinute("rpm", 100)), { rpm: 1 }, T0);
  let admitted = 0;
  for (let i = 0; i < 300; i++) {
    const after = takeFrom(state, tokens({ rpm: 1 }), T0 + HOUR_MS);
    if (after === undefined) continue;
    state = after;
    admitted++;
  }
  assert.equal(admitted, 100);
});

test("a limit of ten a day does not starve beside one of one a second that is used every two seconds", () => {
  let state = taken(fresh(Limit.perDay("rpd", 10), Limit.perSecond("rps", 1)), { rpd: 10, rps: 1 }, T0);
  for (let nowMs = T0 + 2 * SECOND_MS; nowMs <= T0 + 8_000 * SECOND_MS; nowMs += 2 * SECOND_MS) {
    state = taken(state, { rps: 1 }, nowMs);
  }
  assert.equal(milli(state, "rpd", T0 + 8_000 * SECOND_MS), 925); // 10 tokens * 8000 s / 86400 s = 0.9259
});

test("a limit of ten a day does not starve when the limit beside it is changed every two seconds", () => {
  const daily = Limit.perDay("rpd", 10);
  let state = taken(fresh(daily), { rpd: 10 }, T0);
  for (let i = 1; i <= 4_000; i++) {
    const set = limitSet([daily, Limit.perSecond("rps", 1 + (i % 2))]);
    state = bringLimits(state, set, stored(1 + i), T0 + i * 2 * SECOND_MS);
  }
  assert.equal(milli(state, "rpd", T0 + 8_000 * SECOND_MS), 925);
});

test("a limit does not starve when it is itself changed again and again", () => {
  let state = taken(fresh(Limit.perDay("rpd", 10)), { rpd: 10 }, T0);
  for (let i = 1; i <= 4_000; i++) {
    // The same rate said in two ways.
    const period =
      i % 2 === 0 ? { refillAmount: 10, refillPeriodMs: 86_400_000 } : { refillAmount: 5, refillPeriodMs: 43_200_000 };
    const set = limitSet([Limit.custom("rpd", { capacity: 10, ...period })]);
    state = bringLimits(state, set, stored(1 + i), T0 + i * 2 * SECOND_MS);
  }
  assert.equal(milli(state, "rpd", T0 + 8_000 * SECOND_MS), 925);
});

test("a debit on an overfull bucket comes off the capacity, not off the idle time", () => {
  const state = debitFrom(fresh(Limit.perMinute("tpm", 100)), tokens({ tpm: 30 }), T0 + HOUR_MS / 2);
  assert.equal(milli(state, "tpm", T0 + HOUR_MS / 2), 70_000);
});

test("a debit may leave a debt, which time pays off before anything is granted again", () => {
  const state = debitFrom(fresh(Limit.perMinute("tpm", 60)), tokens({ tpm: 90 }), T0);
  assert.equal(milli(state, "tpm", T0), -30_000);
  assert.equal(takeFrom(state, tokens({ tpm: 0 }), T0 + 29_999), undefined);
  assert.ok(takeFrom(state, tokens({ tpm: 0 }), T0 + 30_000));
});

test("what is given back can be taken again, but never lifts a bucket over its capacity", () => {
  let state = taken(fresh(Limit.perMinute("rpm", 60)), { rpm: 60 }, T0);
  state = creditTo(state, tokens({ rpm: 10 }));
  assert.equal(milli(state, "rpm", T0), 10_000);
  state = creditTo(state, tokens({ rpm: 50 }));
  assert.equal(milli(state, "rpm", T0 + 30_000), 60_000);
  state = taken(state, { rpm: 60 }, T0 + 30_000);
  assert.equal(milli(state, "rpm", T0 + 30_000), 0);
});

test("giving back to a limit that is gone leaves the rest of the give-back alone", () => {
  const state = taken(fresh(Limit.perMinute("rpm", 60)), { rpm: 2 }, T0);
  const after = creditTo(state, tokens({ gone: 5, rpm: 1 }));
  assert.equal(milli(after, "rpm", T0), 59_000);
  assert.equal(findLimit(after, "gone"), undefined);
});

test("a limit that is removed and added again remembers what was spent", () => {
  const rpm = Limit.perHour("rpm", 60);
  const tpm = Limit.perHour("tpm", 600);
  const spent = taken(fresh(rpm, tpm), { rpm: 60 }, T0);
  const without = bringLimits(spent, limitSet([tpm]), stored(2), T0 + 60 * SECOND_MS);
  assert.equal(findLimit(without, "rpm")?.configured, false);
  const again = bringLimits(without, limitSet([rpm, tpm]), stored(3), T0 + 120 * SECOND_MS);
  assert.equal(findLimit(again, "rpm")?.configured, true);
  assert.equal(milli(again, "rpm", T0 + 120 * SECOND_MS), 2_000);
});

test("a removed limit that is full is forgotten: it would start full again", () => {
  const rpm = Limit.perHour("rpm", 60);
  const tpm = Limit.perHour("tpm", 600);
  const spent = taken(fresh(rpm, tpm), { rpm: 60 }, T0);
  const without = bringLimits(spent, limitSet([tpm]), stored(2), T0 + HOUR_MS);
  assert.equal(findLimit(without, "rpm"), undefined);
});

test("a raised limit mints nothing: the balance stays and refills at the new rate", () => {
  const spent = taken(fresh(Limit.perMinute("rpm", 60)), { rpm: 60 }, T0);
  const raised = bringLimits(spent, limitSet([Limit.perMinute("rpm", 600)]), stored(2), T0 + 10 * SECOND_MS);
  assert.equal(milli(raised, "rpm", T0 + 10 * SECOND_MS), 10_000); // ten seconds at one a second
  assert.equal(milli(raised, "rpm", T0 + 20 * SECOND_MS), 110_000); // and ten at ten a second
});

test("what was given back over the brim is not brought back by a raised capacity in the same millisecond", () => {
  const overfull = creditTo(fresh(Limit.perMinute("rpm", 60)), tokens({ rpm: 5 }));
  const raised = bringLimits(overfull, limitSet([Limit.perMinute("rpm", 600)]), stored(2), T0);
  assert.equal(milli(raised, "rpm", T0), 60_000);
});

test("a lowered limit clips the balance, and a debt stays whole", () => {
  const rpm = Limit.perMinute("rpm", 60);
  const lower = limitSet([Limit.perMinute("rpm", 6)]);
  assert.equal(milli(bringLimits(fresh(rpm), lower, stored(2), T0), "rpm", T0), 6_000);
  const indebted = debitFrom(fresh(rpm), tokens({ rpm: 100 }), T0);
  assert.equal(milli(bringLimits(indebted, lower, stored(2), T0), "rpm", T0), -40_000);
});

test("bringing the limits that a bucket has answers with the same object, so that nothing need be stored", () => {
  const state = fresh(Limit.perMinute("rpm", 60));
  const same = limitSet([Limit.perMinute("rpm", 60)]);
  assert.equal(bringLimits(state, same, stored(9), T0 + HOUR_MS), state);
});

test("a process with older configuration goes by the limits on the bucket", () => {
  const state = bringLimits(fresh(Limit.perMinute("rpm", 60)), limitSet([Limit.perMinute("rpm", 6)]), stored(3), T0);
  const stale = limitSet([Limit.perMinute("rpm", 60)]);
  assert.equal(bringLimits(state, stale, stored(2), T0 + 5), state);
});

test("readings of stored configuration are ordered by what was read, not by disagreeing clocks", () => {
  const ahead: SetOrigin = { asOfMs: T0 + HOUR_MS, generation: 2 };
  const behind: SetOrigin = { asOfMs: T0 - HOUR_MS, generation: 3 };
  const state = bringLimits(fresh(Limit.perMinute("rpm", 60)), limitSet([Limit.perMinute("rpm", 30)]), ahead, T0);
  const newer = bringLimits(state, limitSet([Limit.perMinute("rpm", 6)]), behind, T0);
  assert.equal(findLimit(newer, "rpm")?.terms.capacityMilli, 6_000);
  const older = bringLimits(newer, limitSet([Limit.perMinute("rpm", 30)]), ahead, T0);
  assert.equal(findLimit(older, "rpm")?.terms.capacityMilli, 6_000);
});

test("of two processes that give different limits in their requests, the newer one wins", () => {
  const state = freshBucket(limitSet([Limit.perMinute("rpm", 60)]), given(T0), T0, calendar);
  const older = bringLimits(state, limitSet([Limit.perMinute("rpm", 6)]), given(T0 - 1), T0 + 9);
  assert.equal(findLimit(older, "rpm")?.terms.capacityMilli, 60_000);
  const newer = bringLimits(state, limitSet([Limit.perMinute("rpm", 6)]), given(T0 + 1), T0 + 9);
  assert.equal(findLimit(newer, "rpm")?.terms.capacityMilli, 6_000);
});

test("a limit that only an older process knows still counts somewhere", () => {
  const state = bringLimits(fresh(Limit.perMinute("rpm", 60)), limitSet([Limit.perMinute("rpm", 6)]), stored(3), T0);
  const stale = limitSet([Limit.perMinute("rpm", 60), Limit.perMinute("tpm", 100)]);
  const both = taken(bringLimits(state, stale, stored(2), T0 + 5), { rpm: 1, tpm: 100 }, T0 + 5);
  assert.equal(milli(both, "rpm", T0 + 5), 5_000);
  assert.equal(findLimit(both, "tpm")?.configured, false);
  assert.equal(takeFrom(both, tokens({ tpm: 1 }), T0 + 5), undefined);
});

test("a clock that goes back finds no more tokens than before, and costs later clocks none", () => {
  const state = taken(fresh(Limit.perMinute("rpm", 60)), { rpm: 60 }, T0 + 60 * SECOND_MS);
  assert.equal(milli(state, "rpm", T0), -60_000);
  assert.equal(milli(state, "rpm", T0 - HOUR_MS), -60_000);
  assert.equal(takeFrom(state, tokens({ rpm: 1 }), T0), undefined);
  assert.equal(milli(state, "rpm", T0 + 90 * SECOND_MS), 30_000);
});

test("changed limits that arrive by a clock behind the epoch leave the epoch where it is", () => {
  const state = taken(fresh(Limit.perMinute("rpm", 60)), { rpm: 60 }, T0);
  const changed = bringLimits(state, limitSet([Limit.perMinute("rpm", 120)]), stored(2), T0 - HOUR_MS);
  assert.equal(changed.epochMs, T0);
  assert.equal(milli(changed, "rpm", T0 + SECOND_MS), 2_000);
});

test("the epoch moves up after an hour, which nobody can tell from the level", () => {
  const state = taken(fresh(Limit.perDay("rpd", 7)), { rpd: 7 }, T0);
  const old = T0 + HOUR_MS + 1;
  const after = debitFrom(state, tokens({ rpd: 0 }), old);
  assert.equal(after.epochMs, old);
  assert.equal(milli(after, "rpd", old), 291); // 7000 * 3600.001 / 86400 = 291.67
  assert.equal(milli(after, "rpd", T0 + 2 * HOUR_MS), 583); // 583.33: the two thirds were not lost
});

test("the largest limit there may be is exact to the millitoken after a year in debt", () => {
  const most = 9_000_000_000_000;
  const state = debitFrom(
    fresh(Limit.custom("x", { capacity: most, refillAmount: 1, refillPeriodMs: 1000 })),
    tokens({ x: most }),
    T0,
  );
  const deep = debitFrom(state, tokens({ x: most }), T0);
  const yearMs = 365 * 24 * HOUR_MS;
  assert.equal(milli(deep, "x", T0 + yearMs), -9_000_000_000_000_000 + yearMs);
  const later = debitFrom(deep, tokens({ x: 1 }), T0 + yearMs);
  assert.equal(milli(later, "x", T0 + yearMs), -9_000_000_000_000_000 + yearMs - 1000);
});

test("the fastest limit there may be grants its capacity once a second, however long it was idle", () => {
  const most = 9_000_000_000_000;
  let state = fresh(Limit.perSecond("x", most));
  for (const atMs of [T0, T0 + 1000, T0 + HOUR_MS, T0 + 400 * HOUR_MS]) {
    state = taken(state, { x: most }, atMs);
    assert.equal(takeFrom(state, tokens({ x: 1 }), atMs), undefined);
  }
});

test("the instant from which a bucket equals one that does not exist is exact to the millisecond", () => {
  const state = taken(fresh(Limit.perMinute("rpm", 7), Limit.perHour("rph", 7)), { rpm: 7, rph: 1 }, T0);
  const fullMs = T0 + 514_286; // 3600 s / 7 = 514285.7 ms
  assert.equal(milli(state, "rph", fullMs), 7_000);
  assert.equal(milli(state, "rph", fullMs - 1), 6_999);
  assert.equal(isIdle(state, 0, fullMs, calendar), true);
  assert.equal(isIdle(state, 0, fullMs - 1, calendar), false);
  assert.equal(isIdle(state, HOUR_MS, fullMs + HOUR_MS, calendar), true);
  assert.equal(isIdle(state, HOUR_MS, fullMs + HOUR_MS - 1, calendar), false);
  assert.equal(isIdle(fresh(Limit.perMinute("rpm", 7)), 0, T0 + 1, calendar), true);
});

test("a refused caller is told the first millisecond, and never for an amount above the capacity", () => {
  const state = taken(fresh(Limit.perMinute("rpm", 7)), { rpm: 7 }, T0);
  const rpm = findLimit(state, "rpm");
  assert.ok(rpm !== undefined);
  const earliestMs = (wanted: number, fromMs: number) => searchFor(rpm, state.epochMs, wanted, fromMs, calendar).atMs;
  assert.equal(earliestMs(1000, T0), T0 + 8_572); // 60 s / 7 = 8571.4 ms
  assert.equal(earliestMs(1000, T0 + 9_000), T0 + 9_000);
  assert.equal(earliestMs(7_001, T0), Number.POSITIVE_INFINITY);
  // A clock behind the epoch has to catch up with it first.
  assert.equal(earliestMs(1000, T0 - HOUR_MS), T0 + 8_572);
});

test("a shard whose limits were all deleted for a while is that shard still, and not the whole bucket", () => {
  const part = { index: 0, count: 2, rounding: "exact" } as const;
  const whole = freshBucket(
    limitSet([Limit.perMinute("rpm", 100)]),
    { asOfMs: T0, generation: null, changeNumber: 1 },
    T0,
    calendar,
  );
  const half = whole.limits.map((held) => fullLimit(held.limit, true, T0, calendar, part));
  const shard = assembled({ ...whole, limits: half }, calendar);
  const again = limitSet([Limit.perMinute("rpm", 60)]);
  const changes = [
    { fromMs: T0 + SECOND_MS, number: 2, set: limitSet([]) },
    { fromMs: T0 + 2 * SECOND_MS, number: 3, set: again },
  ];
  const origin = { asOfMs: T0 + HOUR_MS, generation: null, changeNumber: 3, changes };
  const now = bringLimits(shard, again, origin, T0 + HOUR_MS);
  assert.deepEqual(findLimit(now, "rpm")?.part, part);
  assert.equal(findLimit(now, "rpm")?.terms.capacityMilli, 30_000);
});
