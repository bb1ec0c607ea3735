import assert from "node:assert/strict";
import { test } from "node:test";
import { bucketKey } from "../../src/domain/bucket/bucket-key.ts";
import { Limit, RateLimiter } from "../../src/entry/index.ts";
import type { Claim } from "../../src/ports/bucket-store.ts";
import { claim, kinds, T0 } from "../kit/contract-kit.ts";
import { Cluster } from "./kit.ts";

// A floor is one of the whole bucket: what one of its shards holds says nothing of it.

const HUNDRED = Limit.custom("q", { capacity: 100, refillAmount: 1, refillPeriodMs: 1_000_000_000_000 });
const low = (tokens: number, leavePercent: number): Claim => ({
  ...claim("ada", [HUNDRED], { q: tokens }, { origin: { asOfMs: T0, generation: null } }),
  leavePercent,
});

/** 100 tokens in two shards, of which half were taken. */
async function halfEmptied() {
  const cluster = new Cluster();
  const process = await cluster.open();
  const { place, buckets } = process;
  await place.take([low(0, 0)], T0);
  const { bucket } = low(0, 0);
  assert.ok(await buckets.resize(bucket, "more", T0 + 1));
  cluster.clock.set(T0 + 3_600_000);
  const nowMs = cluster.clock.now();
  for (let taken = 0; taken < 50; taken += 25) {
    assert.deepEqual(kinds(await place.take([low(25, 0)], nowMs)), ["taken"]);
  }
  assert.equal(await place.level("ada", "q", nowMs), 50_000);
  return { cluster, process, place, nowMs };
}

test("a bucket in shards is left its floor as a whole, whatever each shard holds", async () => {
  const { place, nowMs } = await halfEmptied();
  assert.deepEqual(kinds(await place.take([low(1, 50)], nowMs)), ["short"]);
  assert.deepEqual(kinds(await place.take([low(11, 40)], nowMs)), ["short"]);
  assert.deepEqual(kinds(await place.take([low(10, 40)], nowMs)), ["taken"]);
  assert.equal(await place.level("ada", "q", nowMs), 40_000);
  assert.deepEqual(kinds(await place.take([low(0, 40)], nowMs)), ["taken"]);
  assert.deepEqual(kinds(await place.take([low(0, 41)], nowMs)), ["short"]);
});

test("two processes that take from shards at the same time leave the floor of the whole", async () => {
  const { cluster, place, nowMs } = await halfEmptied();
  const other = await cluster.open();
  const claims = [low(8, 40), low(7, 0), low(8, 40), low(7, 20), low(9, 0)];
  const answers = await Promise.all(claims.map((one, i) => (i % 2 === 0 ? place : other.place).take([one], nowMs)));
  const taken = claims.filter((_, i) => answers[i]?.[0]?.kind === "taken");
  assert.ok(taken.length > 0);
  // In the order in which they landed, whichever that was: the one with the floor of 40 took at most the first 10.
  const high = taken.filter(({ leavePercent }) => leavePercent === 40).length;
  assert.ok(high <= 1, `${high} of 8 tokens each above a floor of 40, of 50`);
  const sum = taken.reduce((all, { take }) => all + (take[0]?.milli ?? 0), 0);
  assert.equal(await place.level("ada", "q", nowMs), 50_000 - sum);
});

test("a request that does not know yet that the bucket was split leaves the floor of the whole", async () => {
  const cluster = new Cluster();
  const { place, buckets } = await cluster.open();
  const other = await cluster.open();
  await place.take([low(0, 0)], T0);
  await other.place.take([low(0, 0)], T0);
  assert.ok(await buckets.resize(bucketKey("ada", "api"), "more", T0 + 1));
  assert.deepEqual(kinds(await place.take([low(50, 0)], T0 + 2)), ["taken"]);
  // It goes by an image of one item with 100.
  assert.deepEqual(kinds(await other.place.take([low(1, 50)], T0 + 3)), ["short"]);
  assert.deepEqual(kinds(await other.place.take([low(10, 40)], T0 + 3)), ["taken"]);
});

test("a refusal of a split bucket tells the wait to the floor of the whole, to the millisecond", async () => {
  const cluster = new Cluster();
  const { store, buckets } = await cluster.open();
  const limiter = await RateLimiter.open({ store, clock: cluster.clock });
  await limiter.setSystemDefaults([Limit.perSecond("rps", 100)]);
  const ask = { entityId: "ada", resource: "api" };
  await limiter.acquire({ ...ask, consume: { rps: 0 } });
  assert.ok(await buckets.resize(bucketKey("ada", "api"), "more", cluster.clock.now()));
  cluster.clock.set(T0 + 60_000);
  await limiter.acquire({ ...ask, consume: { rps: 50 } });
  const floored = { ...ask, consume: { rps: 10 }, leavePercent: 70 };
  const refused = await limiter.tryAcquire(floored);
  assert.ok(!refused.ok);
  // The full shard gains nothing more: the empty one has 30 after 600 ms.
  assert.deepEqual([refused.primary.available, refused.primary.floor, refused.retryAfterMs], [50, 70, 600]);
  assert.equal(await limiter.timeUntilAvailable(floored), 600);
  cluster.clock.set(cluster.clock.now() + 599);
  assert.equal((await limiter.tryAcquire(floored)).ok, false);
  cluster.clock.set(cluster.clock.now() + 1);
  assert.equal((await limiter.tryAcquire(floored)).ok, true);
  assert.equal((await limiter.available(ask))[0]?.available, 70);
});

test("a request with a floor costs what one without costs: one write and no read", async () => {
  const cluster = new Cluster();
  const { place } = await cluster.open();
  await place.take([low(1, 0)], T0);
  cluster.spent();
  for (let i = 1; i <= 10; i++) {
    assert.deepEqual(kinds(await place.take([low(1, 20)], T0 + i)), ["taken"]);
    assert.deepEqual(cluster.spent(), { writes: 1, transactions: 0, reads: 0 });
  }
});
