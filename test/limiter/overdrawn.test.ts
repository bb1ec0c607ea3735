import assert from "node:assert/strict";
import { describe, type TestContext, test } from "node:test";
import { Limit, RateLimiter } from "../../src/entry/index.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { EVERY_STORE } from "./every-store.ts";

const T0 = Date.UTC(2026, 2, 15, 12);
const day = Limit.quota("day", 100, { reset: "daily", soft: true });
const about = { entityId: "key-1", resource: "gpt-4" };

for (const [name, openStore] of EVERY_STORE) {
  describe(`soft limits below zero, on ${name}`, () => {
    async function open(t: TestContext) {
      const clock = new SimulatedClock(T0);
      const { store, options } = openStore(clock, t);
      const limiter = await RateLimiter.open({ store, clock, ...options });
      await limiter.createEntity({ id: "acme" });
      await limiter.createEntity({ id: "proj-1", parentId: "acme" });
      await limiter.createEntity({ id: "key-1", parentId: "proj-1" });
      await limiter.setLimits("acme", [Limit.quota("tpm", 100, { reset: "daily", soft: true }), day]);
      await limiter.setLimits("proj-1", [Limit.perMinute("tpm", 10_000)]);
      await limiter.setLimits("key-1", [Limit.perMinute("tpm", 1_000, { soft: true })]);
      return { limiter, clock };
    }

    test("the soft limit of an organisation warns who works below it", async (t) => {
      const { limiter } = await open(t);
      const lease = await limiter.acquire({ ...about, consume: { tpm: 90 } });
      assert.deepEqual(lease.overdrawn, []);
      await lease.adjust({ tpm: 20 });
      assert.deepEqual(lease.overdrawn, ["tpm^2"]);
      const second = await limiter.acquire({ ...about, consume: { tpm: 10 } });
      assert.deepEqual(second.overdrawn, ["tpm^2"], "as the take itself found it");
      await second.consume({ tpm: 900 });
      assert.deepEqual(second.overdrawn, ["tpm", "tpm^2"]);
    });

    test("a day that begins anew owes nothing, on any level", async (t) => {
      const { limiter, clock } = await open(t);
      const lease = await limiter.acquire({ ...about, consume: { tpm: 500 } });
      assert.deepEqual(lease.overdrawn, ["tpm^2"]);
      await clock.advance(86_400_000);
      assert.deepEqual((await limiter.acquire({ ...about, consume: { tpm: 1 } })).overdrawn, []);
    });
  });
}
