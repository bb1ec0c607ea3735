import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "../../../test/properties.ts";
import { type UsageSnapshot, UsageTally, windowEndMs, windowStartMs } from "./usage.ts";

const at = (iso: string): number => Date.parse(iso);

test("windows begin on the hour, at midnight and on the first of the month, in UTC, wherever the machine stands", (t) => {
  const zone = process.env.TZ;
  t.after(() => {
    if (zone === undefined) delete process.env.TZ;
    else process.env.TZ = zone;
  });
  process.env.TZ = "Asia/Kolkata"; // half an hour off, and already in March
  const ms = at("2024-02-29T23:59:59.999Z");
  assert.equal(windowStartMs("hourly", ms), at("2024-02-29T23:00:00Z"));
  assert.equal(windowStartMs("daily", ms), at("2024-02-29T00:00:00Z"));
  assert.equal(windowStartMs("monthly", ms), at("2024-02-01T00:00:00Z"));
});

test("the first millisecond after a window belongs to the next, also over a leap day and the turn of a year", () => {
  assert.equal(windowEndMs("monthly", at("2024-02-01T00:00:00Z")), at("2024-03-01T00:00:00Z"));
  assert.equal(windowEndMs("monthly", at("2023-02-01T00:00:00Z")), at("2023-03-01T00:00:00Z"));
  assert.equal(windowEndMs("monthly", at("2024-12-01T00:00:00Z")), at("2025-01-01T00:00:00Z"));
  assert.equal(windowEndMs("daily", at("2024-12-31T00:00:00Z")), at("2025-01-01T00:00:00Z"));
  assert.equal(windowEndMs("hourly", at("2024-12-31T23:00:00Z")), at("2025-01-01T00:00:00Z"));
});

test("every instant lies in exactly one window of each kind", () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 0, max: 4_000_000_000_000 }),
      fc.constantFrom("hourly", "daily", "monthly"),
      (ms, window) => {
        const start = windowStartMs(window, ms);
        const end = windowEndMs(window, start);
        assert.ok(start <= ms && ms < end);
        assert.equal(windowStartMs(window, start), start);
        assert.equal(windowStartMs(window, end), end);
        assert.equal(windowStartMs(window, end - 1), start);
      },
    ),
    { numRuns: 500 },
  );
});

function snapshot(hour: number, counters: Record<string, number>, requests: number): UsageSnapshot {
  const windowStartMs = at("2024-02-29T00:00:00Z") + hour * 3_600_000;
  return {
    entityId: "key-1",
    resource: "gpt-4",
    window: "hourly",
    windowStartMs,
    windowEndMs: windowStartMs + 3_600_000,
    counters,
    requests,
    overdrafts: {},
    bypassed: {},
    wouldRefuse: {},
    heldMs: {},
  };
}

function summarize(snapshots: readonly UsageSnapshot[]) {
  const tally = new UsageTally();
  for (const each of snapshots) tally.add(each);
  return tally.summary();
}

test("an average counts only the windows that have the counter", () => {
  const summary = summarize([
    snapshot(5, { rpm: 4, tpm: 10 }, 4),
    snapshot(1, { rpm: 2 }, 2),
    snapshot(3, { rpm: 3 }, 3),
  ]);
  assert.equal(summary.snapshotCount, 3);
  assert.deepEqual({ ...summary.total }, { rpm: 9, tpm: 10 });
  assert.deepEqual({ ...summary.average }, { rpm: 3, tpm: 10 });
  assert.equal(summary.requests, 9);
  assert.equal(summary.firstWindowStartMs, at("2024-02-29T01:00:00Z"));
  assert.equal(summary.lastWindowStartMs, at("2024-02-29T05:00:00Z"));
});

test("a summary of nothing has no first and no last window", () => {
  const nothing = {
    ...{ snapshotCount: 0, total: {}, average: {}, requests: 0 },
    ...{ overdrafts: {}, bypassed: {}, wouldRefuse: {}, heldMs: {} },
  };
  assert.deepEqual(summarize([]), nothing);
});

test("more given back than taken shows as a negative total", () => {
  assert.deepEqual({ ...summarize([snapshot(0, { tpm: -500 }, 0)]).total }, { tpm: -500 });
});

test("limits called constructor or toString are counted like any other", () => {
  const { total, average } = summarize([
    snapshot(0, { constructor: 2, toString: 3 }, 1),
    snapshot(1, { constructor: 4 }, 1),
  ]);
  assert.deepEqual(Object.entries(total), [
    ["constructor", 6],
    ["toString", 3],
  ]);
  assert.deepEqual(Object.entries(average), [
    ["constructor", 3],
    ["toString", 3],
  ]);
});
