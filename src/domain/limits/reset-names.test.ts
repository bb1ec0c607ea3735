import assert from "node:assert/strict";
import { test } from "node:test";
import { createCalendar } from "../../adapters/system/calendar.ts";
import { checkLimits, type Limit as LimitValue, limitMakers } from "./limit.ts";
import { limitOfText, textOfLimit } from "./limit-text.ts";
import type { ResetName } from "./reset-names.ts";

const calendar = createCalendar();
const Limit = limitMakers(calendar);

const CRONS: readonly (readonly [ResetName, string])[] = [
  ["hourly", "0 * * * *"],
  ["daily", "0 0 * * *"],
  ["weekly", "0 0 * * 1"],
  ["monthly", "0 0 1 * *"],
  ["yearly", "0 0 1 1 *"],
];

test("a reset by its name is its cron in the value, as in a text", () => {
  for (const [name, cron] of CRONS) {
    const made = Limit.quota("q", 5, { reset: name });
    assert.deepEqual(made.reset, { cron, tz: "UTC" });
    assert.deepEqual(made, limitOfText(`q:5,reset=${name}`, calendar));
    const zoned = Limit.quota("q", 5, { reset: { cron: name, tz: "Europe/Berlin" } });
    assert.deepEqual(zoned.reset, { cron, tz: "Europe/Berlin" });
    assert.equal(textOfLimit(zoned), `q:5,reset=${name},tz=Europe/Berlin`);
    // As a body or a file may have it.
    const plain = { name: "q", capacity: 5, refillAmount: 0, refillPeriodMs: 1_000, reset: name };
    assert.deepEqual(checkLimits([plain as unknown as LimitValue], calendar), [made]);
  }
});

test("a misspelled reset is told the nearest name, not the fields of a cron", () => {
  for (const [given, near] of [
    ["montly", "monthly"],
    ["@monthly", "monthly"],
    ["Daily", "daily"],
    ["week", "weekly"],
  ] as const) {
    const refused = {
      name: "ValidationError",
      code: "cron_invalid",
      message: new RegExp(`Reset "${given}" is neither a cron nor one of .*did you mean "${near}"`),
    };
    assert.throws(() => Limit.quota("q", 5, { reset: given as ResetName }), refused);
    assert.throws(() => Limit.quota("q", 5, { reset: { cron: given } }), refused);
    assert.throws(() => limitOfText(`q:5,reset=${given}`, calendar), refused);
  }
  assert.throws(() => Limit.quota("q", 5, { reset: "sometimes" as ResetName }), /give one of these/);
  assert.throws(() => Limit.quota("q", 5, { reset: 5 as never }), /give \{ cron, tz\? \}, or a name: hourly, daily/);
});

test("a window of a schedule has a cron, no name: a month is not a minute", () => {
  assert.throws(() => Limit.perMinute("rpm", 5, { schedule: [{ cron: "monthly", scale: 2 }] }), {
    code: "cron_invalid",
    message: /five are needed/,
  });
});
