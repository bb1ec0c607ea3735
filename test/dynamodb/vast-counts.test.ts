import assert from "node:assert/strict";
import { test } from "node:test";
import { bucketPk, STATE_SK } from "../../src/adapters/dynamodb/schema.ts";
import { bucketKey } from "../../src/domain/bucket/bucket-key.ts";
import { Limit, RateLimiter } from "../../src/entry/index.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { vastCountsStory, vastSumsStory } from "../limiter/vast-counts-story.ts";
import { describeDynamo } from "./dynamodb-local.ts";
import { newGround } from "./store-kit.ts";

await describeDynamo("counts past 2^53", (dynamodb) => {
  test("no amount that is counted makes a bucket unusable, and usage is exact past 2^53", async (t) => {
    const clock = new SimulatedClock(Date.UTC(2026, 2, 10, 1));
    const { store } = await newGround(dynamodb, t, { clock });
    await vastCountsStory(store, clock, { denyMemoryMs: 0 });
  });

  test("sums over resources and over the charges of a lease are exact, or refused before anything is taken", async (t) => {
    const clock = new SimulatedClock(Date.UTC(2026, 2, 10, 1));
    const { store } = await newGround(dynamodb, t, { clock });
    await vastSumsStory(store, clock, { denyMemoryMs: 0 });
  });

  test("an item that had counted too much for earlier releases is read, taken from and reset", async (t) => {
    const clock = new SimulatedClock(Date.UTC(2026, 2, 10, 1));
    const ground = await newGround(dynamodb, t, { clock });
    const limiter = await RateLimiter.open({ store: ground.store, clock });
    await limiter.setResourceDefaults("api", [Limit.perMinute("tpm", 1_000, { soft: true })]);
    const about = { entityId: "k", resource: "api" };
    await limiter.acquire({ ...about, consume: { tpm: 1 } });
    const key = { pk: bucketPk(ground.namespaceId, bucketKey("k", "api"), 0), sk: STATE_SK };
    const item = await ground.records.get(key);
    assert.ok(item !== undefined);
    const vast = { N: "18000000000001000" };
    const { PK: _, SK: __, ...attributes } = item;
    await ground.put(key, { ...attributes, b_tpm_tc: vast, b_tpm_by: vast, b_tpm_tp: vast });
    const later = await ground.another();
    const other = await RateLimiter.open({ store: later.store, clock });
    await other.acquire({ ...about, consume: { tpm: 1 } });
    await other.resetBucket(about);
    await clock.advance(2 * 3_600_000);
    await other.acquire({ ...about, consume: { tpm: 1 } });
    const query = { ...about, window: "hourly", fromMs: 0, toMs: 4_000_000_000_000 } as const;
    const { total } = await other.usageSummary(query);
    assert.equal(total.tpm, 18_000_000_000_003);
    await limiter.close();
    await other.close();
  });
});
