import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "../../../test/properties.ts";
import {
  ended,
  endFor,
  givenBack,
  heldMilli,
  moved,
  NO_SLICES,
  nextEndMs,
  pulledIn,
  SLICES_MAX,
  type Slice,
  sliceEndingBy,
  taken,
} from "./holds.ts";

const HOLD_MS = 60_000;

test("a hold ends when its time is up, and at the latest a quarter of it later", () => {
  assert.equal(endFor(0, HOLD_MS, HOLD_MS), 60_000);
  assert.equal(endFor(1, HOLD_MS, HOLD_MS), 75_000);
  assert.equal(endFor(14_999, HOLD_MS, HOLD_MS), 75_000);
  assert.equal(endFor(15_000, HOLD_MS, HOLD_MS), 75_000);
  assert.equal(endFor(15_001, HOLD_MS, HOLD_MS), 90_000);
  fc.assert(
    fc.property(fc.nat(2 ** 43), fc.integer({ min: 1, max: 86_400 }), (atMs, seconds) => {
      const holdMs = seconds * 1000;
      const endMs = endFor(atMs, holdMs, holdMs);
      assert.ok(endMs >= atMs + holdMs && endMs < atMs + holdMs + holdMs / 4);
      assert.equal(endMs % (holdMs / 4), 0);
    }),
  );
});

test("a request may hold for a shorter time than the limit says, not for a longer one", () => {
  assert.equal(endFor(0, 10_000, HOLD_MS), 15_000);
  assert.equal(endFor(0, 600_000, HOLD_MS), 60_000);
});

test("holds that end together are one slice, and each new end gets the first place that is free", () => {
  const one = taken(NO_SLICES, 1000, 75_000);
  assert.deepEqual(one, [{ place: 0, endMs: 75_000, heldMilli: 1000 }]);
  const three = taken(taken(one, 2000, 75_000), 1000, 90_000);
  assert.deepEqual(three, [
    { place: 0, endMs: 75_000, heldMilli: 3000 },
    { place: 1, endMs: 90_000, heldMilli: 1000 },
  ]);
  assert.deepEqual(taken(ended(three, 75_000), 1000, 105_000), [
    { place: 1, endMs: 90_000, heldMilli: 1000 },
    { place: 0, endMs: 105_000, heldMilli: 1000 },
  ]);
});

test("a slice ends at its end, not a millisecond before", () => {
  const slices = taken(NO_SLICES, 1000, 75_000);
  assert.equal(ended(slices, 74_999), slices);
  assert.deepEqual(ended(slices, 75_000), []);
  assert.equal(nextEndMs(slices), 75_000);
  assert.equal(nextEndMs([]), Number.POSITIVE_INFINITY);
});

test("a give-back finds its own slice by place and end, or frees nothing", () => {
  const slices = taken(NO_SLICES, 2000, 75_000);
  assert.deepEqual(givenBack(slices, { place: 0, endMs: 75_000 }, 1000), [
    { place: 0, endMs: 75_000, heldMilli: 1000 },
  ]);
  assert.equal(givenBack(slices, { place: 0, endMs: 60_000 }, 1000), undefined);
  assert.equal(givenBack(slices, { place: 1, endMs: 75_000 }, 1000), undefined);
  assert.equal(givenBack(slices, { place: 0, endMs: 75_000 }, 2001), undefined);
});

test("a renewal moves a hold to a later end, never to an earlier one, and not one that has ended", () => {
  const slices = taken(NO_SLICES, 2000, 75_000);
  const from = { place: 0, endMs: 75_000 };
  assert.deepEqual(moved(slices, from, 1000, 90_000), {
    slices: [
      { place: 0, endMs: 75_000, heldMilli: 1000 },
      { place: 1, endMs: 90_000, heldMilli: 1000 },
    ],
    into: { place: 1, endMs: 90_000 },
  });
  assert.deepEqual(moved(slices, from, 1000, 60_000), { slices, into: from });
  assert.equal(moved(slices, { place: 0, endMs: 60_000 }, 1000, 90_000), undefined);
  assert.equal(moved(slices, from, 3000, 90_000), undefined);
});

const full = Array.from({ length: SLICES_MAX }, (_, i) => i * 1000 + 10_000).reduce<readonly Slice[]>(
  (slices, endMs) => taken(slices, 1000, endMs),
  NO_SLICES,
);

test("with no place left a hold joins the next slice that ends later, else the last one is moved up", () => {
  const joined = taken(full, 500, 10_500);
  assert.equal(joined.length, SLICES_MAX);
  assert.deepEqual(sliceEndingBy(joined, 10_500), { place: 1, endMs: 11_000, heldMilli: 1500 });
  const lifted = taken(full, 500, 99_000);
  assert.equal(lifted.length, SLICES_MAX);
  assert.deepEqual(sliceEndingBy(lifted, 99_000), { place: 7, endMs: 99_000, heldMilli: 1500 });
  // Tickets of the slice that was moved find it no more.
  assert.equal(givenBack(lifted, { place: 7, endMs: 17_000 }, 1000), undefined);
  // The last one itself stays where it is.
  const last = { place: 7, endMs: 17_000 };
  assert.deepEqual(moved(full, last, 1000, 99_000), { slices: full, into: last });
});

test("slices that only a clock ahead can have made become one that ends like a hold of now", () => {
  const slices = taken(taken(taken(NO_SLICES, 1000, 60_000), 2000, 900_000), 3000, 915_000);
  assert.deepEqual(pulledIn(slices, 10_000, HOLD_MS), [
    { place: 0, endMs: 60_000, heldMilli: 1000 },
    { place: 1, endMs: 75_000, heldMilli: 5000 },
  ]);
  assert.equal(pulledIn(slices, 900_000, HOLD_MS), slices);
});

/** A hold by what its holder was told. */
interface Told {
  readonly milli: number;
  readonly place: number;
  readonly endMs: number;
}

test("whatever happens, slices hold at least the holds that are told to end then or later", () => {
  const step = fc.record({
    kind: fc.constantFrom("take", "take", "back", "renew", "time"),
    ms: fc.nat(40_000),
    milli: fc.integer({ min: 1, max: 5 }).map((slots) => slots * 1000),
    holdMs: fc.constantFrom(1_000, 5_000, 20_000, 60_000, 90_000),
    which: fc.nat(20),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60, size: "max" }), (steps) => {
      let nowMs = 0;
      let slices: readonly Slice[] = NO_SLICES;
      let told: Told[] = [];
      for (const { kind, ms, milli, holdMs, which } of steps) {
        const endMs = endFor(nowMs, holdMs, holdMs);
        const one = told[which % Math.max(1, told.length)];
        if (kind === "time") {
          nowMs += ms;
          slices = ended(slices, nowMs);
          told = told.filter((hold) => hold.endMs > nowMs);
        } else if (kind === "take") {
          slices = taken(slices, milli, endMs);
          const { place, endMs: until } = sliceEndingBy(slices, endMs) as Slice;
          assert.ok(until >= endMs);
          told.push({ milli, place, endMs: until });
        } else if (one !== undefined && kind === "back") {
          slices = givenBack(slices, one, one.milli) ?? slices;
          told = told.filter((hold) => hold !== one);
        } else if (one !== undefined) {
          const after = moved(slices, one, one.milli, endMs);
          if (after === undefined) continue;
          slices = after.slices;
          assert.ok(after.into.endMs >= one.endMs);
          told = told.map((hold) => (hold === one ? { ...one, ...after.into } : hold));
        }
        assert.ok(slices.length <= SLICES_MAX);
        assert.equal(new Set(slices.map(({ place }) => place)).size, slices.length);
        for (const { endMs: x } of told) {
          const live = told.filter((hold) => hold.endMs >= x).reduce((sum, hold) => sum + hold.milli, 0);
          assert.ok(heldMilli(slices.filter((slice) => slice.endMs >= x)) >= live);
        }
      }
    }),
    { numRuns: 2000 },
  );
});
