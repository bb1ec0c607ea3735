import assert from "node:assert/strict";
import { test } from "node:test";
import { HOUR_MS, MINUTE_MS, rpm } from "../defects/kit.ts";
import { describeDynamo } from "./dynamodb-local.ts";
import { OneTable } from "./one-table.ts";

await describeDynamo("what usage of callers costs on DynamoDB", (dynamodb) => {
  const table = new OneTable(dynamodb);

  test("one write for each caller without a bucket, resource and minute by each process, and none else", async () => {
    const scene = await table.newScene();
    const { limiter, wire } = await scene.process({ configTtlMs: 100 * HOUR_MS });
    await limiter.createEntity({ id: "org" });
    await limiter.setLimits("org", rpm(1_000));
    await limiter.setLimits("own", rpm(1_000));
    for (const id of ["k1", "k2"]) await limiter.createEntity({ id, parentId: "org", cascade: true });
    const ask = async (entityId: string, resource = "api") => {
      await limiter.withLease({ entityId, resource, consume: { rpm: 1 } }, async () => {});
    };
    const asAsked = () =>
      wire.calls
        .filter(({ operation }) => operation === "PutItem")
        .map(({ input }) => JSON.stringify(input))
        .filter((text) => /#CALLED#\d/.test(text))
        .map((text) => /"SK":\{"S":"[^"]*T\d\d#([^#"]+)#([^#"]+)#/.exec(text)?.slice(1, 3).join(" "))
        .sort();
    // A question waits for a write that is under way.
    const written = () => limiter.usageSummary({ window: "monthly" });
    await wire.during(async () => {
      for (let i = 0; i < 5; i++) for (const id of ["k1", "k2", "own", "org"]) await ask(id);
      await ask("k1", "images");
      assert.deepEqual(asAsked(), [], "a take writes nothing of it");
      await scene.clock.advance(MINUTE_MS);
      await written();
    });
    assert.deepEqual(asAsked(), ["k1 api", "k1 images", "k2 api"]);
    await wire.during(async () => {
      for (const id of ["k2", "k2", "own"]) await ask(id);
      await scene.clock.advance(MINUTE_MS);
      await ask("own");
      await scene.clock.advance(3 * MINUTE_MS);
      await written();
    });
    assert.deepEqual(asAsked(), ["k2 api"]);
    const usage = await limiter.usageTotals({ window: "monthly", by: "entity" });
    assert.deepEqual(
      usage.map(({ entityId, requests, total }) => [entityId, requests, total.rpm]),
      [
        ["k1", 6, 6],
        ["k2", 7, 7],
        ["org", 18, 18],
        ["own", 7, 7],
      ],
    );
    assert.equal((await limiter.overview()).hours.at(-1)?.requests, 25);
    await limiter.close();
    const { limiter: next } = await scene.process();
    assert.equal((await next.overview()).hours.at(-1)?.requests, 25, "closing has written it");
    await next.deleteEntity("k1");
    assert.deepEqual(await next.usageTotals({ window: "monthly", by: "entity", entityId: "k1" }), []);
  });
});
