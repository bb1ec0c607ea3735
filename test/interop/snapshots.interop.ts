import assert from "node:assert/strict";
import { test } from "node:test";
import { sweep } from "../../src/entry/aggregator.ts";
import { Limit } from "../../src/entry/index.ts";
import { describeDynamo } from "../dynamodb/dynamodb-local.ts";
import { CREDENTIALS, REGION, Shared } from "./kit.ts";

// A table of ours, on which nobody of the original takes: its readers see usage by the copies that the sweep makes.

interface TheirSnapshot {
  readonly entity_id: string;
  readonly resource: string;
  readonly window_start: string;
  readonly window_type: string;
  readonly counters: Readonly<Record<string, number>>;
  readonly total_events: number;
}

const HOUR_MS = 3_600_000;

await describeDynamo("usage of ours for the original's readers", (dynamodb) => {
  test("closed hours and days are what its own reader shows, midnight included", async (t) => {
    const shared = await Shared.on(dynamodb, t);
    const midnight = Date.UTC(2026, 2, 15);
    await shared.at(midnight + 5 * 60_000);
    const our = await shared.our({ sharedTable: false });
    await our.setSystemDefaults([Limit.perMinute("rpm", 100), Limit.perMinute("tpm", 10_000)]);
    const take = (rpm: number) =>
      our.withLease({ entityId: "key", resource: "api", consume: { rpm, tpm: 10 * rpm } }, async () => {});
    await take(5);
    await shared.pass(13 * HOUR_MS);
    await take(7);
    await shared.pass(24 * HOUR_MS);
    const way = { stack: shared.table, endpoint: dynamodb.endpoint, region: REGION, credentials: CREDENTIALS };
    const clock = { now: () => shared.now() };
    await sweep({ ...way, clock, all: true, snapshots: ["hourly", "daily"], write: () => {} });

    const their = await shared.their({ how: "connect" });
    const read = async (window: string) => {
      const query = { entity_id: "key", resource: "api", window_type: window };
      const [snapshots] = await their.call<[readonly TheirSnapshot[], unknown]>("get_usage_snapshots", [], query);
      return snapshots.map(({ window_start, counters, total_events }) => ({ window_start, counters, total_events }));
    };
    // The original's own aggregator shows 24 in the hours and nothing in the day here.
    assert.deepEqual(await read("hourly"), [
      { window_start: "2026-03-15T13:00:00Z", counters: { rpm: 7, tpm: 70 }, total_events: 1 },
      { window_start: "2026-03-15T00:00:00Z", counters: { rpm: 5, tpm: 50 }, total_events: 1 },
    ]);
    assert.deepEqual(await read("daily"), [
      { window_start: "2026-03-15T00:00:00Z", counters: { rpm: 12, tpm: 120 }, total_events: 2 },
    ]);
  });
});
