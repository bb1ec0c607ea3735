import assert from "node:assert/strict";
import { test } from "node:test";
import { createCalendar } from "../../adapters/system/calendar.ts";
import { checkLimits as checkLimitsBy, type Limit as LimitValue, limitMakers } from "../limits/limit.ts";
import { ValidationError } from "./errors.ts";

const calendar = createCalendar();
const Limit = limitMakers(calendar);
const checkLimits = (limits: readonly LimitValue[]) => checkLimitsBy(limits, calendar);

function refused(make: () => unknown, code: string, why: RegExp): void {
  assert.throws(make, (error) => {
    assert.ok(error instanceof ValidationError, String(error));
    assert.equal(error.code, code);
    assert.match(error.message, why);
    return true;
  });
}

test("at most N at once is a limit with slots that are held, a minute unless it says otherwise", () => {
  assert.deepEqual(Limit.concurrent("parallel", 10), {
    ...{ name: "parallel", capacity: 10, refillAmount: 0, refillPeriodMs: 1000, holdMs: 60_000 },
  });
  const most = Limit.concurrent("parallel", 1_000_000, { holdMs: 86_400_000, counts: "requests", soft: true });
  assert.deepEqual(most, {
    ...{ name: "parallel", counts: "requests", capacity: 1_000_000, refillAmount: 0, refillPeriodMs: 1000 },
    ...{ soft: true, holdMs: 86_400_000 },
  });
  assert.deepEqual(checkLimits([JSON.parse(JSON.stringify(most))]), [most]);
});

test("slots and their time are bounded, and other kinds' words are refused by name", () => {
  const cases: readonly (readonly [unknown, unknown, RegExp])[] = [
    [0, {}, /capacity is 0/],
    [1_000_001, {}, /capacity is 1000001; give from 1 to 1000000 slots/],
    [1.5, {}, /capacity is 1.5/],
    [1, { holdMs: 999 }, /holdMs is 999; give whole seconds/],
    [1, { holdMs: 1500 }, /holdMs is 1500/],
    [1, { holdMs: 86_401_000 }, /holdMs is 86401000/],
    [1, { holdMs: "60" }, /holdMs is "60"/],
    [1, { burst: 2 }, /unknown name "burst"/],
    [1, { reset: "monthly" }, /unknown name "reset"/],
    [1, { schedule: [{ cron: "* 9-17 * * 1-5", refillAmount: 1 }] }, /would make a concurrent limit refill/],
    [
      1,
      { schedule: [{ cron: "* 9-17 * * 1-5", capacity: 2_000_000 }] },
      /is 2000000; such a limit has at most 1000000/,
    ],
    [1_000, { schedule: [{ cron: "* 9-17 * * 1-5", scale: 2_000 }] }, /gives more than 1000000 tokens/],
  ];
  for (const [slots, options, message] of cases) {
    refused(() => Limit.concurrent("parallel", slots as number, options as object), "limit_invalid", message);
  }
  const both = { ...Limit.concurrent("parallel", 1), resetAfterMs: 5_000 };
  refused(() => checkLimits([both]), "limit_invalid", /it has resetAfterMs and holdMs; give one of them/);
  const refills = { ...Limit.concurrent("parallel", 1), refillAmount: 5 };
  refused(() => checkLimits([refills]), "limit_invalid", /it has holdMs and refillAmount 5/);
});
