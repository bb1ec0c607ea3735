import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { type TestContext, test } from "node:test";
import { collected } from "../../src/adapters/dynamodb/paging.ts";
import { texts, updateRecord } from "../../src/adapters/dynamodb/records-write.ts";
import { itemPlace, itemTableKey } from "../../src/adapters/dynamodb/schema.ts";
import { DynamoUsage } from "../../src/adapters/dynamodb/usage.ts";
import { readClosedUntil, readUsageState } from "../../src/adapters/dynamodb/usage-resources.ts";
import { bucketKey } from "../../src/domain/bucket/bucket-key.ts";
import { Limit } from "../../src/entry/index.ts";
import { atDepth } from "../depth.ts";
import { type DynamodbLocal, describeDynamo } from "../dynamodb/dynamodb-local.ts";
import { exception, FaultProxy } from "../dynamodb/fault-proxy.ts";
import { recordsOn } from "../dynamodb/store-kit.ts";
import { CREDENTIALS } from "./archive-kit.ts";
import { createTable, deleteTable, limiterOn, sweep } from "./package.ts";

const HOUR_MS = 3_600_000;
const START_MS = Date.UTC(2026, 2, 15, 10, 20);

/** Two keys and their organisation, used from 10:20 on, in three hours; at the end it is 18:20. */
async function used(t: TestContext, dynamodb: DynamodbLocal) {
  const stack = `swept-${process.pid}-${randomBytes(5).toString("hex")}`;
  const time = { nowMs: START_MS };
  const clock = { now: () => time.nowMs };
  const way = { stack, region: "us-east-1", endpoint: dynamodb.endpoint, credentials: CREDENTIALS };
  await createTable(way);
  const limiter = await limiterOn(way, clock);
  t.after(async () => {
    await limiter.close();
    await deleteTable(way);
  });
  await limiter.setSystemDefaults([Limit.perMinute("rpm", 1_000), Limit.perMinute("tpm", 100_000, { soft: true })]);
  await limiter.createEntity({ id: "org" });
  for (const id of ["a", "b"]) await limiter.createEntity({ id, parentId: "org", cascade: true });
  for (const hours of [0, 1, 3]) {
    time.nowMs = START_MS + hours * HOUR_MS;
    const request = { entityId: "a", resource: "api", consume: { rpm: 1, tpm: 100 } };
    await limiter.withLease(request, (lease) => lease.adjust({ tpm: 23 }));
    if (hours === 0) await limiter.withLease({ ...request, entityId: "b", consume: { rpm: 2 } }, async () => {});
  }
  time.nowMs = START_MS + 8 * HOUR_MS;
  const records = recordsOn(dynamodb, stack);
  const registry = await collected(records.query({ partition: "_/SYSTEM#", range: { prefix: "#NSID#" } }));
  const namespaceId = registry[0]?.namespace_id?.S ?? "";
  // What is counted, read by a process of its own.
  const read = async (window: "hourly" | "daily" | "monthly") => {
    const reader = await limiterOn(way, clock);
    try {
      const all = [];
      for await (const { entityId, windowStartMs, counters, requests } of reader.usage({ window })) {
        all.push({ entityId, windowStartMs, counters, requests });
      }
      return all;
    } finally {
      await reader.close();
    }
  };
  return { stack, way, clock, time, limiter, records, namespaceId, read };
}

const at = (hours: number) => Math.floor(START_MS / HOUR_MS + hours) * HOUR_MS;
const TRUTH = [
  ...[{ entityId: "a", windowStartMs: at(0), counters: { rpm: 1, tpm: 123 }, requests: 1 }],
  ...[{ entityId: "b", windowStartMs: at(0), counters: { rpm: 2 }, requests: 1 }],
  ...[{ entityId: "org", windowStartMs: at(0), counters: { rpm: 3, tpm: 123 }, requests: 2 }],
  ...[{ entityId: "a", windowStartMs: at(1), counters: { rpm: 1, tpm: 123 }, requests: 1 }],
  ...[{ entityId: "org", windowStartMs: at(1), counters: { rpm: 1, tpm: 123 }, requests: 1 }],
  ...[{ entityId: "a", windowStartMs: at(3), counters: { rpm: 1, tpm: 123 }, requests: 1 }],
  ...[{ entityId: "org", windowStartMs: at(3), counters: { rpm: 1, tpm: 123 }, requests: 1 }],
];

await describeDynamo("a sweep over real buckets", (dynamodb) => {
  test("writes sheets that are kept for as long as the system defaults say", async (t) => {
    const { way, clock, limiter, records, namespaceId } = await used(t, dynamodb);
    const limits = [Limit.perMinute("rpm", 1_000)];
    await limiter.setSystemDefaults(limits, { usageKeptDays: 3650, principal: "ada" });
    assert.deepEqual(await limiter.getSystemDefaults(), { limits, usageKeptDays: 3650 });
    const { events } = await limiter.auditEvents({ entityId: "$SYSTEM" });
    const [event] = events;
    assert.deepEqual([event?.action, event?.principal, event?.details.usageKeptDays], ["limits_set", "ada", 3650]);
    await sweep({ ...way, clock, write: () => {} });
    const key = itemTableKey(namespaceId, { bucket: bucketKey("a", "api"), shard: 0, sheet: "2026-03-15" });
    const ttl = Number((await records.get(key))?.ttl?.N);
    assert.equal(ttl, Date.UTC(2026, 2, 16) / 1000 + 3650 * 86_400);
    await assert.rejects(limiter.setSystemDefaults(limits, { usageKeptDays: 0 }), { code: "usage_kept_days_invalid" });
    await limiter.setSystemDefaults([], { usageKeptDays: 1 });
    assert.deepEqual(await limiter.getSystemDefaults(), { limits: [], usageKeptDays: 1 });
  });

  test("closes every hour that is over, changes no usage, and finds nothing the second time", async (t) => {
    const { way, clock, read, records, namespaceId, time } = await used(t, dynamodb);
    assert.deepEqual(await read("hourly"), TRUTH);
    const report = await sweep({ ...way, clock, write: () => {} });
    assert.deepEqual([report.complete, report.bucketsSwept, report.failures], [true, 3, 0]);
    // The last hour of each; a client has moved the others, or the sweep did.
    assert.ok(report.hoursClosed >= 3, `${report.hoursClosed} hours`);
    assert.equal(report.closedUntilMs, at(6));
    assert.equal(await readClosedUntil(records, namespaceId), at(6));
    assert.deepEqual(await read("hourly"), TRUTH);
    assert.equal((await sweep({ ...way, clock, write: () => {} })).hoursClosed, 0);
    assert.deepEqual(await read("hourly"), TRUTH);
    time.nowMs += HOUR_MS;
    assert.equal((await sweep({ ...way, clock, write: () => {}, all: true })).closedUntilMs, at(9));
  });

  test("killed after any of its calls, it changes no usage, and the next one closes the rest", async (t) => {
    let kills = 0;
    for (let calls = 1; ; calls += atDepth(25, 1)) {
      const { way, clock, read } = await used(t, dynamodb);
      const proxy = await FaultProxy.open(t, dynamodb.endpoint);
      let left = calls;
      proxy.choose = () =>
        left-- > 0 ? undefined : async ({ answer }) => answer(exception(400, "AccessDeniedException"));
      const cut = await sweep({ ...way, endpoint: proxy.endpoint, clock, write: () => {}, all: true }).catch(
        () => undefined,
      );
      assert.deepEqual(await read("hourly"), TRUTH, `killed after ${calls} calls`);
      if (cut?.complete === true && cut.failures === 0) break;
      kills += 1;
      const report = await sweep({ ...way, clock, write: () => {}, all: true });
      assert.deepEqual([report.complete, report.failures, report.closedUntilMs], [true, 0, at(8)]);
      assert.deepEqual(await read("hourly"), TRUTH, `swept again after ${calls} calls`);
    }
    assert.ok(kills >= atDepth(2, 10), `${kills} kills`);
  });

  test("a resource that came since the sweep is listed with all its hours, and one whose bucket is gone", async (t) => {
    const { way, clock, read, limiter, time, records, namespaceId } = await used(t, dynamodb);
    await sweep({ ...way, clock, write: () => {}, all: true });
    // Of the first hours only sheets tell; the bucket has the last ones.
    const hours = [8, 9, 10, 11, 16].map((hour) => at(hour));
    for (const hour of hours) {
      time.nowMs = hour + 60_000;
      await limiter.withLease({ entityId: "new", resource: "web", consume: { rpm: 1 } }, async () => {});
    }
    const due = [
      ...TRUTH,
      ...hours.map((windowStartMs) => ({ entityId: "new", windowStartMs, counters: { rpm: 1 }, requests: 1 })),
    ];
    assert.deepEqual(await read("hourly"), due, "its resource is not noted yet");
    time.nowMs += 6 * HOUR_MS;
    await sweep({ ...way, clock, write: () => {}, all: true });
    await records.deleteAll([itemTableKey(namespaceId, { bucket: bucketKey("new", "web"), shard: 0 })]);
    assert.deepEqual(await read("hourly"), due, "the bucket is gone");
    const { resources, resourcesAre } = await readUsageState(records, namespaceId);
    assert.deepEqual([[...resources].sort(), resourcesAre], [["api", "web"], "whole"]);
  });

  test("after days without a sweep, resources of which only sheets are left are noted too", async (t) => {
    const { way, clock, read, limiter, time, records, namespaceId } = await used(t, dynamodb);
    await sweep({ ...way, clock, write: () => {}, all: true });
    await limiter.withLease({ entityId: "new", resource: "web", consume: { rpm: 1 } }, async () => {});
    const bucket = { bucket: bucketKey("new", "web"), shard: 0 };
    const windowStartMs = at(8);
    const sheet = { h18: { S: "1;rpm=1000" } };
    const place = { ...bucket, sheet: "2026-03-15" };
    const index = texts(itemPlace(namespaceId, place));
    await records.transact([
      updateRecord(itemTableKey(namespaceId, place), { set: { ...sheet, ...index } }, undefined),
    ]);
    await records.deleteAll([itemTableKey(namespaceId, bucket)]);
    time.nowMs += 30 * HOUR_MS;
    const due = [...TRUTH, { entityId: "new", windowStartMs, counters: { rpm: 1 }, requests: 1 }];
    assert.deepEqual(await read("hourly"), due, "nobody trusts what was noted two days ago");
    await sweep({ ...way, clock, write: () => {}, all: true });
    assert.deepEqual(await read("hourly"), due, "noted from its sheet");
  });

  test("joins the shards of a bucket that is idle, not of one that is used, and usage stays as it was", async (t) => {
    const { way, clock, read, limiter, records, namespaceId, time } = await used(t, dynamodb);
    const proxy = await FaultProxy.open(t, dynamodb.endpoint);
    const busy = await limiterOn({ ...way, endpoint: proxy.endpoint }, clock);
    const take = () => busy.withLease({ entityId: "hot", resource: "api", consume: { rpm: 1 } }, async () => {});
    await take();
    let throttled = 0;
    proxy.choose = ({ operation }) =>
      operation === "UpdateItem" && throttled++ < 2
        ? async ({ answer }) => answer(exception(400, "ProvisionedThroughputExceededException"))
        : undefined;
    for (let i = 0; i < 8; i++) await take();
    // Splitting goes on beside the takes; closing waits for it.
    await busy.close();
    const shards = async () => {
      const item = await records.get({ pk: `${namespaceId}/BUCKET#hot#api#0`, sk: "#STATE" });
      return Number(item?.shard_count?.N);
    };
    assert.equal(await shards(), 2);
    const before = await read("daily");
    assert.equal(before.find(({ entityId }) => entityId === "hot")?.requests, 9);
    assert.equal((await sweep({ ...way, clock, write: () => {}, all: true })).shardsJoined, 0, "it was used just now");
    time.nowMs += 5 * HOUR_MS;
    assert.equal((await sweep({ ...way, clock, write: () => {} })).shardsJoined, 1);
    assert.equal(await shards(), 1);
    assert.deepEqual(await read("daily"), before);
    await sweep({ ...way, clock, write: () => {}, all: true });
    assert.deepEqual(await read("daily"), before);
    await limiter.withLease({ entityId: "hot", resource: "api", consume: { rpm: 1 } }, async () => {});
    assert.equal((await read("daily")).find(({ entityId }) => entityId === "hot")?.requests, 10);
  });

  test("snapshots: the original's readers see closed hours and days, and nothing is counted twice", async (t) => {
    const { way, clock, read, records, namespaceId, time } = await used(t, dynamodb);
    const snapshots = ["hourly", "daily"] as const;
    const options = { ...way, clock, write: () => {}, all: true, snapshots };
    await sweep(options);
    const original = new DynamoUsage({ records, namespaceId });
    const seen = async (window: "hourly" | "daily") => {
      const { items } = await original.query({ window, fromMs: 0, toMs: Number.MAX_SAFE_INTEGER }, { limit: 100 });
      return items.map(({ entityId, windowStartMs, counters, requests }) => ({
        entityId,
        windowStartMs,
        counters,
        requests,
      }));
    };
    assert.deepEqual(await seen("hourly"), TRUTH);
    assert.deepEqual(await seen("daily"), [], "the day is not over");
    assert.deepEqual(await read("hourly"), TRUTH);
    time.nowMs += 24 * HOUR_MS;
    await sweep(options);
    await sweep(options);
    assert.deepEqual(await seen("hourly"), TRUTH);
    assert.deepEqual(await seen("daily"), await read("daily"));
    const [item] = await collected(
      records.query({
        partition: `${namespaceId}/ENTITY#a`,
        range: { prefix: "#USAGE#api#2026-03-15T10" },
      }),
    );
    assert.deepEqual(
      [item?.SK?.S, item?.window?.S, item?.rpm?.N, item?.total_events?.N, item?.GSI2SK?.S],
      ["#USAGE#api#2026-03-15T10:00:00Z", "hourly", "1", "1", "USAGE#2026-03-15T10:00:00Z#a"],
    );
  });

  test("an export of a table has what its usage shows, and totals add up", async (t) => {
    const { limiter, read } = await used(t, dynamodb);
    const lines: { entityId: string }[] = [];
    for await (const line of limiter.exportUsage({ window: "daily", format: "ndjson" })) lines.push(JSON.parse(line));
    assert.deepEqual(
      lines.map(({ entityId }) => entityId),
      (await read("daily")).map(({ entityId }) => entityId),
    );
    const totals = await limiter.usageTotals({ window: "daily", by: "entity" });
    assert.deepEqual(
      totals.map(({ entityId, total, requests }) => [entityId, total, requests]),
      [
        ["a", { rpm: 3, tpm: 369 }, 3],
        ["b", { rpm: 2 }, 1],
        ["org", { rpm: 5, tpm: 369 }, 4],
      ],
    );
  });
});
