import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { configKey } from "../../src/adapters/dynamodb/schema.ts";
import { dynamoOver } from "../../src/adapters/dynamodb/store.ts";
import { readVersion } from "../../src/adapters/dynamodb/version.ts";
import { Limit, RateLimiter } from "../../src/entry/index.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { T0 } from "../kit/contract-kit.ts";
import { describeDynamo } from "./dynamodb-local.ts";
import { newGround, optionsFor } from "./store-kit.ts";

const LIMITS = [
  Limit.perMinute("rpm", 100),
  Limit.concurrent("parallel", 2, { holdMs: 60_000, schedule: [{ cron: "* 9-16 * * 1-5", capacity: 1 }] }),
];

await describeDynamo("at most N at once on DynamoDB", (dynamodb) => {
  const opened = async (t: TestContext) => {
    const clock = new SimulatedClock(T0);
    const ground = await newGround(dynamodb, t, { clock });
    const process = async () => {
      const limiter = await RateLimiter.open({
        store: dynamoOver(optionsFor(ground.wire, ground.table, { clock })),
        clock,
      });
      t.after(() => limiter.close());
      return limiter;
    };
    return { ...ground, clock, process, limiter: await process() };
  };
  const ask = { entityId: "acme", resource: "gpt-4", consume: { rpm: 1, parallel: 1 } } as const;

  test("configuration keeps the slots, the hold in seconds and the windows, under a prefix of their own", async (t) => {
    const { limiter, process, records, namespaceId } = await opened(t);
    await limiter.setLimits("acme", LIMITS);
    assert.deepEqual(await (await process()).getLimits("acme"), await limiter.getLimits("acme"));
    const [stored] = (await limiter.getLimits("acme")) ?? [];
    assert.ok(stored !== undefined);
    const item = await records.get(configKey(namespaceId, { level: "entityDefault", entityId: "acme" }));
    const names = Object.keys(item ?? {}).filter((name) => name.includes("_parallel_"));
    assert.deepEqual(names.sort(), ["p_parallel_cp", "p_parallel_hm", "p_parallel_sched"]);
    assert.equal(item?.p_parallel_hm?.N, "60");
  });

  test("older releases are kept away from a table before such a limit is written to it", async (t) => {
    const { limiter, records } = await opened(t);
    const before = await readVersion(records);
    await limiter.setLimits("acme", LIMITS);
    const after = await readVersion(records);
    assert.notDeepEqual(after, before);
  });

  test("two processes share the slots, one of them dies, and its slot is free when its time is up", async (t) => {
    const { limiter, process, clock } = await opened(t);
    const other = await process();
    await limiter.setLimits("acme", LIMITS);
    const lease = await limiter.acquire(ask);
    await other.acquire(ask);
    for (const one of [limiter, other]) assert.equal((await one.tryAcquire(ask)).ok, false);
    await lease.settle();
    await clock.advance(200);
    assert.equal((await other.tryAcquire(ask)).ok, true);
    assert.equal((await other.tryAcquire(ask)).ok, false);
    await clock.advance(75_000);
    assert.equal((await limiter.tryAcquire(ask)).ok, true);
    assert.equal((await limiter.tryAcquire(ask)).ok, true);
  });

  test("a take, a settle and a renewal of slots are one request to the table each", async (t) => {
    const { limiter, clock, wire } = await opened(t);
    await limiter.setLimits("acme", LIMITS);
    for (let i = 0; i < 2; i++) await (await limiter.acquire(ask)).settle();
    let lease: Awaited<ReturnType<typeof limiter.acquire>> | undefined;
    const taken = await wire.during(async () => {
      lease = await limiter.acquire(ask);
    });
    assert.deepEqual(taken, ["UpdateItem"]);
    await clock.advance(20_000);
    assert.deepEqual(await wire.during(async () => assert.equal(await lease?.renew(), true)), ["UpdateItem"]);
    assert.deepEqual(await wire.during(async () => lease?.settle()), ["UpdateItem"]);
  });

  test("withLease renews until its function has ended, and usage says for how long slots were held", async (t) => {
    const { limiter, clock } = await opened(t);
    await limiter.setLimits("acme", LIMITS);
    let body: Promise<void> | undefined;
    await new Promise<void>((begun) => {
      body = limiter.withLease(ask, async () => {
        begun();
        await clock.sleep(200_000, undefined);
      });
    });
    // The table answers in its own time, so time passes in steps that it can follow.
    const pass = async (ms: number) => {
      for (let passed = 0; passed < ms; passed += 5_000) {
        await clock.advance(5_000);
        for (let i = 0; i < 3; i++) await limiter.available(ask);
      }
    };
    await pass(150_000);
    assert.equal((await limiter.tryAcquire({ ...ask, consume: { parallel: 2 } })).ok, false);
    await pass(60_000);
    await body;
    assert.equal((await limiter.tryAcquire({ ...ask, consume: { parallel: 2 } })).ok, true);
    const { heldMs } = await limiter.usageSummary({ entityId: "acme", resource: "gpt-4", window: "hourly" });
    const held = heldMs.parallel ?? 0;
    assert.ok(held >= 200_000 && held <= 201_000, `${held}`);
  });

  test("a table shared with the original refuses it, where it is set and where it is asked for", async (t) => {
    const clock = new SimulatedClock(T0);
    const { wire, table } = await newGround(dynamodb, t, { clock, shared: true });
    const store = dynamoOver(optionsFor(wire, table, { clock, shared: true }));
    const limiter = await RateLimiter.open({ store, clock });
    t.after(() => limiter.close());
    const shared = { code: "shared_concurrent" };
    await assert.rejects(limiter.setLimits("acme", LIMITS), shared);
    await assert.rejects(limiter.acquire({ ...ask, limits: LIMITS }), shared);
  });
});
