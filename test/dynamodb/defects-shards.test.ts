import assert from "node:assert/strict";
import { test } from "node:test";
import { Limit, RateLimitExceeded, type RateLimiter } from "../../src/entry/index.ts";
import { describeDynamo } from "./dynamodb-local.ts";
import { answeredBy, THROTTLED } from "./faults.ts";
import { OneTable, type Process, type Scene } from "./one-table.ts";
import { N } from "./store-kit.ts";

// Defects of the original that show on buckets of several shards, or on their way there.

const MINUTE_MS = 60_000;
const SHARD_COUNT = "shard_count";
/** What is taken of it stays taken. */
const slow = (capacity: number) => Limit.custom("x", { capacity, refillAmount: 1, refillPeriodMs: 1e12 });

await describeDynamo("no defect of the original shows on a bucket with shards", (dynamodb) => {
  const table = new OneTable(dynamodb);

  test("W2: a bucket whose counter of writes is used up goes on as it was: it neither doubles nor refuses", async () => {
    const scene = await table.newScene();
    const { limiter } = await scene.process();
    await limiter.setSystemDefaults([Limit.perSecond("x", 10)]);
    await take(limiter, "a", 1);
    const item = await scene.bucket("a");
    assert.ok(item !== undefined);
    // As the original leaves it after a thousand writes.
    await scene.put([{ ...item, b_wcu_tk: N(-1_000), b_wcu_tc: N(1_001_000) }]);
    const other = await scene.process();
    for (let second = 0; second < 30; second++) {
      await scene.clock.advance(1_000);
      await take(other.limiter, "a", 1);
    }
    assert.equal(await scene.number("a", SHARD_COUNT), 1);
  });

  test("X2: neither a burst in one instant nor a clock ten seconds ahead makes shards", async () => {
    const scene = await table.newScene();
    const { limiter } = await scene.process({}, { coalesce: false });
    await limiter.setSystemDefaults([Limit.perSecond("x", 1_000)]);
    await take(limiter, "a", 1);
    for (let i = 0; i < 10; i++) await Promise.all(Array.from({ length: 10 }, () => take(limiter, "a", 1)));
    scene.clock.set(scene.clock.now() - 10_000);
    for (let i = 0; i < 20; i++) await take(limiter, "a", 1);
    assert.equal(await scene.number("a", SHARD_COUNT), 1);
  });

  test("X2: a bucket that is throttled again and again doubles once in ten seconds, and comes back when it is idle", async () => {
    const scene = await table.newScene();
    const process = await scene.process();
    await process.limiter.setSystemDefaults([slow(1_000)]);
    await grow(scene, process, "a", 2);
    process.wire.fault = answeredBy("UpdateItem", THROTTLED, 3);
    for (let i = 0; i < 5; i++) await take(process.limiter, "a", 1);
    await scene.clock.advance(9_000);
    process.wire.fault = answeredBy("UpdateItem", THROTTLED, 3);
    for (let i = 0; i < 5; i++) await take(process.limiter, "a", 1);
    assert.equal(await scene.number("a", SHARD_COUNT), 2);
    for (let minute = 0; (await scene.number("a", SHARD_COUNT)) !== 1; minute++) {
      assert.ok(minute < 30, "it is still split");
      await scene.clock.advance(MINUTE_MS);
      await take(process.limiter, "a", 1);
    }
    assert.equal(await scene.bucket("a", 1), undefined);
  });

  test("X2: a bucket never has more than 32 shards, and every one of them is there", async () => {
    const scene = await table.newScene();
    const process = await scene.process();
    await process.limiter.setSystemDefaults([slow(1_000)]);
    for (const count of [2, 4, 8, 16, 32]) await grow(scene, process, "a", count);
    await scene.clock.advance(11_000);
    process.wire.fault = answeredBy("UpdateItem", THROTTLED, 1);
    await take(process.limiter, "a", 1);
    await process.store.close();
    for (let shard = 0; shard < 32; shard++) assert.equal(await scene.number("a", SHARD_COUNT, shard), 32);
    assert.equal(await scene.bucket("a", 32), undefined);
  });

  test("W4: what was taken from shard 1 is given back to shard 1", async () => {
    const scene = await table.newScene();
    const process = await scene.process();
    await process.limiter.setSystemDefaults([slow(20)]);
    await grow(scene, process, "a", 2);
    for (const close of ["rollback", "release", "adjust"] as const) {
      const before = await tokens(scene, "a", 2);
      const lease = await process.limiter.acquire(asking("a", 4));
      const during = await tokens(scene, "a", 2);
      assert.equal(sum(during), sum(before) - 4_000);
      if (close === "rollback") await lease.rollback();
      else await (close === "release" ? lease.release({ x: 4 }) : lease.adjust({ x: -4 }));
      await lease.settle().catch(() => {});
      assert.deepEqual(await tokens(scene, "a", 2), before, close);
    }
  });

  test("W5: a lease on whichever shard can adjust, consume, release and roll back", async () => {
    const scene = await table.newScene();
    const process = await scene.process();
    await process.limiter.setSystemDefaults([slow(100)]);
    for (const count of [2, 4]) await grow(scene, process, "a", count);
    const before = sum(await tokens(scene, "a", 4));
    for (let i = 0; i < 8; i++) {
      const lease = await process.limiter.acquire(asking("a", 2));
      await lease.adjust({ x: 3 });
      await lease.consume({ x: 1 });
      await lease.release({ x: 2 });
      assert.deepEqual(lease.consumed, { x: 4 });
      assert.equal(sum(await tokens(scene, "a", 4)), before - 4_000);
      await lease.rollback();
      assert.equal(sum(await tokens(scene, "a", 4)), before);
    }
  });

  test("W6: a child with shards charges its parent with every grant, and gives it back with every rollback", async () => {
    const scene = await table.newScene();
    const process = await scene.process();
    const { limiter } = process;
    await limiter.setSystemDefaults([slow(40)]);
    await limiter.createEntity({ id: "parent" });
    await limiter.createEntity({ id: "child", parentId: "parent", cascade: true });
    for (const count of [2, 4]) await grow(scene, process, "child", count);
    const [child, parent] = [sum(await tokens(scene, "child", 4)), sum(await tokens(scene, "parent", 1))];
    assert.equal(child, 38_000);
    const leases = [];
    for (let i = 1; i <= 38; i++) {
      leases.push(await limiter.acquire(asking("child", 1)));
      assert.equal(sum(await tokens(scene, "parent", 1)), parent - i * 1_000);
    }
    await assert.rejects(limiter.acquire(asking("child", 1)), RateLimitExceeded);
    for (const lease of leases) await lease.rollback();
    assert.deepEqual([sum(await tokens(scene, "child", 4)), sum(await tokens(scene, "parent", 1))], [child, parent]);
  });

  test("W7: three doublings mint nothing and lose nothing: 101 at once, and 101 more a minute later", async () => {
    const scene = await table.newScene();
    const process = await scene.process({}, { exact: true });
    await process.limiter.setSystemDefaults([Limit.perMinute("x", 101)]);
    for (const count of [2, 4, 8]) await grow(scene, process, "a", count);
    for (let round = 0; round < 2; round++) {
      await scene.clock.advance(MINUTE_MS);
      let granted = 0;
      while (granted < 200 && (await grants(process.limiter, "a", 1))) granted++;
      assert.equal(granted, 101);
    }
  });

  test("W7: what was spent before a doubling stays spent", async () => {
    const scene = await table.newScene();
    const process = await scene.process({}, { exact: true });
    await process.limiter.setSystemDefaults([slow(100)]);
    await take(process.limiter, "a", 70);
    await grow(scene, process, "a", 2);
    let granted = 0;
    while (granted < 100 && (await grants(process.limiter, "a", 1))) granted++;
    assert.equal(granted, 29);
  });

  test("W24: a parent that is throttled gets shards like anybody else", async () => {
    const scene = await table.newScene();
    const process = await scene.process();
    const { limiter } = process;
    await limiter.setSystemDefaults([slow(1_000)]);
    await limiter.createEntity({ id: "parent" });
    for (const id of ["a", "b"]) await limiter.createEntity({ id, parentId: "parent", cascade: true });
    for (const id of ["a", "b"]) await take(limiter, id, 1);
    await grow(scene, process, "parent", 2, "a");
    for (const id of ["a", "b"]) for (let i = 0; i < 5; i++) await take(limiter, id, 1);
    assert.equal(sum(await tokens(scene, "parent", 2)), 987_000);
    assert.equal(await scene.number("a", SHARD_COUNT), 1);
  });

  test("X3: ten tokens over 16 shards are ten requests of one, or one of ten", async () => {
    const scene = await table.newScene();
    const process = await scene.process({}, { exact: true });
    await process.limiter.setSystemDefaults([Limit.perMinute("x", 10)]);
    for (const count of [2, 4, 8, 16]) await grow(scene, process, "a", count);
    await scene.clock.advance(MINUTE_MS);
    const lease = await process.limiter.acquire(asking("a", 10));
    assert.equal(await grants(process.limiter, "a", 1), false);
    await lease.rollback();
    await scene.clock.advance(1_000);
    let granted = 0;
    for (let i = 0; i < 14; i++) if (await grants(process.limiter, "a", 1)) granted++;
    assert.equal(granted, 10);
  });

  test("W38, X22: what is available, and what a refusal says, is of the whole bucket and not of a shard", async () => {
    const scene = await table.newScene();
    const process = await scene.process();
    const { limiter } = process;
    await limiter.setSystemDefaults([slow(100)]);
    await grow(scene, process, "a", 2);
    await grow(scene, process, "a", 4);
    assert.equal(await held(limiter, "a"), 98);
    const other = await scene.process();
    assert.equal(await held(other.limiter, "a"), 98);
    await take(other.limiter, "a", 80);
    const refused = await other.limiter.acquire(asking("a", 30)).catch((error: unknown) => error);
    assert.ok(refused instanceof RateLimitExceeded, String(refused));
    assert.deepEqual([refused.primary.available, refused.primary.capacity], [18, 100]);
    const { entities } = await limiter.resourceCapacity("api", "x");
    assert.deepEqual(
      entities.map(({ entityId, available, capacity }) => [entityId, available, capacity]),
      [["a", 18, 100]],
    );
  });
});

function asking(entityId: string, x: number) {
  return { entityId, resource: "api", consume: { x } };
}

async function take(limiter: RateLimiter, entityId: string, x: number): Promise<void> {
  await limiter.acquire(asking(entityId, x));
}

async function grants(limiter: RateLimiter, entityId: string, x: number): Promise<boolean> {
  return (await limiter.tryAcquire(asking(entityId, x))).ok;
}

async function held(limiter: RateLimiter, entityId: string): Promise<number> {
  const all = await limiter.available({ entityId, resource: "api" });
  return all.find((one) => one.entityId === entityId)?.available ?? Number.NaN;
}

/** Has a bucket throttled once, so that it doubles to so many shards; `by` whom it is asked. */
async function grow(
  scene: Scene,
  { limiter, wire, store }: Process,
  entityId: string,
  count: number,
  by = entityId,
): Promise<void> {
  if (count === 2) await take(limiter, by, 0);
  // Between two changes some time must pass.
  await scene.clock.advance(11_000);
  const partition = scene.bucketKey(entityId).pk.slice(0, -1);
  let left = 1;
  wire.fault = async ({ input, send }) => {
    const { PK } = (input.Key ?? {}) as { PK?: { S: string } };
    return PK?.S.startsWith(partition) && left-- > 0 ? THROTTLED : send();
  };
  await take(limiter, by, 1);
  await store.scope(scene.namespaceId).settled();
  assert.equal(await scene.number(entityId, SHARD_COUNT), count, "shards");
}

async function tokens(scene: Scene, entityId: string, shards: number): Promise<readonly number[]> {
  const all = Array.from({ length: shards }, (_, shard) => scene.number(entityId, "b_x_tk", shard));
  return (await Promise.all(all)).map((each) => each ?? Number.NaN);
}

function sum(values: readonly number[]): number {
  return values.reduce((total, each) => total + each, 0);
}
