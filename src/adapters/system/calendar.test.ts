import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { assertChanges, assertResets, at, calendar } from "../../../test/limits/calendar-kit.ts";

describe("resets when the clock changes", () => {
  test("a reset in the hour that autumn repeats happens the first time only (X4, New York)", () => {
    assertResets("30 1 * * *", "America/New_York", [
      "2026-10-31T05:30:00Z", // 01:30 EDT
      "2026-11-01T05:30:00Z", // 01:30 EDT, and not again at 01:30 EST, 06:30Z
      "2026-11-02T06:30:00Z", // 01:30 EST
    ]);
  });

  test("an hourly reset is silent in the repeated hour, so that hour's quota lasts two hours", () => {
    assertResets("0 * * * *", "America/New_York", [
      "2026-11-01T04:00:00Z", // 00:00 EDT
      "2026-11-01T05:00:00Z", // 01:00 EDT
      "2026-11-01T07:00:00Z", // 02:00 EST
      "2026-11-01T08:00:00Z",
    ]);
  });

  test("a reset at a time that spring skips happens when the clock has jumped (X4, New York)", () => {
    assertResets("30 2 * * *", "America/New_York", [
      "2026-03-07T07:30:00Z", // 02:30 EST
      "2026-03-08T07:00:00Z", // 03:00 EDT, the first instant after the gap
      "2026-03-09T06:30:00Z", // 02:30 EDT
    ]);
  });

  test("several resets that spring skips are one, together with the one that is due just then", () => {
    assertResets("0,30 * * * *", "America/New_York", [
      "2026-03-08T06:00:00Z", // 01:00 EST
      "2026-03-08T06:30:00Z", // 01:30 EST
      "2026-03-08T07:00:00Z", // 03:00 EDT, and for 02:00 and 02:30
      "2026-03-08T07:30:00Z", // 03:30 EDT
    ]);
  });

  test("two runs of minutes stay two when the clock skips all that lies between them", () => {
    // 01:59 EST is followed by 03:00 EDT, both match; but on the calendar 02:00 to 02:59 lie between them.
    assertResets("* 0-1,3 * * *", "America/New_York", [
      "2026-03-08T05:00:00Z",
      "2026-03-08T07:00:00Z",
      "2026-03-09T04:00:00Z",
      "2026-03-09T07:00:00Z",
    ]);
  });

  const midnights: readonly [tz: string, why: string, resets: readonly string[]][] = [
    ["Africa/Cairo", "is skipped", ["2026-04-22T22:00:00Z", "2026-04-23T22:00:00Z", "2026-04-24T21:00:00Z"]],
    [
      "Africa/Cairo",
      "comes after a repeated hour",
      ["2026-10-28T21:00:00Z", "2026-10-29T22:00:00Z", "2026-10-30T22:00:00Z"],
    ],
    ["Asia/Beirut", "is skipped", ["2026-03-27T22:00:00Z", "2026-03-28T22:00:00Z", "2026-03-29T21:00:00Z"]],
    ["America/Santiago", "is skipped", ["2026-09-05T04:00:00Z", "2026-09-06T04:00:00Z", "2026-09-07T03:00:00Z"]],
    [
      "Asia/Beirut",
      "comes after a repeated hour",
      ["2026-10-23T21:00:00Z", "2026-10-24T22:00:00Z", "2026-10-25T22:00:00Z"],
    ],
    ["America/Santiago", "comes after a repeated hour", ["2026-04-04T03:00:00Z", "2026-04-05T04:00:00Z"]],
    ["America/Havana", "is repeated", ["2026-10-31T04:00:00Z", "2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z"]],
    ["America/Havana", "is skipped", ["2026-03-07T05:00:00Z", "2026-03-08T05:00:00Z", "2026-03-09T04:00:00Z"]],
  ];
  for (const [tz, why, resets] of midnights) {
    test(`a daily quota of ${tz} is reset once on the day whose midnight ${why} (${resets[1]})`, () => {
      assertResets("0 0 * * *", tz, resets);
    });
  }

  test("a monthly reset is not lost with a skipped midnight, nor doubled by a repeated one", () => {
    assertResets("0 0 24 * *", "Africa/Cairo", [
      "2026-03-23T22:00:00Z",
      "2026-04-23T22:00:00Z",
      "2026-05-23T21:00:00Z",
    ]);
    assertResets("0 0 1 * *", "America/Havana", [
      "2026-10-01T04:00:00Z",
      "2026-11-01T04:00:00Z",
      "2026-12-01T05:00:00Z",
    ]);
  });

  test("a change of half an hour is treated as any other (Lord Howe)", () => {
    assertResets("15 2 * * *", "Australia/Lord_Howe", [
      "2026-10-02T15:45:00Z", // 02:15 +10:30
      "2026-10-03T15:30:00Z", // 02:30 +11, the clock went from 02:00 to 02:30
      "2026-10-04T15:15:00Z", // 02:15 +11
    ]);
    assertResets("45 1 * * *", "Australia/Lord_Howe", [
      "2026-04-03T14:45:00Z", // 01:45 +11
      "2026-04-04T14:45:00Z", // 01:45 +11, and not again at 01:45 +10:30, 15:15Z
      "2026-04-05T15:15:00Z", // 01:45 +10:30
    ]);
  });

  test("a day that an island skipped has its reset, at the instant the next day begins (Samoa, 2011)", () => {
    assertResets("0 0 * * *", "Pacific/Apia", [
      "2011-12-29T10:00:00Z", // 29 December, -10
      "2011-12-30T10:00:00Z", // 31 December, +14, and for 30 December
      "2011-12-31T10:00:00Z",
    ]);
    assert.equal(
      calendar.nextReset("0 0 30 12 *", "Pacific/Apia", at("2011-12-01T00:00:00Z")),
      at("2011-12-30T10:00:00Z"),
    );
  });

  test("two changes within a week are both seen (Recife, summer time of seven days in 2000)", () => {
    assertResets("0 0 * * *", "America/Recife", [
      "2000-10-07T03:00:00Z", // -03
      "2000-10-08T03:00:00Z", // skipped: the clock went from 24:00 -03 to 01:00 -02
      "2000-10-09T02:00:00Z",
    ]);
    assertResets("0 0 * * *", "America/Recife", [
      "2000-10-14T02:00:00Z", // -02
      "2000-10-15T03:00:00Z", // after the repeated hour from 23:00
      "2000-10-16T03:00:00Z",
    ]);
  });

  test("a change at midnight UTC is a change (Baku, 2012)", () => {
    assertResets("30 4 * * *", "Asia/Baku", [
      "2012-03-24T00:30:00Z", // +04
      "2012-03-25T00:00:00Z", // the clock went from 04:00 to 05:00
      "2012-03-25T23:30:00Z", // +05
    ]);
  });

  test("offsets with seconds are exact (Monrovia, 44 minutes and 30 seconds behind until 1972)", () => {
    assertResets("44 0 * * *", "Africa/Monrovia", [
      "1972-01-06T01:28:30Z", // 00:44 at -00:44:30
      "1972-01-07T00:44:30Z", // the clock went from 00:00:00 to 00:44:30
      "1972-01-08T00:44:00Z",
    ]);
  });
});

describe("windows when the clock changes", () => {
  test("a window in the skipped hour does not happen that day", () => {
    assert.equal(
      calendar.nextChange("* 2 * * *", "America/New_York", at("2026-03-08T05:00:00Z")),
      at("2026-03-09T06:00:00Z"),
    );
  });

  test("a window that runs into the gap ends where the gap begins", () => {
    assertChanges("30-59 1-2 * * *", "America/New_York", ["2026-03-08T06:30:00Z", "2026-03-08T07:00:00Z"]);
  });

  test("a window in the repeated hour happens twice, and one that fills it lasts two hours", () => {
    assertChanges("30-59 1 * * *", "America/New_York", [
      "2026-11-01T05:30:00Z",
      "2026-11-01T06:00:00Z",
      "2026-11-01T06:30:00Z",
      "2026-11-01T07:00:00Z",
    ]);
    assertChanges("* 1 * * *", "America/New_York", ["2026-11-01T05:00:00Z", "2026-11-01T07:00:00Z"]);
  });

  test("a window that autumn goes back to before is open again, though its minute had passed", () => {
    assertChanges("10 1 * * *", "America/New_York", [
      "2026-11-01T05:10:00Z",
      "2026-11-01T05:11:00Z",
      "2026-11-01T06:10:00Z",
    ]);
  });

  test("a window half a year away opens at the local time of its season", () => {
    assert.equal(
      calendar.nextChange("0 12 15 7 *", "America/New_York", at("2026-01-10T00:00:00Z")),
      at("2026-07-15T16:00:00Z"),
    );
    assert.equal(
      calendar.nextChange("0 12 15 1 *", "America/New_York", at("2026-07-10T00:00:00Z")),
      at("2027-01-15T17:00:00Z"),
    );
  });

  test("a window that lies in the gap of every year is never open, and finding that out ends", () => {
    // The last Sunday of March, 02:30 in Berlin: the step keeps both day fields in force.
    const cron = "30 2 25-31 3 */7";
    assert.equal(calendar.nextChange(cron, "Europe/Berlin", at("2026-01-01T00:00:00Z")), Number.POSITIVE_INFINITY);
    assertResets(cron, "Europe/Berlin", ["2026-03-29T01:00:00Z", "2027-03-28T01:00:00Z", "2028-03-26T01:00:00Z"]);
  });
});

describe("far resets", () => {
  test("the reset of 31 January is still known on 5 March (X5)", () => {
    assert.equal(calendar.previousReset("0 0 31 * *", "UTC", at("2026-03-05T12:00:00Z")), at("2026-01-31T00:00:00Z"));
    assertResets("0 0 31 * *", "UTC", ["2026-01-31T00:00:00Z", "2026-03-31T00:00:00Z", "2026-05-31T00:00:00Z"]);
  });

  test("the 29th and 30th are not lost over February (X5)", () => {
    assertResets("0 0 30 * *", "UTC", ["2026-01-30T00:00:00Z", "2026-03-30T00:00:00Z"]);
    assertResets("0 0 29 * *", "Europe/Berlin", ["2026-01-28T23:00:00Z", "2026-03-28T23:00:00Z"]);
  });

  test("29 February comes every four years, but eight years apart over 2100 and 2200 (X5)", () => {
    assertResets("0 0 29 2 *", "UTC", ["2024-02-29T00:00:00Z", "2028-02-29T00:00:00Z"]);
    assertResets("0 0 29 2 *", "America/New_York", ["2096-02-29T05:00:00Z", "2104-02-29T05:00:00Z"]);
    assertResets("0 0 29 2 *", "UTC", ["2196-02-29T00:00:00Z", "2204-02-29T00:00:00Z"]);
    assertResets("0 0 29 2 *", "UTC", ["1972-02-29T00:00:00Z", "1976-02-29T00:00:00Z"]);
    // A Sunday, which the step makes a second condition: 2032, 2060, 2088, then 40 years.
    assertResets("0 0 29 2 */7", "UTC", ["2088-02-29T00:00:00Z", "2128-02-29T00:00:00Z"]);
  });

  test("the last minutes of long periods still know how they began (X5)", () => {
    const cases: readonly [cron: string, tz: string, now: string, previous: string, next: string][] = [
      ["0 0 1 * *", "UTC", "2026-01-31T23:59:59.999Z", "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"],
      // October has 31 days and an hour.
      ["0 0 1 * *", "Europe/Berlin", "2026-10-31T22:59:59.999Z", "2026-09-30T22:00:00Z", "2026-10-31T23:00:00Z"],
      ["0 0 1 1 *", "UTC", "2028-12-31T23:59:59.999Z", "2028-01-01T00:00:00Z", "2029-01-01T00:00:00Z"],
    ];
    for (const [cron, tz, now, previous, next] of cases) {
      assert.equal(calendar.previousReset(cron, tz, at(now)), at(previous));
      assert.equal(calendar.nextReset(cron, tz, at(now)), at(next));
    }
  });
});

describe("days", () => {
  test("day of month and day of week both given: either matches, unless one of them begins with a star", () => {
    // June 2026: the 15th is a Monday, the 16th a Tuesday.
    const noon = (day: number): number => Date.UTC(2026, 5, day, 12);
    const days = Array.from({ length: 30 }, (_, index) => index + 1);
    const matching = (cron: string): readonly number[] =>
      days.filter((day) => calendar.matches(cron, "UTC", noon(day)));
    assert.deepEqual(matching("* * 15 * TUE"), [2, 9, 15, 16, 23, 30]);
    assert.deepEqual(matching("* * */2 * TUE"), [9, 23]);
    assert.deepEqual(matching("* * 15,16 * */2"), [16]);
    assert.deepEqual(matching("* * 15 * *"), [15]);
    assert.deepEqual(matching("* * * * TUE"), [2, 9, 16, 23, 30]);
  });

  test("Sunday is 0, 7 and SUN, in lists and ranges too", () => {
    const sunday = at("2026-06-14T12:00:00Z");
    for (const field of ["0", "7", "SUN", "sun", "6-7", "0-1", "FRI-SUN", "SUN-MON", "3,7", "*/7", "5-7/2", "1/2"]) {
      assert.equal(calendar.matches(`* * * * ${field}`, "UTC", sunday), true, field);
    }
    for (const field of ["1-6", "2/3", "SAT"])
      assert.equal(calendar.matches(`* * * * ${field}`, "UTC", sunday), false, field);
  });

  test("a night is one window and one reset, though midnight lies in it", () => {
    assertResets("* 22-23,0-5 * * *", "UTC", ["2026-06-14T22:00:00Z", "2026-06-15T22:00:00Z"]);
    assertChanges("* 22-23,0-5 * * *", "UTC", ["2026-06-14T22:00:00Z", "2026-06-15T06:00:00Z", "2026-06-15T22:00:00Z"]);
    // On Saturdays only there are two: 00:00 to 06:00 and 22:00 to 24:00.
    assertResets("* 22-23,0-5 * * SAT", "UTC", [
      "2026-06-13T00:00:00Z",
      "2026-06-13T22:00:00Z",
      "2026-06-20T00:00:00Z",
    ]);
  });

  test("whole days in a row are one window and one reset", () => {
    assertResets("* * * * MON-FRI", "Europe/Berlin", ["2026-06-14T22:00:00Z", "2026-06-21T22:00:00Z"]);
    assertChanges("* * * * MON-FRI", "Europe/Berlin", ["2026-06-14T22:00:00Z", "2026-06-19T22:00:00Z"]);
  });
});
