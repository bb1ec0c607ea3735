import assert from "node:assert/strict";
import { test } from "node:test";
import { createCalendar } from "../../src/adapters/system/calendar.ts";
import { Limit, limitMakers } from "../../src/domain/limits/limit.ts";
import { ModelLimit } from "./model.ts";

const HOUR_MS = 3_600_000;

const calendar = createCalendar();
const perMinute = (tokens: number) => Limit.perMinute("rpm", tokens);

test("it starts full, drips, and an idle hour fills it no further than its brim", () => {
  const limit = new ModelLimit(perMinute(10), 0, calendar);
  assert.equal(limit.levelMilli(0), 10_000n);
  limit.write("take", 10_000, 0);
  assert.equal(limit.levelMilli(0), 0n);
  assert.equal(limit.levelMilli(5_999), 999n);
  assert.equal(limit.levelMilli(6_000), 1_000n);
  limit.write("take", 1_000, HOUR_MS);
  assert.equal(limit.levelMilli(HOUR_MS), 9_000n);
});

test("a debt is paid back by time, a give-back is exact, and what flows over the brim is gone with the next take", () => {
  const limit = new ModelLimit(perMinute(10), 0, calendar);
  limit.write("debit", 15_000, 0);
  assert.equal(limit.levelMilli(30_000), 0n);
  limit.write("credit", 4_000, 30_000);
  assert.equal(limit.levelMilli(30_000), 4_000n);
  limit.write("credit", 50_000, 30_000);
  limit.write("take", 1_000, 30_000);
  assert.equal(limit.levelMilli(30_000), 9_000n);
});

test("a clock that is behind sees less, and takes nothing from one that is not", () => {
  const limit = new ModelLimit(perMinute(10), 0, calendar);
  limit.write("take", 10_000, 0);
  limit.write("take", 2_000, 12_000);
  assert.equal(limit.levelMilli(6_000), -1_000n);
  assert.equal(limit.levelMilli(18_000), 1_000n);
  limit.advance(12_000);
  assert.equal(limit.levelMilli(6_000), 0n);
});

test("changed terms count from the change on, and keep what is there as far as there is room", () => {
  const limit = new ModelLimit(perMinute(10), 0, calendar);
  limit.write("take", 10_000, 0);
  limit.advance(30_000);
  limit.change(perMinute(60));
  assert.equal(limit.levelMilli(30_000), 5_000n);
  assert.equal(limit.levelMilli(40_000), 15_000n);
  limit.advance(40_000);
  limit.change(perMinute(12));
  assert.equal(limit.levelMilli(40_000), 12_000n);
  limit.advance(40_000);
  limit.change(perMinute(60));
  assert.equal(limit.levelMilli(40_000), 12_000n);
});

test("the slack of the promise is what may still be granted since any take, and negative once too much was", () => {
  const limit = new ModelLimit(perMinute(10), 0, calendar);
  limit.write("take", 4_000, 0);
  assert.equal(limit.slackMilli(0), 6_000n);
  limit.write("take", 7_000, 0);
  assert.equal(limit.slackMilli(0), -1_000n);
  assert.equal(limit.slackMilli(6_000), 0n);
  limit.write("credit", 2_000, 6_000);
  assert.equal(limit.slackMilli(6_000), 2_000n);
});

test("thirds of a millitoken are not rounded away however often they are asked for", () => {
  const limit = new ModelLimit(
    Limit.custom("rpm", { capacity: 9, refillAmount: 1, refillPeriodMs: 7_000 }),
    0,
    calendar,
  );
  limit.write("take", 9_000, 0);
  for (let ms = 1; ms <= 700; ms++) limit.write("take", 0, ms);
  assert.equal(limit.levelMilli(700), 100n);
  const strange = Limit.custom("rpm", { capacity: 1, refillAmount: 1, refillPeriodMs: 13_000 });
  assert.throws(() => limit.change(strange), RangeError);
});

for (const [how, milli] of [
  ["full", 0],
  ["nearly full", 1_000],
  ["empty", 10_000],
  ["in debt", 25_000],
] as const) {
  test(`one that was ${how} when its rule was replaced is remembered for as long as that fills one that is empty`, () => {
    const limit = new ModelLimit(perMinute(10), 0, calendar);
    limit.write("debit", milli, 0);
    limit.change(Limit.custom("rpm", { capacity: 1, refillAmount: 1_000, refillPeriodMs: 1_000 }));
    assert.equal(limit.levelMilli(1_000), 1_000n);
    assert.equal(limit.isForgettable(59_990), false);
    assert.equal(limit.isForgettable(60_000), true);
  });
}

test("whether a session has begun is left to a store only where a millitoken decides it", () => {
  const session = limitMakers(calendar).quota("rpm", 10, { resetAfterMs: HOUR_MS });
  const changedAt = (atMs: number, ...agreed: (number | undefined)[]) => {
    const limit = new ModelLimit(perMinute(10), 0, calendar);
    limit.write("take", 1_000, 0);
    limit.advance(atMs);
    limit.change(session);
    for (const one of agreed) limit.agreeOn(one, limit.levelMilli(atMs), atMs);
    return limit.windowStartMs;
  };
  // A millitoken drips in 6 ms: at 5,999 one is missing, at 5,988 there are two.
  assert.equal(changedAt(5_999), 5_999);
  assert.equal(changedAt(5_999, undefined), undefined);
  assert.equal(changedAt(6_000, 6_000), 6_000);
  assert.equal(changedAt(6_000, undefined), undefined);
  assert.equal(changedAt(6_000, 5_999), 6_000);
  assert.equal(changedAt(5_988, undefined), 5_988);
});

test("what there is room for at an instant is told after all windows until then, and asking changes nothing", () => {
  const scheduled = { ...perMinute(60), schedule: [{ cron: "30 * * * *", capacity: 20, refillAmount: 20 }] };
  const limit = new ModelLimit(scheduled, 0, calendar);
  limit.write("take", 60_000, 0);
  assert.equal(limit.roomMilli(6_000), 54_000n);
  // Full long since, cut off by the window, and filled up again for ten seconds after it.
  assert.equal(limit.roomMilli(HOUR_MS / 2 + 1_000), 0n);
  assert.equal(limit.roomMilli(HOUR_MS / 2 + 70_000), 30_000n);
  assert.equal(limit.levelMilli(0), 0n);
});
