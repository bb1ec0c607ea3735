import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { dynamoOver } from "../../src/adapters/dynamodb/store.ts";
import { Limit, RateLimiter } from "../../src/entry/index.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { T0 } from "../kit/contract-kit.ts";
import { tellTotalsStories } from "../limiter/totals-stories.ts";
import { describeDynamo } from "./dynamodb-local.ts";
import { newGround, optionsFor } from "./store-kit.ts";

await describeDynamo("totals on DynamoDB", (dynamodb) => {
  const opened = async (t: TestContext) => {
    const clock = new SimulatedClock(T0);
    const { table, wire } = await newGround(dynamodb, t, { clock });
    const process = () => RateLimiter.open({ store: dynamoOver(optionsFor(wire, table, { clock })), clock });
    const limiter = await process();
    t.after(() => limiter.close());
    return { limiter, clock, wire, process };
  };
  tellTotalsStories(opened);

  test("an acquire of a level with totals is one write for each of its buckets, and no read", async (t) => {
    const { limiter, wire } = await opened(t);
    await limiter.setLimits("acme", [Limit.perMinute("rpm", 100, { counts: "requests" })]);
    await limiter.setTotals("acme", [Limit.perDay("usd", 100)]);
    const ask = () => limiter.acquire({ entityId: "acme", resource: "gpt-4", consume: { usd: 1 } });
    for (let i = 0; i < 3; i++) await ask();
    assert.deepEqual(await wire.during(ask), ["UpdateItem", "UpdateItem"]);
  });

  test("totals that one process sets count in another with its next request", async (t) => {
    const { limiter, process } = await opened(t);
    const other = await process();
    t.after(() => other.close());
    await limiter.setSystemDefaults([Limit.perDay("usd", 1_000)]);
    const ask = (amount: number) => other.tryAcquire({ entityId: "acme", resource: "gpt-4", consume: { usd: amount } });
    for (let i = 0; i < 2; i++) assert.equal((await ask(1)).ok, true);
    await limiter.setTotals("acme", [Limit.perDay("usd", 10)]);
    assert.equal((await ask(9)).ok, true);
    assert.equal((await ask(2)).ok, false);
  });
});
