import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { assertResets, at, calendar } from "../../../test/limits/calendar-kit.ts";
import { createCalendar } from "./calendar.ts";

describe("what is refused", () => {
  const wrong: readonly [cron: string, sentence: RegExp][] = [
    ["", /has 0 fields; five are needed/],
    ["@daily", /has 1 field; .*"0 0 \* \* \*"/],
    ["0 0 1 *", /has 4 fields/],
    ["0 0 0 1 * *", /has 6 fields/],
    ["60 * * * *", /minute "60" is not valid; 0 to 59/],
    ["* 24 * * *", /hour "24" is not valid/],
    ["* * 0 * *", /day of month "0" is not valid; 1 to 31/],
    ["* * * 13 *", /month "13" is not valid/],
    ["* * * * 8", /day of week "8" is not valid/],
    ["* * L * *", /day of month "L" .*L, W, # and \? are not supported/],
    ["* * 15W * *", /day of month "15W"/],
    ["* * * * 5#2", /day of week "5#2"/],
    ["* * ? * *", /day of month "\?"/],
    ["* * * * MONDAY", /day of week "MONDAY"/],
    ["* * FEB * *", /day of month "FEB"/],
    ["* * * MON *", /month "MON"/],
    ["5-1 * * * *", /minute "5-1"/],
    ["1,,2 * * * *", /minute "1,,2"/],
    ["*/0 * * * *", /minute "\*\/0"/],
    ["*/61 * * * *", /minute "\*\/61"/],
    ["-1 * * * *", /minute "-1"/],
    ["1.5 * * * *", /minute "1\.5"/],
    ["0 0 30 2 *", /"0 0 30 2 \*" never fires/],
    ["0 0 31 4,6,9,11 *", /never fires/],
  ];
  for (const [cron, sentence] of wrong) {
    test(`"${cron}" is refused with a sentence that says why`, () => {
      for (const use of ["window", "reset"] as const)
        assert.match(calendar.problemOf(cron, "UTC", use) ?? "", sentence);
    });
  }

  test("a cron that matches every minute is a window but no reset: it would never begin (X9)", () => {
    for (const cron of ["* * * * *", "*/1 0-23 1-31 1-12 0-6", "* * 1-31 * 1"]) {
      assert.match(calendar.problemOf(cron, "UTC", "reset") ?? "", /matches every minute/);
      assert.equal(calendar.problemOf(cron, "UTC", "window"), undefined);
      assert.equal(calendar.nextChange(cron, "UTC", 0), Number.POSITIVE_INFINITY);
      assert.equal(calendar.nextReset(cron, "UTC", 0), Number.POSITIVE_INFINITY);
      assert.equal(calendar.previousReset(cron, "UTC", 0), Number.NEGATIVE_INFINITY);
    }
  });

  test("30 February with a weekday beside it is not refused: the weekday fires", () => {
    assert.equal(calendar.problemOf("0 0 30 2 MON", "UTC", "reset"), undefined);
    assertResets("0 0 30 2 MON", "UTC", ["2026-02-23T00:00:00Z", "2027-02-01T00:00:00Z"]);
  });

  test("lists, ranges, steps and names are fine", () => {
    for (const cron of ["0 0 1 jan-mar *", "*/15 9-17 * * MON-FRI", "5/20 1,1,2 */2 * 0,7", "0-59/7,3 * * DEC,1 SUN"]) {
      assert.equal(calendar.problemOf(cron, "Europe/Berlin", "reset"), undefined);
    }
  });

  const unknown: readonly [tz: string, near: string][] = [
    ["Europe/Berln", "Europe/Berlin"],
    ["Berlin", "Europe/Berlin"],
    ["europe/berlin", "Europe/Berlin"],
    ["America/NewYork", "America/New_York"],
    ["Asia/Kolkatta", "Asia/Kolkata"],
    ["utc", "UTC"],
    ["EUROPE/PARIS", "Europe/Paris"],
  ];
  for (const [tz, near] of unknown) {
    test(`the zone "${tz}" is refused, and ${near} suggested first`, () => {
      const problem = calendar.problemOf("0 0 * * *", tz, "reset") ?? "";
      assert.ok(problem.startsWith(`Time zone "${tz}" is not known; nearest: ${near}`), problem);
    });
  }

  test("offsets and ambiguous abbreviations are not zones", () => {
    for (const tz of ["+05:30", "IST", "PST", "", "Mars/Olympus"]) {
      assert.match(calendar.problemOf("0 0 * * *", tz, "window") ?? "", /is not known; nearest: \w+/, tz);
    }
  });

  test("zones by their old and new names are known", () => {
    for (const tz of ["UTC", "Etc/UTC", "GMT", "Asia/Kolkata", "Asia/Calcutta", "Europe/Kyiv", "US/Eastern", "CET"]) {
      assert.equal(calendar.problemOf("0 0 * * *", tz, "reset"), undefined, tz);
    }
  });

  test("asking about a cron or zone that was never checked throws the same sentence", () => {
    assert.throws(() => calendar.matches("61 * * * *", "UTC", 0), /minute "61" is not valid/);
    assert.throws(() => calendar.nextReset("0 * * * *", "Europe/Berln", 0), /Europe\/Berlin/);
  });
});

describe("memory", () => {
  test("a refusal does not scan the calendar, and asking again looks at nothing (X17)", (t) => {
    const looks = countLooks(t);
    const fresh = createCalendar();
    const now = at("2026-06-15T10:00:00Z");
    const far = ["0 3 * * 1", "17 4 29 2 *", "* * * 1-3 *", "0-29 8 1-7 * */7"];
    for (const cron of far) {
      const before = looks();
      fresh.nextChange(cron, "America/New_York", now);
      fresh.nextReset(cron, "America/New_York", now);
      fresh.previousReset(cron, "America/New_York", now);
      assert.ok(looks() - before < 300, `${cron}: ${looks() - before} looks at the zone`);
    }
    const before = looks();
    for (const cron of far) {
      for (let ms = 0; ms < 1_000; ms += 1) {
        fresh.matches(cron, "America/New_York", now + ms);
        fresh.nextChange(cron, "America/New_York", now + ms);
        fresh.nextReset(cron, "America/New_York", now + ms);
        fresh.previousReset(cron, "America/New_York", now + ms);
      }
    }
    assert.equal(looks(), before);
  });
});

function countLooks(t: { after(undo: () => void): void }): () => number {
  const original = Intl.DateTimeFormat.prototype;
  const format = Object.getOwnPropertyDescriptor(original, "format");
  assert.ok(format?.get !== undefined);
  let looks = 0;
  const { get } = format;
  Object.defineProperty(original, "format", {
    ...format,
    get() {
      looks += 1;
      return get.call(this);
    },
  });
  t.after(() => Object.defineProperty(original, "format", format));
  return () => looks;
}
