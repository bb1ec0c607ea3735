import assert from "node:assert/strict";
import { test } from "node:test";
import { bucketKey } from "../../src/domain/bucket/bucket-key.ts";
import { Limit, RateLimiter, ValidationError } from "../../src/entry/index.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { Cluster } from "../protocol/kit.ts";
import { EVERY_STORE } from "./every-store.ts";

// One transaction of DynamoDB has room for 100 items. What needs more is refused as the caller's mistake, before anything is sent.

const LEVELS = 8;
const key = { entityId: "e7", resource: "r0" };

async function eightLevels(limiter: RateLimiter, limit: Limit): Promise<void> {
  await limiter.setSystemDefaults([limit]);
  for (let i = 0; i < LEVELS; i++) {
    await limiter.createEntity({ id: `e${i}`, ...(i === 0 ? {} : { parentId: `e${i - 1}` }) });
  }
}

/** One token of each of so many resources, at eight levels. */
function asked(resources: number, consume = { rpm: 1 }) {
  const also = Object.fromEntries(Array.from({ length: resources - 1 }, (_, i) => [`r${i + 1}`, { rpm: 1 }]));
  return { ...key, consume, also, atomic: true } as const;
}

function isTooMany(error: unknown): true {
  assert.ok(error instanceof ValidationError, String(error));
  assert.deepEqual([error.code, error.httpStatus], ["atomic_too_many", 400]);
  assert.match(error.message, /Name fewer resources in `also`, or leave `atomic` out\.$/);
  // The holder of a key must not learn how many levels there are above it.
  assert.doesNotMatch(String(error.toProblem().detail), /\d/);
  return true;
}

for (const [name, open] of EVERY_STORE) {
  test(`on ${name}, 16 resources x 8 levels are taken at once or said to be too many, never half`, async (t) => {
    const clock = new SimulatedClock(1_800_000_000_000);
    const { store, options } = open(clock, t);
    const limiter = await RateLimiter.open({ ...options, store, clock });
    await eightLevels(limiter, Limit.perMinute("rpm", 100));
    assert.equal((await limiter.tryAcquire(asked(12))).ok, true);
    const isBounded = Number.isFinite(store.atomicBucketsMax);
    assert.equal(isBounded, store.name === "conditional", "only a store with transactions of its own bound has one");
    for (const resources of [13, 16]) {
      if (isBounded) await assert.rejects(limiter.tryAcquire(asked(resources)), isTooMany);
      else assert.equal((await limiter.tryAcquire(asked(resources))).ok, true);
    }
    const [held] = await limiter.available(key);
    assert.equal(held?.available, isBounded ? 99 : 97);
    // Without `atomic` there is no bound on any store.
    assert.equal((await limiter.tryAcquire({ ...asked(16), atomic: false })).ok, true);
    await limiter.close();
  });
}

test("nothing is sent for a request that is too large to be atomic", async () => {
  const cluster = new Cluster();
  const { store } = await cluster.open();
  const limiter = await RateLimiter.open({ store, clock: cluster.clock });
  await eightLevels(limiter, Limit.perMinute("rpm", 100));
  cluster.spent();
  await assert.rejects(limiter.acquire(asked(13)), isTooMany);
  assert.deepEqual(cluster.spent(), { writes: 0, transactions: 0, reads: 0 });
});

test("a request that fits by its buckets, and not by the shards of one, is too many too, and takes nothing", async () => {
  const cluster = new Cluster();
  const { store, buckets } = await cluster.open();
  const limiter = await RateLimiter.open({ store, clock: cluster.clock });
  await eightLevels(limiter, Limit.perHour("rpm", 800));
  assert.equal((await limiter.tryAcquire({ ...key, consume: { rpm: 0 } })).ok, true);
  for (let doublings = 0; doublings < 3; doublings++) {
    await cluster.clock.advance(11_000);
    assert.ok(await buckets.resize(bucketKey("e7", "r0"), "more", cluster.clock.now()));
  }
  // 95 buckets, and 8 shards of the one that is to give all it has.
  await assert.rejects(limiter.tryAcquire(asked(12, { rpm: 800 })), isTooMany);
  for (const { available } of await limiter.available(key)) assert.equal(available, 800);
  assert.equal((await limiter.tryAcquire(asked(11, { rpm: 800 }))).ok, true);
});
