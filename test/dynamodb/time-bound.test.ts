import assert from "node:assert/strict";
import { test } from "node:test";
import type { DynamoCall, DynamoClient, DynamoOperation } from "../../src/adapters/dynamodb/client.ts";
import { dynamoOver } from "../../src/adapters/dynamodb/store.ts";
import { Limit, RateLimiter } from "../../src/entry/index.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { describeDynamo } from "./dynamodb-local.ts";
import { newGround, optionsFor } from "./store-kit.ts";

const T0 = Date.UTC(2026, 2, 15, 12);

await describeDynamo("the time of an acquire", (dynamodb) => {
  test("what configuration took to read is not there for the take, and a known chain has all of it", async (t) => {
    const { table } = await newGround(dynamodb, t);
    const clock = new SimulatedClock(T0);
    const given: [DynamoOperation, number][] = [];
    const slow: DynamoClient = {
      send: (operation: DynamoOperation, body: string, call: DynamoCall) => {
        given.push([operation, call.timeoutMs]);
        if (operation === "BatchGetItem") clock.set(clock.now() + 300);
        return dynamodb.client.send(operation, body, { ...call, timeoutMs: 10_000 });
      },
      close: async () => {},
    };
    const store = dynamoOver(optionsFor(slow, table, { clock, timeoutMs: 1_000 }));
    const limiter = await RateLimiter.open({ store, clock, timeoutMs: 1_000 });
    t.after(() => limiter.close());
    await limiter.setSystemDefaults([Limit.perMinute("rpm", 10)]);
    await clock.advance(10_000);
    const request = { entityId: "key", resource: "api", consume: { rpm: 1 } };
    given.length = 0;
    await limiter.acquire(request);
    await limiter.acquire(request);
    assert.deepEqual(given, [
      ["BatchGetItem", 1_000],
      // A bucket is made only by configuration that was read consistently for it.
      ["BatchGetItem", 1_000],
      ["PutItem", 400],
      ["UpdateItem", 1_000],
    ]);
  });
});
