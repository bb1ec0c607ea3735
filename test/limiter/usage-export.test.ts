import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { Limit, RateLimiter } from "../../src/entry/index.ts";
import type { Store } from "../../src/ports/store.ts";
import type { UsageStore } from "../../src/ports/usage-store.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { EVERY_STORE } from "./every-store.ts";

const T0 = Date.UTC(2026, 2, 15, 12);

// The others have buckets only.
for (const [name, open] of EVERY_STORE.filter(([store]) => store === "memory" || store === "SQLite")) {
  describe(`usage for other programs: ${name}`, () => {
    test("an export has every window once, piece by piece, and adds up to the totals", async (t) => {
      const clock = new SimulatedClock(T0);
      const { store, options } = open(clock, t);
      const limiter = await RateLimiter.open({ store, clock, ...options });
      t.after(() => limiter.close());
      await limiter.setSystemDefaults([Limit.perHour("rph", 1_000_000), Limit.perHour("tph", 1_000_000)]);
      for (const entityId of ["a", "b"]) {
        for (const resource of ["gpt", "images"]) {
          await limiter.withLease({ entityId, resource, consume: { rph: 1, tph: 10 } }, async () => {});
          await limiter.withLease({ entityId, resource, consume: { rph: 1, tph: 5 } }, async () => {});
        }
      }
      const request = { window: "daily" } as const;
      const snapshots = await limiter.usage(request);
      assert.equal(snapshots.length, 4);
      let csv = "";
      for await (const piece of limiter.exportUsage({ ...request, format: "csv" })) csv += piece;
      const rows = csv.trimEnd().split("\n").slice(1);
      assert.equal(rows.length, 8);
      assert.ok(rows.every((row) => row.includes(",daily,2026-03-15T00:00:00.000Z,2026-03-16T00:00:00.000Z,2,")));
      const lines: unknown[] = [];
      for await (const line of limiter.exportUsage({ ...request, format: "ndjson" })) lines.push(JSON.parse(line));
      assert.deepEqual(lines, [...snapshots]);
      const totals = await limiter.usageTotals({ ...request, by: "resource" });
      assert.deepEqual(
        totals.map(({ resource, total, requests }) => [resource, total, requests]),
        [
          ["gpt", { rph: 4, tph: 30 }, 4],
          ["images", { rph: 4, tph: 30 }, 4],
        ],
      );
      const byEntity = await limiter.usageTotals({ ...request, resource: "gpt", by: "entity" });
      assert.deepEqual(
        byEntity.map(({ entityId, total }) => [entityId, total.tph]),
        [
          ["a", 15],
          ["b", 15],
        ],
      );
      const whole = await limiter.usageSummary(request);
      assert.deepEqual([whole.total, whole.requests], [{ rph: 8, tph: 60 }, 8]);
      await assert.rejects(limiter.usageTotals({ ...request, by: "day" as never }), { code: "option_invalid" });
      assert.throws(() => limiter.exportUsage({ ...request, format: "xls" as never }), { code: "format_invalid" });
    });

    test("an export reads a page when it is wanted, and no more than that", async (t) => {
      const clock = new SimulatedClock(T0);
      const { store, options } = open(clock, t);
      let read = 0;
      const counted: Store = {
        ...store,
        namespaces: store.namespaces,
        ping: () => store.ping(),
        close: () => store.close(),
        scope: (namespaceId) => {
          const scope = store.scope(namespaceId);
          const usage: UsageStore = {
            query: async (query, page) => {
              const found = await scope.usage.query(query, page);
              read += found.items.length;
              return found;
            },
          };
          return { ...scope, buckets: scope.buckets, usage };
        },
      };
      const limiter = await RateLimiter.open({ store: counted, clock, ...options });
      t.after(() => limiter.close());
      await limiter.setSystemDefaults([Limit.perHour("rph", 10)]);
      for (let i = 0; i < 2_500; i++) {
        await limiter.withLease({ entityId: `e${i}`, resource: "api", consume: { rph: 1 } }, async () => {});
      }
      let rows = 0;
      for await (const _ of limiter.exportUsage({ window: "hourly", format: "ndjson" })) rows += 1;
      assert.deepEqual([rows, read], [2_500, 2_500], "each row once");
      read = 0;
      for await (const _ of limiter.exportUsage({ window: "hourly", format: "ndjson" })) break;
      // A store that answers at once reads what of the page fits into the turn.
      const isAtOnce = store.scope("default").buckets.takeSync !== undefined;
      assert.ok(isAtOnce ? read > 0 && read <= 128 : read === 1_000, `${read} rows read for one`);
    });
  });
}
