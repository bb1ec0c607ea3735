import assert from "node:assert/strict";
import { test } from "node:test";
import { bucketKey } from "../../src/domain/bucket/bucket-key.ts";
import { Limit, RateLimiter } from "../../src/entry/index.ts";
import { T0 } from "../kit/contract-kit.ts";
import { Cluster } from "./kit.ts";

// What is told of a bucket in shards is what its shards hold together, each of them full at its own share.

const HUNDRED = Limit.perSecond("rps", 100);

/** 100 a second in two shards, at the given instants emptied: one of them, by takes that go to it alone. */
async function halfEmptied() {
  const cluster = new Cluster();
  const { store, buckets } = await cluster.open();
  const limiter = await RateLimiter.open({ store, clock: cluster.clock });
  await limiter.setSystemDefaults([HUNDRED]);
  const ask = { entityId: "ada", resource: "api" };
  await limiter.acquire({ ...ask, consume: { rps: 0 } });
  assert.ok(await buckets.resize(bucketKey("ada", "api"), "more", cluster.clock.now()));
  cluster.clock.set(T0 + 60_000);
  const outcome = await limiter.tryAcquire({ ...ask, consume: { rps: 50 } });
  assert.ok(outcome.ok);
  return { cluster, limiter, ask };
}

test("a split bucket of which one shard is full and one empty holds half, and says so everywhere", async () => {
  const { limiter, ask } = await halfEmptied();
  assert.deepEqual(
    (await limiter.available(ask)).map(({ available, capacity }) => [available, capacity]),
    [[50, 100]],
  );
  const question = { ...ask, consume: { rps: 80 } };
  // The full shard gains nothing more: the empty one has 30 after 600 ms.
  assert.equal(await limiter.timeUntilAvailable(question), 600);
  const { outcome, retryAfterMs, primary } = await limiter.explain(question);
  assert.deepEqual([outcome, retryAfterMs, primary?.available], ["refused", 600, 50]);
});

test("a refusal of a split bucket tells what it holds and a wait that is true to the millisecond", async () => {
  const { cluster, limiter, ask } = await halfEmptied();
  const refused = await limiter.tryAcquire({ ...ask, consume: { rps: 80 } });
  assert.ok(!refused.ok);
  assert.deepEqual([refused.primary.available, refused.retryAfterMs], [50, 600]);
  cluster.clock.set(cluster.clock.now() + 599);
  assert.equal((await limiter.tryAcquire({ ...ask, consume: { rps: 80 } })).ok, false);
  cluster.clock.set(cluster.clock.now() + 1);
  assert.equal((await limiter.tryAcquire({ ...ask, consume: { rps: 80 } })).ok, true);
});

test("a key below a split parent comes back when it was told, and is let in", async () => {
  const cluster = new Cluster();
  const { store, buckets } = await cluster.open();
  const limiter = await RateLimiter.open({ store, clock: cluster.clock });
  await limiter.setSystemDefaults([HUNDRED]);
  await limiter.createEntity({ id: "org" });
  await limiter.createEntity({ id: "ada", parentId: "org", cascade: true });
  const ask = { entityId: "ada", resource: "api" };
  await limiter.acquire({ ...ask, consume: { rps: 0 } });
  assert.ok(await buckets.resize(bucketKey("org", "api"), "more", cluster.clock.now()));
  cluster.clock.set(T0 + 60_000);
  for (const rps of [50, 30]) {
    assert.ok((await limiter.tryAcquire({ entityId: "org", resource: "api", consume: { rps } })).ok);
  }
  const refused = await limiter.tryAcquire({ ...ask, consume: { rps: 60 } });
  assert.ok(!refused.ok);
  cluster.clock.set(cluster.clock.now() + refused.retryAfterMs);
  assert.ok((await limiter.tryAcquire({ ...ask, consume: { rps: 60 } })).ok);
});
