import assert from "node:assert/strict";
import { test } from "node:test";
import { createTable, deleteTable, openDynamo } from "../../src/entry/dynamodb.ts";
import { Limit, NotFoundError, RateLimiter } from "../../src/entry/index.ts";
import { describeDynamo } from "./dynamodb-local.ts";

await describeDynamo("a limiter on DynamoDB", ({ endpoint }) => {
  test("is opened on a table that createTable made, and does what any limiter does", async (t) => {
    const way = {
      stack: `test-open-${process.pid}`,
      region: "eu-west-1",
      endpoint,
      credentials: { accessKeyId: "test", secretAccessKey: "test" },
    };
    await assert.rejects(openDynamo(way), NotFoundError);
    await createTable(way);
    t.after(() => deleteTable(way));
    const store = await openDynamo(way);
    const limiter = await RateLimiter.open({ store, timeoutMs: 10_000 });
    try {
      await limiter.createEntity({ id: "team" });
      await limiter.createEntity({ id: "key", parentId: "team", cascade: true });
      await limiter.setLimits("team", [Limit.perDay("rpd", 3)]);
      await limiter.setResourceDefaults("gpt-4", [Limit.perDay("rpd", 100)]);
      const take = () => limiter.tryAcquire({ entityId: "key", resource: "gpt-4", consume: { rpd: 1 } });
      for (let i = 0; i < 3; i++) assert.equal((await take()).ok, true);
      const refused = await take();
      assert.equal(refused.ok, false);
      await limiter.registerNamespace("tenant");
      const tenant = await limiter.namespace("tenant");
      await assert.rejects(tenant.getEntity("key"), NotFoundError);
    } finally {
      await limiter.close();
      await store.close();
    }
  });
});
