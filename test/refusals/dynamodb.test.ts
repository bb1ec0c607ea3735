import assert from "node:assert/strict";
import { test } from "node:test";
import { prepareTable } from "../../src/adapters/dynamodb/table-admin.ts";
import { systemClock } from "../../src/adapters/system/clock.ts";
import { systemRandom } from "../../src/adapters/system/random.ts";
import { RateLimiter } from "../../src/entry/index.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { describeDynamo } from "../dynamodb/dynamodb-local.ts";
import { AFTER, BEFORE, FaultProxy, type Passage } from "../dynamodb/fault-proxy.ts";
import { ONE_A_DAY, refusedOf, refusedOnce, T0 } from "./refusing-kit.ts";

const KEYS = { accessKeyId: "test", secretAccessKey: "test" };

/** A write of a row of refusals. */
function isRefusalWrite({ operation, input }: Passage): boolean {
  return operation === "PutItem" && "refusals" in (input.Item as object);
}

await describeDynamo("refusals on DynamoDB", (dynamodb) => {
  async function ground() {
    const table = await dynamodb.newTable({ gsi2Projection: "KEYS_ONLY", expiry: false });
    const base = { client: dynamodb.client, clock: systemClock, random: Math.random, ids: systemRandom };
    await prepareTable({ ...base, table, version: "0.0.0", timeoutMs: 60_000 });
    const process = (clock: { now(): number }, endpoint = dynamodb.endpoint) =>
      RateLimiter.open({
        ...{ store: `dynamodb:${table}`, endpoint, region: "eu-west-1", credentials: KEYS, clock },
        ...{ timeoutMs: 120_000, denyMemoryMs: 0 },
      });
    const founder = await process({ now: () => T0 });
    await founder.setSystemDefaults(ONE_A_DAY);
    await founder.acquire({ entityId: "key-1", resource: "api", consume: { rpd: 1 } });
    await founder.close();
    return process;
  }

  test("of two processes one is gone: what it had not written is missing, and nothing counts twice", async (t) => {
    const process = await ground();
    const clock = new SimulatedClock(T0);
    const victim = await process(clock);
    const other = await process(clock);
    for (let i = 0; i < 3; i++) await refusedOnce(victim);
    assert.equal(await refusedOf(other), 0, "not written before a minute has passed");
    await clock.advance(60_000);
    assert.equal(await refusedOf(victim), 3);
    assert.equal(await refusedOf(other), 3);
    for (let i = 0; i < 2; i++) await refusedOnce(victim);
    await clock.advance(60_000);
    for (let i = 0; i < 5; i++) await refusedOnce(victim);
    assert.equal(await refusedOf(victim), 10, "with what it has not written yet");
    for (let i = 0; i < 4; i++) await refusedOnce(other);
    await other.close();
    const later = await process({ now: () => T0 });
    t.after(() => later.close());
    // The victim never wrote its last five.
    assert.equal(await refusedOf(later), 3 + 2 + 4);
    await victim.close();
    assert.equal(await refusedOf(later), 3 + 2 + 4 + 5);
  });

  const faults = {
    "the connection is reset before the answer got through":
      AFTER["the connection is reset before the answer got through"],
    "the server fails after it was done": AFTER["the server fails after it was done"],
    "the item is throttled": BEFORE["the item is throttled"],
  };
  for (const [name, fault] of Object.entries(faults)) {
    test(`a write counts once when ${name}`, async (t) => {
      const process = await ground();
      const proxy = await FaultProxy.open(t, dynamodb.endpoint);
      let met = 0;
      proxy.choose = (passage) => (isRefusalWrite(passage) && met++ === 0 ? fault : undefined);
      const limiter = await process({ now: () => T0 }, proxy.endpoint);
      for (let i = 0; i < 3; i++) await refusedOnce(limiter);
      await limiter.close();
      assert.ok(met >= 2, "it was sent again");
      const later = await process({ now: () => T0 });
      t.after(() => later.close());
      assert.equal(await refusedOf(later), 3);
    });
  }

  test("many different ids are a hundred writes and one for the rest", async (t) => {
    const process = await ground();
    const proxy = await FaultProxy.open(t, dynamodb.endpoint);
    let writes = 0;
    proxy.choose = (passage) => {
      if (isRefusalWrite(passage)) writes++;
      return undefined;
    };
    const limiter = await process({ now: () => T0 }, proxy.endpoint);
    await Promise.all(
      Array.from({ length: 130 }, async (_, i) => {
        const asked = { entityId: `id-${i}`, resource: "api", consume: { rpd: 1 } };
        const outcomes = [await limiter.tryAcquire(asked), await limiter.tryAcquire(asked)];
        assert.deepEqual(
          outcomes.map(({ ok }) => ok),
          [true, false],
        );
      }),
    );
    await limiter.close();
    assert.equal(writes, 101);
    const later = await process({ now: () => T0 });
    t.after(() => later.close());
    const totals = await later.refusalTotals({ by: "entity", top: 1_000 });
    assert.deepEqual(totals[0], { entityId: "_other_", count: 30 });
    assert.equal(totals.length, 101);
  });
});
