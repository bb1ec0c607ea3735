import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "../../../test/properties.ts";
import { BUSY_PER_SECOND, nextRate, type Rate } from "../process/bucket-cache.ts";

/** The counter seen at these times. */
function seen(...sights: readonly (readonly [atMs: number, writes: number])[]): Rate {
  let rate: Rate | undefined;
  for (const [atMs, writes] of sights) rate = nextRate(rate, writes, atMs);
  return rate as Rate;
}

test("nothing is said before a second has passed", () => {
  assert.equal(seen([0, 500]).perSecond, undefined);
  assert.equal(seen([0, 500], [999, 5_000]).perSecond, undefined);
  assert.equal(seen([0, 500], [1_000, 1_500]).perSecond, 1_000);
});

test("writes of all clients count, however seldom somebody looks", () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 0, max: 2_000 }),
      fc.array(fc.integer({ min: 1, max: 5_000 }), { minLength: 1 }),
      (perSecond, gaps) => {
        let atMs = 0;
        let rate = nextRate(undefined, 7, 0);
        for (const gapMs of gaps) {
          atMs += gapMs;
          rate = nextRate(rate, 7 + Math.floor((perSecond * atMs) / 1000), atMs);
        }
        if (rate.perSecond !== undefined) assert.ok(Math.abs(rate.perSecond - perSecond) <= 1);
      },
    ),
  );
});

test("it is busy for as many spans as were above the threshold in a row", () => {
  const busy = BUSY_PER_SECOND;
  assert.equal(seen([0, 0], [1_000, busy]).busySpans, 1);
  assert.equal(seen([0, 0], [1_000, busy], [2_000, 2 * busy], [3_000, 3 * busy]).busySpans, 3);
  assert.equal(seen([0, 0], [1_000, busy], [2_000, 2 * busy - 1]).busySpans, 0);
});

test("a counter that went back is another item's, and a clock that went back starts anew", () => {
  assert.deepEqual(seen([0, 900], [5_000, 3]), { sinceWrites: 3, sinceMs: 5_000, perSecond: undefined, busySpans: 0 });
  assert.equal(seen([5_000, 3], [4_000, 900]).perSecond, undefined);
});
