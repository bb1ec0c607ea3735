import assert from "node:assert/strict";
import { test } from "node:test";
import { bucketKey } from "../../src/domain/bucket/bucket-key.ts";
import { ItemUnreadable, type LimiterError, RateLimiter } from "../../src/entry/index.ts";
import type { Item, ItemKey, ItemValue } from "../../src/ports/item-store.ts";
import { atDepth } from "../depth.ts";
import { callAll, damagedKey, EVER, HOUR_MS, resetWorks, setUp } from "./damage-kit.ts";
import { Cluster } from "./kit.ts";

// Each attribute of an item, damaged in a few ways, and then every public call. Whatever comes out is one of the project's errors;
// nothing is granted by what cannot be read; and the bucket can be reset.

const DAMAGES: readonly ItemValue[] = ["many", "", true, 1.5, -1, 2n ** 70n];
const KEY: ItemKey = { bucket: bucketKey(damagedKey.entityId, damagedKey.resource), shard: 0 };

async function damagedWorld(damage: (item: Item) => Record<string, ItemValue>) {
  const cluster = new Cluster();
  const { store, place } = await cluster.open();
  const limiter = await RateLimiter.open({ store, clock: cluster.clock });
  const lease = await setUp(limiter, (ms) => cluster.clock.advance(ms));
  const { table } = cluster.world;
  const before = table.get(place.namespaceId, KEY);
  assert.ok(before !== undefined);
  table.putDamaged(place.namespaceId, KEY, damage(before));
  return { cluster, limiter, lease, store, namespaceId: place.namespaceId };
}

async function attributes(): Promise<readonly string[]> {
  let names: readonly string[] = [];
  await damagedWorld((item) => {
    names = Object.keys(item);
    return { ...item };
  });
  return names;
}

test("whatever stands in an attribute of a bucket, only the project's errors come out, and a reset mends it", async (t) => {
  for (const [i, attribute] of (await attributes()).entries()) {
    // Each attribute is damaged in every way, or in one, and not all of them in the same.
    for (const value of atDepth([DAMAGES[i % DAMAGES.length] as ItemValue], DAMAGES)) {
      await t.test(`${attribute} is ${String(value)}`, async () => {
        // By a process that knew the bucket before, and by one that has never seen it.
        for (const isKnown of [true, false]) {
          const { cluster, limiter, lease } = await damagedWorld((item) => ({ ...item, [attribute]: value }));
          const other = isKnown ? limiter : await another(cluster);
          checkErrors(await inTime(cluster, callAll(other, lease)), attribute);
          await inTime(cluster, resetWorks(other));
        }
      });
    }
  }
});

/** The work, while time goes on as far as it waits for it. */
async function inTime<Value>({ clock }: Cluster, work: Promise<Value>): Promise<Value> {
  let isDone = false;
  const end = () => {
    isDone = true;
  };
  work.then(end, end);
  for (let turns = 0; !isDone; turns++) {
    await new Promise((resolve) => setImmediate(resolve));
    if (turns % 10 === 9) await clock.advance(100);
    assert.ok(turns < 20_000, "it never ends");
  }
  return work;
}

async function another(cluster: Cluster): Promise<RateLimiter> {
  const { store } = await cluster.open();
  return RateLimiter.open({ store, clock: cluster.clock });
}

function checkErrors(errors: readonly (readonly [string, LimiterError])[], attribute: string): void {
  for (const [call, error] of errors) {
    if (error.code !== "item_unreadable") continue;
    assert.ok(error instanceof ItemUnreadable, call);
    assert.deepEqual([error.entityId, error.resource, error.shard], ["a", "llm", 0], call);
    assert.equal(error.attribute, attribute, `${call}: ${error.message}`);
    assert.match(error.message, /resetBucket/);
    assert.notEqual(call, "of another key");
  }
}

test("tokens that are a text are not taken for an empty or a full limit: nothing is granted, and it is said why", async () => {
  for (const name of ["b_rpm_tk", "b_day_tk", "rf", "b_rpm_cp", "shard_count"]) {
    const { limiter } = await damagedWorld((item) => ({ ...item, [name]: "many" }));
    await assert.rejects(limiter.tryAcquire({ ...damagedKey, consume: { rpm: 1 } }), (error) => {
      assert.ok(error instanceof ItemUnreadable);
      assert.deepEqual([error.attribute, error.value, error.part], [name, "many", "balance"]);
      assert.equal(error.httpStatus, 503);
      return true;
    });
  }
});

test("a level above that is damaged takes nothing from the level below", async () => {
  const cluster = new Cluster();
  const { store, place } = await cluster.open();
  const limiter = await RateLimiter.open({ store, clock: cluster.clock });
  await setUp(limiter, (ms) => cluster.clock.advance(ms));
  const parent = { bucket: bucketKey("p", "llm"), shard: 0 };
  const { table } = cluster.world;
  table.putDamaged(place.namespaceId, parent, { ...table.get(place.namespaceId, parent), b_rpm_tk: "many" });
  const left = () => table.get(place.namespaceId, { bucket: bucketKey("b", "llm"), shard: 0 })?.b_rpm_tk;
  const before = left();
  for (let i = 0; i < 3; i++) {
    await assert.rejects(limiter.acquire({ entityId: "b", resource: "llm", consume: { rpm: 5 } }), ItemUnreadable);
  }
  assert.equal(left(), before);
});

test("a reset of a damaged bucket keeps what was counted, and what is switched off", async () => {
  const { limiter, cluster } = await damagedWorld((item) => ({ ...item, b_rpm_cp: "many" }));
  const used = async () => (await limiter.usageSummary({ ...damagedKey, window: "hourly", ...EVER })).total;
  const before = await used();
  assert.equal(before.rpm, 2);
  await resetWorks(limiter);
  assert.deepEqual(await used(), before);
  await cluster.clock.advance(2 * HOUR_MS);
  await limiter.acquire({ ...damagedKey, consume: { rpm: 1 } });
  assert.equal((await used()).rpm, 3);
});

test("one damaged shard does not keep a sweep from closing the hours of the others", async () => {
  const { cluster, store, namespaceId } = await damagedWorld((item) => ({ ...item, b_rpm_cp: "many" }));
  await cluster.clock.advance(3 * HOUR_MS);
  const places = ["a", "b", "c", "p"].map((entityId) => ({ bucket: bucketKey(entityId, "llm"), shard: 0 }));
  const closed = await store.bucketsOf(namespaceId).closeHours(places, { nowMs: cluster.clock.now(), afterHours: 0 });
  assert.deepEqual(
    closed.map(({ kind }) => kind),
    ["unreadable", "closed", "gone", "closed"],
  );
  const [first] = closed;
  assert.ok(first?.kind === "unreadable" && first.cause.attribute === "b_rpm_cp");
});

test("the record of a purchase that is damaged is never taken for one that was not made", async () => {
  const { limiter, cluster, namespaceId } = await damagedWorld((item) => ({ ...item }));
  const record = { ...KEY, operation: "order-1" };
  const { table } = cluster.world;
  table.putDamaged(namespaceId, record, { ...table.get(namespaceId, record), amounts: "{" });
  const again = limiter.topUp({ ...damagedKey, amounts: { day: 5 }, idempotencyKey: "order-1" });
  await assert.rejects(again, (error) => error instanceof ItemUnreadable && error.part === "operation");
  const { levels } = await limiter.explain(damagedKey);
  assert.equal(levels[0]?.limits.find(({ limit }) => limit === "day")?.toppedUp, 5);
});
