import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { itemTableKey } from "../../src/adapters/dynamodb/schema.ts";
import { dynamoOver } from "../../src/adapters/dynamodb/store.ts";
import { bucketKey } from "../../src/domain/bucket/bucket-key.ts";
import { Limit, RateLimiter } from "../../src/entry/index.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { type DynamodbLocal, describeDynamo } from "./dynamodb-local.ts";
import { newGround, optionsFor } from "./store-kit.ts";

const T0 = Date.UTC(2026, 2, 15, 12);
const hourly = [Limit.perHour("rph", 10)];
const request = { entityId: "key", resource: "api", consume: { rph: 1 } };

async function opened(dynamodb: DynamodbLocal, t: TestContext) {
  const { table, records, namespaceId } = await newGround(dynamodb, t);
  const clock = new SimulatedClock(T0);
  const store = dynamoOver(optionsFor(dynamodb.client, table, { clock }));
  const limiter = await RateLimiter.open({ store, clock });
  t.after(() => limiter.close());
  const key = itemTableKey(namespaceId, { bucket: bucketKey("key", "api"), shard: 0 });
  /** When the bucket goes, in seconds after the beginning; undefined: never. */
  const expiresAfterS = async (): Promise<number | undefined> => {
    const { ttl } = (await records.get(key)) ?? {};
    return ttl?.N === undefined ? undefined : Number(ttl.N) - T0 / 1000;
  };
  return { limiter, clock, expiresAfterS };
}

await describeDynamo("how long a bucket is kept", (dynamodb) => {
  test("by limits of everybody, no shorter than it takes to be full again, and an hour", async (t) => {
    const { limiter, clock, expiresAfterS } = await opened(dynamodb, t);
    await limiter.setSystemDefaults(hourly);
    await limiter.acquire(request);
    const first = (await expiresAfterS()) ?? 0;
    assert.ok(first >= 2 * 3_600, `${first} s`);
    await clock.advance(3 * 3_600_000);
    await limiter.acquire(request);
    assert.ok(((await expiresAfterS()) ?? 0) >= first + 2 * 3_600, "a bucket that is used is kept for longer");
  });

  test("a debt is not forgotten before it is paid", async (t) => {
    const { limiter, expiresAfterS } = await opened(dynamodb, t);
    await limiter.setSystemDefaults(hourly);
    const lease = await limiter.acquire(request);
    await lease.adjust({ rph: 239 });
    // 240 taken of 10: it takes 24 hours until it is full.
    assert.ok(((await expiresAfterS()) ?? 0) >= 25 * 3_600);
  });

  test("by limits of its own, for ever; and no longer so when those are deleted", async (t) => {
    const { limiter, expiresAfterS } = await opened(dynamodb, t);
    await limiter.setSystemDefaults(hourly);
    await limiter.acquire(request);
    assert.notEqual(await expiresAfterS(), undefined);
    // The same numbers: only whose they are has changed.
    await limiter.setLimits("key", hourly);
    const lease = await limiter.acquire(request);
    assert.equal(await expiresAfterS(), undefined);
    await lease.adjust({ rph: 2 });
    await lease.rollback();
    assert.equal(await expiresAfterS(), undefined);
    await limiter.deleteLimits("key");
    await limiter.acquire(request);
    assert.notEqual(await expiresAfterS(), undefined);
  });

  test("while an override runs, for ever: it would be full by the override before it is by what follows", async (t) => {
    const { limiter, clock, expiresAfterS } = await opened(dynamodb, t);
    const slowly = [Limit.custom("rph", { capacity: 10, refillAmount: 1, refillPeriodMs: 24 * 3_600_000 })];
    await limiter.setSystemDefaults(slowly);
    await limiter.setSystemDefaults([Limit.perSecond("rph", 10)], { untilMs: T0 + 60_000 });
    await limiter.acquire({ ...request, consume: { rph: 10 } });
    assert.equal(await expiresAfterS(), undefined);
    await clock.advance(60_000 - 1);
    await limiter.acquire({ ...request, consume: { rph: 10 } });
    await clock.advance(7 * 3_600_000);
    assert.equal((await limiter.tryAcquire(request)).ok, false);
    await clock.advance(24 * 3_600_000);
    await limiter.acquire(request);
    assert.notEqual(await expiresAfterS(), undefined);
  });

  test("made by a take that goes by limits of its own, it never expires", async (t) => {
    const { limiter, expiresAfterS } = await opened(dynamodb, t);
    await limiter.setLimits("key", hourly, { resource: "api" });
    await limiter.acquire(request);
    assert.equal(await expiresAfterS(), undefined);
  });
});
