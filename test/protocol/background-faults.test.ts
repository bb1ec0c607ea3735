import assert from "node:assert/strict";
import diagnostics from "node:diagnostics_channel";
import { test } from "node:test";
import { bucketKey } from "../../src/domain/bucket/bucket-key.ts";
import { CHANNELS, type DegradedEvent, ItemUnreadable, Limit, RateLimiter } from "../../src/entry/index.ts";
import type { ItemStore, TransactionAnswer } from "../../src/ports/item-store.ts";
import { overriding } from "../../src/testing/fault-store.ts";
import { Cluster } from "./kit.ts";

// Work without a caller, and operations whose answer was lost: what is not certain is not said, and what fails is told.

const about = { entityId: "a", resource: "api" };
const QUOTA = Limit.quota("q", 100, { reset: { cron: "0 0 1 * *" } });

test("a fault of work that no caller waits for is told as degraded, once a minute for each bucket", async (t) => {
  const cluster = new Cluster();
  const { store, buckets, place } = await cluster.open();
  const limiter = await RateLimiter.open({ store, clock: cluster.clock });
  const told: DegradedEvent[] = [];
  const listen = (event: unknown) => told.push(event as DegradedEvent);
  diagnostics.subscribe(CHANNELS.degraded, listen);
  t.after(() => diagnostics.unsubscribe(CHANNELS.degraded, listen));
  await limiter.setSystemDefaults([Limit.perMinute("rpm", 100_000)]);
  await limiter.acquire({ ...about, consume: { rpm: 1 } });
  const key = { bucket: bucketKey("a", "api"), shard: 0 };
  const { table } = cluster.world;
  const sound = table.get(place.namespaceId, key);
  assert.ok(sound !== undefined);
  const tired = async () => {
    // Throttled: the shards are to be doubled in the background, and one of them cannot be read.
    table.putDamaged(place.namespaceId, key, { ...sound, b_rpm_cp: "many" });
    const call = { kind: "refused", why: "throttled", cause: new Error("throttled") } as const;
    const other = await cluster.open({ through: (line) => overriding(line, { write: () => call }) });
    const another = await RateLimiter.open({ store: other.store, clock: cluster.clock });
    return { other, another };
  };
  const { other, another } = await tired();
  for (let minute = 0; minute < 2; minute++) {
    for (let i = 0; i < 3; i++) {
      table.putDamaged(place.namespaceId, key, sound);
      const taken = another.tryAcquire({ ...about, consume: { rpm: 1 } }).catch(() => undefined);
      for (let turns = 0; turns < 5; turns++) await new Promise((resolve) => setImmediate(resolve));
      table.putDamaged(place.namespaceId, key, { ...sound, b_rpm_cp: "many" });
      for (let turns = 0; turns < 50; turns++) {
        await cluster.clock.advance(100);
        await new Promise((resolve) => setImmediate(resolve));
      }
      await taken;
      await other.buckets.settled();
    }
    const [first] = told;
    assert.ok(first !== undefined, "the fault is told");
    assert.match(first.reason, /^the shards of a bucket could not be changed: "b_rpm_cp" of the bucket of a on api/);
    assert.ok(first.cause instanceof ItemUnreadable);
    assert.deepEqual([first.namespace, first.entityId, first.resource], ["default", "a", "api"]);
    assert.equal(told.filter(({ reason }) => reason.startsWith("the shards")).length, minute + 1);
    await cluster.clock.advance(60_000);
  }
  await buckets.settled();
  await another.close();
  await limiter.close();
});

/** Transactions reach the table only when they are let through; the answer is lost each time. */
function losing(line: ItemStore, landing: (() => unknown)[]): ItemStore {
  return overriding(line, {
    transact: (writes, options, call): TransactionAnswer => {
      landing.push(() => line.transact(writes, options, call));
      return { kind: "unknown", cause: new Error("no answer") };
    },
  });
}

test("a purchase whose answer was lost is not said to be undone, and repeating its key tells what became of it", async () => {
  for (const operation of ["topUp", "resetBucket"] as const) {
    const cluster = new Cluster();
    const landing: (() => unknown)[] = [];
    const honest = await RateLimiter.open({ store: (await cluster.open()).store, clock: cluster.clock });
    await honest.setSystemDefaults([QUOTA]);
    await honest.acquire({ ...about, consume: { q: 100 } });
    const { store } = await cluster.open({ through: (line) => losing(line, landing) });
    const limiter = await RateLimiter.open({ store, clock: cluster.clock });
    const order = { ...about, idempotencyKey: "order-7" };
    const ask = (on: RateLimiter) =>
      operation === "topUp" ? on.topUp({ ...order, amounts: { q: 5 } }) : on.resetBucket(order);
    let error: Error | undefined;
    const asked = ask(limiter).catch((thrown: Error) => {
      error = thrown;
    });
    for (let turns = 0; error === undefined && turns < 20_000; turns++) {
      await cluster.clock.advance(100);
      await new Promise((resolve) => setImmediate(resolve));
    }
    await asked;
    assert.match(
      error?.message ?? "",
      /^The store did not answer, so the operation order-7 on a\/api may or may not be applied/,
    );
    assert.match(error?.message ?? "", /Repeat it with the idempotencyKey "order-7"/);
    // It lands after all.
    await landing.at(-1)?.();
    const again = await ask(honest);
    assert.equal(again.repeated, true);
    const [held] = await honest.available(about);
    assert.equal(held?.available, operation === "topUp" ? 5 : 100);
  }
});

test("a purchase that was certainly not done is said to be so", async () => {
  const cluster = new Cluster();
  const refused: TransactionAnswer = { kind: "refused", why: "throttled", cause: new Error("throttled") };
  const { store } = await cluster.open({ through: (line) => overriding(line, { transact: () => refused }) });
  const limiter = await RateLimiter.open({ store, clock: cluster.clock });
  await limiter.setSystemDefaults([QUOTA]);
  let error: Error | undefined;
  void limiter.topUp({ ...about, amounts: { q: 5 }, idempotencyKey: "order-8" }).catch((thrown: Error) => {
    error = thrown;
  });
  for (let turns = 0; error === undefined && turns < 20_000; turns++) {
    await cluster.clock.advance(100);
    await new Promise((resolve) => setImmediate(resolve));
  }
  assert.match(error?.message ?? "", /^The operation order-8 on a\/api was not done: the store did not accept it\./);
});
