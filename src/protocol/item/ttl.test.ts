import assert from "node:assert/strict";
import { test } from "node:test";
import { calendar } from "../../../test/limits/kind-arbitraries.ts";
import { fc } from "../../../test/properties.ts";
import { anyBucketOf, anyEpoch, anyLimits, anyZone } from "../../../test/protocol/kit.ts";
import { isIdle } from "../../domain/bucket/bucket-questions.ts";
import { advanced, availableMilli, type BucketState } from "../../domain/bucket/bucket-state.ts";
import { boundaryAfter, fullLimit } from "../../domain/bucket/limit-state.ts";
import { kindOf } from "../../domain/limits/kinds/table.ts";
import { capacityMaxMilli, limitMakers } from "../../domain/limits/limit.ts";
import { keptUntilFromS, keptUntilS } from "../take/expiry.ts";

const Kinds = limitMakers(calendar);
const HOUR_MS = 3_600_000;

const anyBucket = fc
  .record({ tz: anyZone, epochMs: anyEpoch })
  .chain(({ tz, epochMs }) => anyLimits(tz, 3).chain((limits) => anyBucketOf(limits, epochMs)));

/** Spent to so many millitokens below nothing, at its epoch; a session has just begun. */
function spent(state: BucketState, debtMilli: number): BucketState {
  const limits = state.limits.map((held) => ({
    ...held,
    tokensMilli: -debtMilli,
    remainder: 0,
    quota: held.quota && {
      ...held.quota,
      windowStartMs: held.limit.resetAfterMs === undefined ? undefined : state.epochMs,
    },
  }));
  return { ...state, limits };
}

/** Tells whether the bucket, left alone, is full in every limit at some instant up to then. With windows: in the largest. */
function isFullBy(state: BucketState, untilMs: number): boolean {
  if (state.limits.every(({ limit }) => limit.schedule === undefined)) return isIdle(state, 0, untilMs, calendar);
  return state.limits.every((held) => {
    let atMs = state.epochMs;
    for (let boundaries = 0; boundaries < 5_000 && atMs <= untilMs; boundaries++) {
      const then = advanced({ ...state, limits: [held] }, atMs, calendar);
      const [now] = then.limits;
      if (now === undefined) return false;
      const nextMs = boundaryAfter(now, atMs, calendar);
      if (availableMilli(then, now, Math.min(nextMs - 1, untilMs)) >= capacityMaxMilli(held.limit)) return true;
      atMs = nextMs;
    }
    return false;
  });
}

test("an item that was emptied lives until it is full again and an hour longer", () => {
  fc.assert(
    fc.property(anyBucket, (state) => {
      const untilS = keptUntilS(state.limits, state.epochMs, calendar);
      if (untilS === undefined) return;
      assert.ok(isFullBy(spent(state, 0), untilS * 1000 - HOUR_MS));
    }),
    { numRuns: 60 },
  );
});

test("so does one that owes", () => {
  fc.assert(
    fc.property(anyBucket, fc.integer({ min: 0, max: 5_000_000 }), (state, debtMilli) => {
      const low = state.limits.map((limit) => ({ limit, lowMilli: -debtMilli }));
      const untilS = keptUntilFromS(low, state.epochMs, calendar);
      if (untilS === undefined) return;
      assert.ok(isFullBy(spent(state, debtMilli), untilS * 1000 - HOUR_MS));
    }),
    { numRuns: 60 },
  );
});

test("a quota with windows never expires: forgotten in a small window it would be granted again in a large one", () => {
  fc.assert(
    fc.property(anyBucket, (state) => {
      const never = state.limits.some(({ limit }) => kindOf(limit) !== "drip" && limit.schedule !== undefined);
      if (never) assert.equal(keptUntilS(state.limits, state.epochMs, calendar), undefined);
    }),
    { numRuns: 60 },
  );
});

test("the hour is told once: every take within it comes to the same second", () => {
  const limits = [fullLimit(Kinds.perMinute("rpm", 60), true, 0, calendar)];
  const seconds = [0, 1, HOUR_MS - 1].map((atMs) => keptUntilS(limits, atMs, calendar));
  // Full a minute after the end of the hour; an hour for clocks that disagree, and a second for rounding.
  assert.deepEqual(seconds, [7_261, 7_261, 7_261]);
  assert.equal(keptUntilS(limits, HOUR_MS, calendar), 7_261 + 3_600);
});

test("an item lives until every rule that its limits went by would have filled them, and an hour longer", () => {
  fc.assert(
    fc.property(anyBucket, fc.integer({ min: 1, max: 1_000_000_000 }), (state, aheadMs) => {
      const rememberUntilMs = state.epochMs + aheadMs;
      const limits = state.limits.map((held, i) => (i === 0 ? { ...held, rememberUntilMs } : held));
      const untilS = keptUntilS(limits, state.epochMs, calendar);
      assert.ok(untilS === undefined || untilS * 1000 >= rememberUntilMs + HOUR_MS);
    }),
    { numRuns: 60 },
  );
});
