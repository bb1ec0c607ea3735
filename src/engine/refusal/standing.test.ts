import assert from "node:assert/strict";
import { test } from "node:test";
import { createCalendar } from "../../adapters/system/calendar.ts";
import { bucketKey } from "../../domain/bucket/bucket-key.ts";
import { freshBucket, takeFrom } from "../../domain/bucket/bucket-state.ts";
import { Limit, limitMakers } from "../../domain/limits/limit.ts";
import { limitSet } from "../../domain/limits/limit-set.ts";
import { standingsOf } from "./standing.ts";

const calendar = createCalendar();
const { quota } = limitMakers({ problemOf: () => undefined });
const NOON = Date.UTC(2026, 2, 15, 12);
const HOUR_MS = 3_600_000;

test("each kind of limit says what fills it up, and when it is full again", () => {
  const set = limitSet([
    Limit.perMinute("rpm", 100),
    Limit.perMinute("tpm", 10_000, { burst: 20_000 }),
    quota("daily", 50, { reset: { cron: "0 0 * * *" } }),
    quota("session", 50, { resetAfterMs: 5 * HOUR_MS }),
    Limit.custom("never", { capacity: 9_000_000_000_000, refillAmount: 1, refillPeriodMs: 1_000_000_000_000 }),
  ]);
  const fresh = freshBucket(set, { asOfMs: NOON, generation: null }, NOON, calendar);
  const standing = (nowMs: number, state: typeof fresh) =>
    standingsOf({ bucket: bucketKey("a", "api"), set, level: 1 }, state, { nowMs, calendar }).map(
      ({ limit, available, capacity, windowMs, fullInMs }) => [limit, available, capacity, windowMs, fullInMs],
    );
  assert.deepEqual(standing(NOON, fresh), [
    ["rpm", 100, 100, 60_000, null],
    ["tpm", 20_000, 20_000, 120_000, null],
    ["daily", 50, 50, null, null],
    ["session", 50, 50, 5 * HOUR_MS, null],
    ["never", 9_000_000_000_000, 9_000_000_000_000, null, null],
  ]);
  const amounts = set.limits.map(({ name }) => ({ limit: name, milli: 10_000 }));
  const taken = takeFrom(fresh, amounts, NOON);
  assert.ok(taken !== undefined);
  assert.deepEqual(standing(NOON + 1_000, taken), [
    ["rpm", 91, 100, 60_000, 5_000],
    ["tpm", 20_000, 20_000, 120_000, null],
    ["daily", 40, 50, null, 12 * HOUR_MS - 1_000],
    ["session", 40, 50, 5 * HOUR_MS, 5 * HOUR_MS - 1_000],
    ["never", 8_999_999_999_990, 9_000_000_000_000, null, 10_000_000_000_000 - 1_000],
  ]);
});
