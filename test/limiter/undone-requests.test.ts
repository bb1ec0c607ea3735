import assert from "node:assert/strict";
import { describe, type TestContext, test } from "node:test";
import { Limit, RateLimiter } from "../../src/entry/index.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { EVERY_STORE } from "./every-store.ts";

// A request that is refused at one level is, for all the others, as if it had never been.

const T0 = Date.UTC(2026, 2, 15, 9);
const HOUR_MS = 3_600_000;
const DEAR = { entityId: "key", resource: "api" } as const;

for (const [name, openStore] of EVERY_STORE) {
  describe(`requests that are undone on ${name}`, () => {
    /** A key below a project that refuses: the project owes 5 of its 10. */
    async function open(t: TestContext, keyLimits: readonly Limit[], projectLimits: readonly Limit[]) {
      const clock = new SimulatedClock(T0);
      const { store, options } = openStore(clock, t);
      const limiter = await RateLimiter.open({ store, clock, ...options, denyMemoryMs: 0 });
      await limiter.createEntity({ id: "project" });
      await limiter.createEntity({ id: "key", parentId: "project", cascade: true });
      await limiter.setLimits("key", keyLimits, { resource: "api" });
      await limiter.setLimits("project", projectLimits, { resource: "api" });
      const used = () => limiter.usageSummary({ entityId: "key", resource: "api", window: "daily" });
      return { limiter, clock, used };
    }

    test("a level that took nothing of a refused request does not count it", async (t) => {
      const { limiter, used } = await open(t, [Limit.perDay("a", 100)], [Limit.perDay("a", 10)]);
      const lease = await limiter.acquire({ entityId: "project", resource: "api", consume: { a: 10 } });
      await lease.adjust({ a: 5 });
      for (let i = 0; i < 3; i++) assert.equal((await limiter.tryAcquire({ ...DEAR, consume: { a: 0 } })).ok, false);
      assert.equal((await used()).requests, 0);
    });

    test("a soft limit below zero is not overdrawn once more by a request that was refused above", async (t) => {
      const soft = Limit.perDay("s", 10, { soft: true });
      const { limiter, used } = await open(t, [soft, Limit.perDay("a", 100)], [Limit.perDay("a", 10)]);
      await limiter.acquire({ ...DEAR, consume: { s: 20 } });
      const lease = await limiter.acquire({ entityId: "project", resource: "api", consume: { a: 10 } });
      await lease.adjust({ a: 5 });
      for (let i = 0; i < 3; i++) {
        assert.equal((await limiter.tryAcquire({ ...DEAR, consume: { s: 0, a: 0 } })).ok, false);
        assert.equal((await limiter.tryAcquire({ ...DEAR, consume: { s: 1, a: 1 } })).ok, false);
      }
      const { requests, overdrafts, total } = await used();
      assert.deepEqual({ requests, overdrafts, s: total.s }, { requests: 1, overdrafts: { s: 1 }, s: 20 });
    });

    test("a window begins with the first request that was granted, not with one that was refused above", async (t) => {
      const session = Limit.quota("s", 500, { resetAfterMs: 5 * HOUR_MS });
      const { limiter, clock } = await open(t, [session, Limit.perDay("a", 100)], [Limit.perDay("a", 10)]);
      const all = await limiter.acquire({ entityId: "project", resource: "api", consume: { a: 10 } });
      const refused = await limiter.tryAcquire({ ...DEAR, consume: { s: 100, a: 1 } });
      assert.equal(refused.ok, false);
      await all.rollback();
      await clock.advance(4 * HOUR_MS);
      await limiter.acquire({ ...DEAR, consume: { s: 500 } });
      await clock.advance(4 * HOUR_MS);
      assert.equal((await limiter.tryAcquire({ ...DEAR, consume: { s: 1 } })).ok, false, "at 17:00 it is still open");
      await clock.advance(HOUR_MS + 10);
      assert.equal((await limiter.tryAcquire({ ...DEAR, consume: { s: 500 } })).ok, true, "at 18:00 it is over");
    });

    test("a request of nothing that is planned again, as a parent's limits changed, counts once", async (t) => {
      const { limiter, used } = await open(t, [Limit.perDay("a", 100)], [Limit.perDay("a", 10)]);
      await limiter.acquire({ ...DEAR, consume: { a: 1 } });
      await limiter.setLimits("project", [Limit.perDay("a", 20)], { resource: "api" });
      await limiter.acquire({ ...DEAR, consume: { a: 0 } });
      assert.equal((await used()).requests, 2);
    });
  });
}
