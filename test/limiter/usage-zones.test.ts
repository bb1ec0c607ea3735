import assert from "node:assert/strict";
import { describe, type TestContext, test } from "node:test";
import { Limit, RateLimiter } from "../../src/entry/index.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { atDepth } from "../depth.ts";
import { tempFile } from "../sqlite/temp-store.ts";

const HOUR_MS = 3_600_000;
const T0 = Date.UTC(2026, 2, 15, 12);

// Each zone around a change of its clock; India has none, and is off by half an hour.
const CHANGES = [
  ["Europe/Berlin", Date.UTC(2026, 9, 25)],
  ["America/New_York", Date.UTC(2026, 2, 8)],
  ["Australia/Lord_Howe", Date.UTC(2026, 3, 4)],
  ["Asia/Kolkata", Date.UTC(2026, 5, 1)],
] as const;

/** The day, or the month, that a wall clock in the zone shows. */
function shownAt(tz: string, atMs: number, length: "daily" | "monthly"): string {
  const day = new Intl.DateTimeFormat("sv-SE", { timeZone: tz, dateStyle: "short" }).format(atMs);
  return length === "daily" ? day : day.slice(0, 7);
}

const STORES = [
  ["memory", () => "memory"],
  ["SQLite", (t: TestContext) => `sqlite:${tempFile(t)}`],
] as const;

for (const [name, storeOf] of STORES) {
  describe(`usage by zone: ${name}`, () => {
    for (const [tz, changeMs] of CHANGES) {
      test(`in ${tz} each hour is billed once, in the window that its wall clock shows`, async (t) => {
        const firstMs = changeMs - 30 * HOUR_MS;
        const clock = new SimulatedClock(firstMs);
        const usage = { keepMs: 100 * 24 * HOUR_MS };
        const limiter = await RateLimiter.open({ store: storeOf(t), clock, usage });
        t.after(() => limiter.close());
        await limiter.setSystemDefaults([Limit.perHour("rph", 1_000_000)]);
        const hours = atDepth(80, 24 * 40);
        const expected = { daily: new Map<string, number>(), monthly: new Map<string, number>() };
        for (let hour = 0; hour < hours; hour++) {
          const atMs = firstMs + hour * HOUR_MS;
          clock.set(atMs + 1_000);
          await limiter.acquire({ entityId: "a", resource: "api", consume: { rph: hour + 1 } });
          for (const length of ["daily", "monthly"] as const) {
            const shown = shownAt(tz, atMs, length);
            expected[length].set(shown, (expected[length].get(shown) ?? 0) + hour + 1);
          }
        }
        for (const window of ["daily", "monthly"] as const) {
          const rows = await limiter.usage({ window, tz });
          assert.deepEqual(
            rows.map((row) => [shownAt(tz, row.windowStartMs, window), row.counters.rph, row.tz]),
            [...expected[window]].map(([day, sum]) => [day, sum, tz]),
          );
          for (const [i, { windowStartMs, windowEndMs }] of rows.entries()) {
            assert.notEqual(shownAt(tz, windowStartMs - 1, window), shownAt(tz, windowStartMs, window), "at midnight");
            if (i > 0) assert.equal(rows[i - 1]?.windowEndMs, windowStartMs);
            assert.ok(windowEndMs > windowStartMs);
          }
          const middle = rows[1] ?? rows[0];
          assert.ok(middle !== undefined);
          const from = await limiter.usage({ window, tz, fromMs: middle.windowEndMs - 1, toMs: middle.windowEndMs });
          assert.deepEqual([...from], [middle], "back to the beginning of its window");
          const { total, requests } = await limiter.usageSummary({ window, tz });
          assert.deepEqual([total, requests], [{ rph: (hours * (hours + 1)) / 2 }, hours]);
          const [sum] = await limiter.usageTotals({ window, tz, by: "entity" });
          assert.deepEqual([sum?.total, sum?.snapshotCount], [total, rows.length]);
        }
      });
    }
  });
}

test("an export by zone names the zone in each row", async () => {
  const clock = new SimulatedClock(T0);
  const limiter = await RateLimiter.open({ store: "memory", clock });
  await limiter.setSystemDefaults([Limit.perHour("rph", 100)]);
  await limiter.acquire({ entityId: "a", resource: "api", consume: { rph: 1 } });
  let csv = "";
  const asked = { window: "daily", tz: "Asia/Kolkata", format: "csv" } as const;
  for await (const piece of limiter.exportUsage(asked)) csv += piece;
  const [head = "", row = ""] = csv.split("\n");
  assert.match(head, /,tz$/);
  assert.match(row, /^a,api,daily,2026-03-14T18:30:00\.000Z,2026-03-15T18:30:00\.000Z,1,rph,1,.*,Asia\/Kolkata$/);
});

test("a zone that is none, and one for hours, are errors that change nothing", async () => {
  const limiter = await RateLimiter.open({ clock: new SimulatedClock(T0) });
  const refused = [
    [{ window: "daily", tz: "Europe/Atlantis" }, "tz_invalid", /Europe\/Atlantis/],
    [{ window: "monthly", tz: 2 as never }, "tz_invalid", /tz is 2; give/],
    [{ window: "hourly", tz: "Europe/Berlin" }, "option_invalid", /hourly/],
  ] as const;
  for (const [query, code, message] of refused) {
    assert.throws(() => limiter.usage(query), { code, message });
    await assert.rejects(limiter.usageSummary(query), { code });
    await assert.rejects(limiter.usageTotals({ ...query, by: "entity" }), { code });
  }
});
