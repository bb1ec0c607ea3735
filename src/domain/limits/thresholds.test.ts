import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "../../../test/properties.ts";
import { createCalendar } from "../../adapters/system/calendar.ts";
import { limitMakers } from "./limit.ts";
import { crossing } from "./thresholds.ts";

const Limit = limitMakers(createCalendar());

const QUOTA = { hasPeriods: true };
const DRIP = { hasPeriods: false };
const used = (before: number, after: number, capacity = 100) => ({ before, after, capacity });

test("a percentage is reached when so much is used, to the unit", () => {
  for (const kind of [QUOTA, DRIP]) {
    assert.deepEqual(crossing([80, 95], 0, used(0, 79), kind), { tell: [], told: 0 });
    assert.deepEqual(crossing([80, 95], 0, used(79, 80), kind), { tell: [80], told: 80 });
    assert.deepEqual(crossing([80, 95], 80, used(80, 95), kind), { tell: [95], told: 95 });
    assert.deepEqual(crossing([80, 95], 0, used(0, 300), kind), { tell: [80, 95], told: 95 });
  }
  // 80 % of 7 are 5.6.
  assert.deepEqual(crossing([80], 0, used(0, 5, 7), QUOTA).tell, []);
  assert.deepEqual(crossing([80], 0, used(0, 6, 7), QUOTA).tell, [80]);
});

test("what an earlier take reached and did not tell is told by the next", () => {
  assert.deepEqual(crossing([80, 95], 0, used(97, 98), QUOTA), { tell: [80, 95], told: 95 });
  assert.deepEqual(crossing([80, 95], 80, used(97, 97), DRIP), { tell: [95], told: 95 });
});

test("a mark with periods stays, whatever was given back", () => {
  assert.deepEqual(crossing([80, 95], 95, used(0, 100), QUOTA), { tell: [], told: 95 });
});

test("a mark without periods goes at ten points below, one percentage after the other", () => {
  assert.deepEqual(crossing([80, 95], 95, used(86, 95), DRIP), { tell: [], told: 95 });
  assert.deepEqual(crossing([80, 95], 95, used(85, 95), DRIP), { tell: [95], told: 95 });
  assert.deepEqual(crossing([80, 95], 95, used(85, 94), DRIP), { tell: [], told: 94 });
  assert.deepEqual(crossing([80, 95], 95, used(70, 94), DRIP), { tell: [80], told: 80 });
  assert.deepEqual(crossing([80, 95], 80, used(70, 71), DRIP), { tell: [], told: 79 });
  assert.deepEqual(crossing([5], 5, used(1, 6), DRIP), { tell: [], told: 5 });
  assert.deepEqual(crossing([5], 5, used(0, 6), DRIP), { tell: [5], told: 5 });
});

test("percentages that are no longer asked for count as told", () => {
  assert.deepEqual(crossing([50, 70], 80, used(80, 90), QUOTA), { tell: [], told: 80 });
  assert.deepEqual(crossing([90], 80, used(80, 90), DRIP), { tell: [90], told: 90 });
  assert.deepEqual(crossing([50], 80, used(60, 60), DRIP), { tell: [], told: 69 });
});

test("a percentage that was not asked for a while is told again only once it was seen ten points below", () => {
  const { told } = crossing([100], 95, used(81, 83), DRIP);
  assert.deepEqual(crossing([80, 95], told, used(83, 85), DRIP).tell, []);
  const { told: later } = crossing([100], told, used(70, 71), DRIP);
  assert.deepEqual(crossing([80, 95], later, used(83, 85), DRIP).tell, [80]);
});

test("nothing is told of a capacity of nothing, and the largest are exact", () => {
  assert.deepEqual(crossing([1], 0, used(0, 0, 0), QUOTA), { tell: [], told: 0 });
  const vast = 9_000_000_000_000_000;
  assert.deepEqual(crossing([33], 0, used(0, 2_969_999_999_999_999, vast), QUOTA).tell, []);
  assert.deepEqual(crossing([33], 0, used(0, 2_970_000_000_000_000, vast), QUOTA).tell, [33]);
});

const anyNotifyAt = fc
  .uniqueArray(fc.integer({ min: 1, max: 100 }), { minLength: 1, maxLength: 4 })
  .map((percents) => percents.toSorted((a, b) => a - b));

test("whatever is taken and given back: once a period, each as soon as it is reached", () => {
  const levels = fc.array(fc.integer({ min: -20, max: 130 }), { maxLength: 30 });
  fc.assert(
    fc.property(anyNotifyAt, levels, (notifyAt, after) => {
      const heard: number[] = [];
      let [told, before] = [0, 0];
      for (const level of after) {
        const crossed = crossing(notifyAt, told, used(before, level), QUOTA);
        heard.push(...crossed.tell);
        [told, before] = [crossed.told, level];
        for (const percent of notifyAt) if (level >= percent) assert.ok(heard.includes(percent), `${percent}`);
      }
      assert.equal(new Set(heard).size, heard.length, "told twice");
    }),
  );
});

test("what refills is told exactly when each percentage by itself says so", () => {
  const takes = fc.array(fc.tuple(fc.integer({ min: 0, max: 120 }), fc.integer({ min: 0, max: 40 })), {
    maxLength: 30,
  });
  fc.assert(
    fc.property(anyNotifyAt, takes, (notifyAt, steps) => {
      const armed = new Map(notifyAt.map((percent) => [percent, true]));
      let told = 0;
      for (const [before, taken] of steps) {
        const expected = notifyAt.filter((percent) => {
          if (before <= Math.max(0, percent - 10)) armed.set(percent, true);
          const isTold = armed.get(percent) === true && before + taken >= percent;
          if (isTold) armed.set(percent, false);
          return isTold;
        });
        const crossed = crossing(notifyAt, told, used(before, before + taken), DRIP);
        assert.deepEqual(crossed.tell, expected);
        told = crossed.told;
      }
    }),
  );
});

test("percentages to be told are one to four whole ones, rising", () => {
  const month = Limit.quota("month", 100, { reset: "monthly", notifyAt: [80, 95] });
  assert.deepEqual(month.notifyAt, [80, 95]);
  assert.ok(Object.isFrozen(month.notifyAt));
  assert.deepEqual(Limit.perMinute("x", 5, { notifyAt: [1, 2, 3, 100] }).notifyAt, [1, 2, 3, 100]);
  const custom = Limit.custom("x", { capacity: 1, refillAmount: 1, refillPeriodMs: 1_000, notifyAt: [50], soft: true });
  assert.deepEqual([custom.notifyAt, custom.soft], [[50], true]);
  assert.equal("notifyAt" in Limit.perMinute("x", 5), false);
  for (const wrong of [
    [],
    [0],
    [101],
    [80, 80],
    [95, 80],
    [1.5],
    ["80"],
    [1, 2, 3, 4, 5],
    [undefined],
    80,
    "80",
    null,
    {},
  ]) {
    assert.throws(() => Limit.perMinute("x", 5, { notifyAt: wrong as number[] }), {
      name: "ValidationError",
      code: "limit_invalid",
      message: /Limit "x": notifyAt is .*; give one to 4 rising whole percentages from 1 to 100/,
    });
  }
});
