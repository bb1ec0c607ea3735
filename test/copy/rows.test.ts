import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { partsOf } from "../../src/engine/limiter/limiter-parts.ts";
import { copyStore } from "../../src/entry/copy.ts";
import { prepareTable } from "../../src/entry/dynamodb.ts";
import { CHANNELS, Limit, RateLimiter } from "../../src/entry/index.ts";
import { StoredLeases } from "../../src/leases/stored-leases.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { describeDynamo } from "../dynamodb/dynamodb-local.ts";
import { answeredBy, THROTTLED } from "../dynamodb/faults.ts";
import { OneTable } from "../dynamodb/one-table.ts";
import { heard } from "../limiter/listening.ts";
import { copyAndCompare, HOUR_MS, memoryPlace, START_MS, sqlitePlace } from "./kit.ts";

async function twoSides(t: TestContext) {
  const clock = new SimulatedClock(START_MS);
  const from = await (await memoryPlace(t)).open(clock);
  const to = await (await sqlitePlace(t)).open(clock);
  return { clock, from, to };
}

const held = async (limiter: RateLimiter, entityId: string, resource: string) =>
  (await limiter.available({ entityId, resource }))[0]?.available;

test("lists that are longer than a page are copied whole", async (t) => {
  const { from, to } = await twoSides(t);
  const many = Array.from({ length: 230 }, (_, i) => `e-${String(i).padStart(3, "0")}`);
  for (const [i, id] of many.entries()) {
    await from.createEntity({ id });
    await from.setLimits(id, [Limit.perDay("calls", 10 + i, { counts: "requests" })], { resource: "api" });
    await from.acquire({ entityId: id, resource: "api" });
  }
  const { namespaces } = await copyAndCompare(from, to);
  const counts = { entities: 230, plans: 0, levels: 230, owners: 0, buckets: 230, usageHours: 230 };
  assert.deepEqual(namespaces[0]?.copied, { ...counts, refusalHours: 0, refusals: 0, auditEvents: 460 });
  for (const [i, id] of many.entries()) assert.equal(await held(to, id, "api"), 9 + i);
  const { events } = await to.auditEvents({ limit: 1 });
  assert.deepEqual(
    [events[0]?.action, events[0]?.entityId, events[0]?.details],
    ["namespace_copied", "$NAMESPACE:default", { from: "memory", ...namespaces[0]?.copied }],
  );
});

test("open leases are counted and stay charged; nobody finds them, or a key, in the copy", async (t) => {
  const { from, to } = await twoSides(t);
  await from.setResourceDefaults("api", [Limit.quota("day", 100, { reset: { cron: "0 0 * * *" } })]);
  const options = { ...{ holdMs: 600_000, holdMaxMs: HOUR_MS }, onExpiry: "charge", onChange: () => {} } as const;
  const request = { entityId: "key", resource: "api", consume: { day: 10 } };
  const leases = new StoredLeases(from, options);
  const { lease } = await leases.acquire({ ...request, idempotencyKey: "once" } as never);
  const { lease: ended } = await leases.acquire(request);
  await leases.settle(ended.leaseId ?? "");
  await from.topUp({ entityId: "key", resource: "api", amounts: { day: 5 }, idempotencyKey: "paid" });
  const { namespaces } = await copyAndCompare(from, to);
  assert.equal(namespaces[0]?.leases, 1);
  assert.equal(await held(to, "key", "api"), 85);
  const copied = new StoredLeases(to, options);
  await assert.rejects(copied.get(lease.leaseId ?? ""), { code: "lease_not_found" });
  await leases.rollback(lease.leaseId ?? "");
  assert.deepEqual([await held(from, "key", "api"), await held(to, "key", "api")], [95, 85]);
  await copied.acquire({ ...request, idempotencyKey: "once" } as never);
  assert.equal(await held(to, "key", "api"), 75, "the key was not used there");
  const again = { entityId: "key", resource: "api", amounts: { day: 5 }, idempotencyKey: "paid" };
  assert.equal((await to.topUp(again)).repeated, false);
});

test("slots that are held are held in the copy until their end, and free themselves there", async (t) => {
  const { clock, from, to } = await twoSides(t);
  await from.setResourceDefaults("jobs", [Limit.concurrent("slots", 4, { holdMs: 2 * HOUR_MS })]);
  const lease = await from.acquire({ entityId: "key", resource: "jobs", consume: { slots: 3 } });
  await clock.advance(HOUR_MS);
  await copyAndCompare(from, to);
  const endOf = async (limiter: RateLimiter) =>
    (await limiter.explain({ entityId: "key", resource: "jobs" })).levels[0]?.limits[0]?.freesAtMs ?? Number.NaN;
  const endMs = await endOf(from);
  assert.ok(endMs >= START_MS + 2 * HOUR_MS);
  assert.equal(await endOf(to), endMs);
  await lease.settle();
  assert.deepEqual([await held(from, "key", "jobs"), await held(to, "key", "jobs")], [4, 1]);
  await clock.advance(endMs - 1 - clock.now());
  assert.equal(await held(to, "key", "jobs"), 1);
  assert.equal((await to.tryAcquire({ entityId: "key", resource: "jobs", consume: { slots: 2 } })).ok, false);
  await clock.advance(1);
  assert.equal((await to.tryAcquire({ entityId: "key", resource: "jobs", consume: { slots: 4 } })).ok, true);
});

test("a threshold that was told is not told again by the copy", async (t) => {
  const { clock, from, to } = await twoSides(t);
  const quota = Limit.quota("day", 100, { reset: { cron: "0 0 * * *" }, notifyAt: [50, 90] });
  await from.setResourceDefaults("api", [quota]);
  const use = (limiter: RateLimiter, day: number) =>
    limiter.acquire({ entityId: "key", resource: "api", consume: { day } });
  const events = heard(t, CHANNELS.threshold);
  const told = () => events.map(({ limit, percent }) => `${limit} ${percent}`);
  await use(from, 60);
  await clock.advance(1_000);
  assert.deepEqual(told(), ["day 50"]);
  await copyAndCompare(from, to);
  await use(to, 1);
  await clock.advance(1_000);
  assert.deepEqual(told(), ["day 50"]);
  await use(to, 30);
  await clock.advance(1_000);
  assert.deepEqual(told(), ["day 50", "day 90"]);
});

test("a copy that is hidden can be purged, is not recovered, and goes on from its own source only", async (t) => {
  const { clock, from, to } = await twoSides(t);
  await from.setResourceDefaults("api", [Limit.perMinute("rpm", 5)]);
  const stopped = async () => {
    const abort = new AbortController();
    const onProgress = () => abort.abort(new Error("enough"));
    await assert.rejects(copyStore({ from, to, signal: abort.signal, onProgress }), { message: "enough" });
    const [orphan] = await to.listOrphanNamespaces({ limit: 1 });
    assert.equal(orphan?.status, "copying");
    return orphan?.id ?? "";
  };
  const id = await stopped();
  await assert.rejects(to.recoverNamespace(id), { code: "namespace_not_deleted" });
  const other = await (await sqlitePlace(t)).open(clock);
  await assert.rejects(copyStore({ from: other, to, resume: true }), {
    code: "copy_unfinished",
    message: /from "?memory/,
  });
  await assert.rejects(copyStore({ from, to }), { code: "copy_unfinished" });
  const admin = partsOf(to);
  const purged = admin.admin.event("namespace_purged", `$NAMESPACE:${id}`, {}, {});
  await admin.deps.store.namespaces.purge(id, purged, id, () => {});
  assert.deepEqual([...(await to.listOrphanNamespaces({ limit: 1 }))], []);
  const { namespaces } = await copyStore({ from, to });
  assert.equal(namespaces[0]?.active, true);
});

await describeDynamo("DynamoDB", (dynamodb) => {
  const table = new OneTable(dynamodb);

  test("a bucket in shards becomes one with all that they hold together", async (t) => {
    const scene = await table.newScene();
    const { limiter: from, wire, store } = await scene.process();
    await from.setResourceDefaults("api", [
      Limit.custom("x", { capacity: 100, refillAmount: 1, refillPeriodMs: 1e12 }),
    ]);
    const use = (limiter: RateLimiter, x: number) =>
      limiter.tryAcquire({ entityId: "a", resource: "api", consume: { x } });
    await use(from, 7);
    for (const shards of [2, 4]) {
      await scene.clock.advance(11_000);
      wire.fault = answeredBy("UpdateItem", THROTTLED, 1);
      await use(from, 1);
      await store.scope(scene.namespaceId).settled();
      assert.equal(await scene.number("a", "shard_count"), shards);
    }
    for (let i = 0; i < 6; i++) await use(from, 5);
    const left = (await held(from, "a", "api")) ?? Number.NaN;
    const target = await (await sqlitePlace(t)).open(scene.clock);
    const { namespaces } = await copyStore({ from, to: target, namespaces: [scene.namespace] });
    assert.deepEqual([namespaces[0]?.differences, namespaces[0]?.copied.buckets, left], [[], 1, 61]);
    const to = target.namespace(scene.namespace);
    assert.ok([left, left - 1].includes((await held(to, "a", "api")) ?? 0));
    const summary = { entityId: "a", resource: "api", window: "hourly", fromMs: 0 } as const;
    assert.equal((await to.usageSummary(summary)).total.x, 39);
    assert.equal((await use(to, left - 1)).ok, true, "in one, although no shard held as much");
    assert.equal((await use(to, 2)).ok, false);
  });

  test("a table that is shared with the original is neither side", async (t) => {
    const clock = new SimulatedClock(START_MS);
    const stack = await dynamodb.newTable({ gsi2Projection: "ALL", expiry: false });
    t.after(() => dynamodb.client.send("DeleteTable", JSON.stringify({ TableName: stack }), { timeoutMs: 10_000 }));
    const credentials = { accessKeyId: "test", secretAccessKey: "test" };
    const way = { endpoint: dynamodb.endpoint, region: "eu-west-1", credentials };
    await prepareTable({ stack, ...way });
    const shared = await RateLimiter.open({
      ...way,
      store: `dynamodb:${stack}`,
      sharedTable: true,
      clock,
      timeoutMs: 10_000,
    });
    t.after(() => shared.close());
    const other = await (await memoryPlace(t)).open(clock);
    await assert.rejects(copyStore({ from: shared, to: other, freeze: true }), { code: "shared_table" });
    await assert.rejects(copyStore({ from: other, to: shared }), { code: "shared_table" });
    await assert.rejects(shared.freezeNamespace("default"), { code: "shared_table" });
    assert.deepEqual(await shared.getPolicy({ resource: "api" }), {});
  });
});
