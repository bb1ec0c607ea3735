import assert from "node:assert/strict";
import { test } from "node:test";
import { createZone } from "./calendar-zone.ts";

const HALF_DAY_MS = 43_200_000;

test("no change of the clock since 1970 is overlooked, however close to the next", () => {
  // The zones whose changes have been closest together, those that changed by a day or by seconds, and one without any.
  const zones = [
    "America/Recife",
    "America/Noronha",
    "America/Argentina/Tucuman",
    "Africa/Cairo",
    "Africa/El_Aaiun",
    "Asia/Hebron",
    "Pacific/Apia",
    "Africa/Monrovia",
    "Asia/Tokyo",
  ];
  for (const tz of zones) {
    const zone = createZone(tz);
    const label = labeller(tz);
    let expected = label(0);
    for (let ms = HALF_DAY_MS; ms < Date.UTC(2040, 0, 1); ms += HALF_DAY_MS) {
      const seen = label(ms);
      const message = `${tz} ${new Date(ms).toISOString()}`;
      const transition = zone.transitionWithin(ms - HALF_DAY_MS, ms);
      if (seen === expected) assert.equal(transition, undefined, message);
      else {
        assert.ok(transition !== undefined, message);
        assert.equal(label(transition - 1), expected, `${message}: still the old offset 1 ms before`);
        assert.equal(label(transition), seen, `${message}: the new offset at the instant`);
      }
      expected = seen;
    }
  }
});

test("the offset of every zone is the platform's, to the second", () => {
  for (const tz of Intl.supportedValuesOf("timeZone")) {
    const zone = createZone(tz);
    const format = new Intl.DateTimeFormat("en-US", {
      timeZone: tz,
      hourCycle: "h23",
      year: "numeric",
      month: "2-digit",
      day: "2-digit",
      hour: "2-digit",
      minute: "2-digit",
      second: "2-digit",
    });
    for (const ms of [0, Date.UTC(1999, 6, 1, 5), Date.UTC(2026, 0, 1), Date.UTC(2026, 6, 1), Date.UTC(2199, 6, 1)]) {
      const [month = 0, day = 0, year = 0, hour = 0, minute = 0, second = 0] = (
        format.format(ms).match(/\d+/g) ?? []
      ).map(Number);
      assert.equal(zone.offsetAt(ms), Date.UTC(year, month - 1, day, hour, minute, second) - ms, `${tz} ${ms}`);
    }
  }
});

function labeller(tz: string): (atMs: number) => string {
  const format = new Intl.DateTimeFormat("en-US", { timeZone: tz, year: "numeric", timeZoneName: "longOffset" });
  return (atMs) => format.format(atMs).replace(/^\d+, /, "");
}
