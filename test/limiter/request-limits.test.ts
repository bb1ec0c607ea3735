import assert from "node:assert/strict";
import { describe, type TestContext, test } from "node:test";
import { Limit, RateLimiter } from "../../src/entry/index.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { EVERY_STORE } from "./every-store.ts";

// Limits given in a request count for that request. The next one that brings none goes by the stored limits again, whichever
// way it comes to the bucket, and a question says what such a request would find.

const NEVER = { name: "ValidationError", code: "amount_above_capacity" };
const STORED = Limit.perMinute("q", 10);
const GIVEN = [Limit.perMinute("q", 1_000)];
const org = { entityId: "org", resource: "llm" };
const key = { entityId: "key", resource: "llm" };
const web = { entityId: "org", resource: "web" };

for (const [name, openStore] of EVERY_STORE) {
  describe(`limits of a request count in that request, on ${name}`, () => {
    /** A process that knows the limits of org on llm from all three ways to it, and then brought its own there once. */
    async function open(t: TestContext) {
      const clock = new SimulatedClock(Date.UTC(2026, 2, 15, 12));
      const { store, options } = openStore(clock, t);
      const limiter = await RateLimiter.open({ store, clock, ...options });
      await limiter.createEntity({ id: "org" });
      await limiter.createEntity({ id: "key", parentId: "org", cascade: true });
      await limiter.setResourceDefaults("llm", [STORED]);
      await limiter.setResourceDefaults("web", [STORED]);
      await limiter.setLimits("key", [Limit.perMinute("q", 1_000)], { resource: "llm" });
      assert.ok((await limiter.tryAcquire({ ...key, consume: { q: 1 } })).ok);
      assert.ok((await limiter.tryAcquire({ ...web, consume: { q: 1 }, also: { llm: { q: 1 } } })).ok);
      await clock.advance(1_000);
      assert.ok((await limiter.tryAcquire({ ...org, consume: { q: 0 }, limits: GIVEN })).ok);
      await clock.advance(20_000);
      assert.ok((await limiter.tryAcquire({ ...org, consume: { q: 20 }, limits: GIVEN })).ok);
      await clock.advance(10_000);
      return { limiter, clock, another: () => RateLimiter.open({ store, clock, ...options }) };
    }

    test("a question without limits is answered by the stored ones, as the next acquire is", async (t) => {
      const { limiter } = await open(t);
      const [held] = await limiter.available(org);
      assert.deepEqual({ capacity: held?.capacity, available: held?.available }, { capacity: 10, available: 10 });
      assert.equal(await limiter.timeUntilAvailable({ ...org, consume: { q: 11 } }), Number.POSITIVE_INFINITY);
      assert.equal((await limiter.explain({ ...org, consume: { q: 11 } })).outcome, "never");
      await assert.rejects(limiter.tryAcquire({ ...org, consume: { q: 11 } }), NEVER);
    });

    test("a question changes nothing: of two that bring limits, who came last still goes first after the other asked one", async (t) => {
      const { limiter, clock, another } = await open(t);
      const other = await another();
      assert.ok((await other.tryAcquire({ ...org, consume: { q: 1 }, limits: [Limit.perMinute("q", 5)] })).ok);
      await clock.advance(1_000);
      await limiter.available(org);
      await limiter.explain({ ...org, consume: { q: 1 }, limits: [Limit.perMinute("q", 7)] });
      await clock.advance(1_000);
      const outcome = await limiter.tryAcquire({ ...org, consume: { q: 100 }, limits: GIVEN });
      assert.ok(!outcome.ok);
      assert.equal(outcome.primary.capacity, 5);
    });

    test("an entity below is charged by the stored limits of its parent", async (t) => {
      const { limiter } = await open(t);
      await assert.rejects(limiter.tryAcquire({ ...key, consume: { q: 11 } }), NEVER);
      assert.ok((await limiter.tryAcquire({ ...key, consume: { q: 10 } })).ok);
    });

    test("a further resource of a request is charged by its stored limits", async (t) => {
      const { limiter } = await open(t);
      await assert.rejects(limiter.tryAcquire({ ...web, consume: { q: 1 }, also: { llm: { q: 11 } } }), NEVER);
      assert.ok((await limiter.tryAcquire({ ...web, consume: { q: 1 }, also: { llm: { q: 10 } } })).ok);
    });

    test("a reset by hand goes by the stored limits, and a request that brings limits after it by those", async (t) => {
      const { limiter } = await open(t);
      await limiter.resetBucket(org);
      const [held] = await limiter.available(org);
      assert.deepEqual({ capacity: held?.capacity, available: held?.available }, { capacity: 10, available: 10 });
      assert.ok((await limiter.tryAcquire({ ...org, consume: { q: 0 }, limits: GIVEN })).ok);
      const [given] = await limiter.available({ ...org, limits: GIVEN });
      assert.equal(given?.capacity, 1_000);
    });

    test("a list that its owner changes between two requests counts as it is now, not as it was checked", async (t) => {
      const { limiter } = await open(t);
      const fresh = { entityId: "changing", resource: "llm" };
      const limits: Limit[] = [Limit.perMinute("q", 10), Limit.perMinute("r", 10)];
      assert.ok((await limiter.tryAcquire({ ...fresh, consume: { q: 1, r: 1 }, limits })).ok);
      assert.ok((await limiter.tryAcquire({ ...fresh, consume: { q: 1, r: 1 }, limits })).ok);
      limits[1] = Limit.perMinute("r", 5);
      await assert.rejects(limiter.tryAcquire({ ...fresh, consume: { q: 1, r: 6 }, limits }), NEVER);
      limits.pop();
      const unknown = { name: "ValidationError", code: "limit_unknown" };
      await assert.rejects(limiter.tryAcquire({ ...fresh, consume: { r: 1 }, limits }), unknown);
      limits.push(limits[0] as Limit);
      const twice = { name: "ValidationError", code: "limit_duplicate" };
      await assert.rejects(limiter.tryAcquire({ ...fresh, consume: { q: 1 }, limits }), twice);
    });

    test("limits that are no maker's may change between two requests, and are checked at each", async (t) => {
      const { limiter } = await open(t);
      const fresh = { entityId: "changing", resource: "llm" };
      const made = { name: "q", capacity: 10, refillAmount: 10, refillPeriodMs: 60_000 };
      let capacity = 10;
      const computed = Object.freeze({
        ...made,
        name: "r",
        get capacity() {
          return capacity;
        },
      });
      const limits = Object.freeze([made, computed]);
      assert.ok((await limiter.tryAcquire({ ...fresh, consume: { q: 1, r: 1 }, limits })).ok);
      made.capacity = 5;
      await assert.rejects(limiter.tryAcquire({ ...fresh, consume: { q: 6 }, limits }), NEVER);
      capacity = 4;
      await assert.rejects(limiter.tryAcquire({ ...fresh, consume: { r: 5 }, limits }), NEVER);
      made.capacity = 0.5;
      const invalid = { name: "ValidationError", code: "limit_invalid" };
      await assert.rejects(limiter.tryAcquire({ ...fresh, consume: { q: 1 }, limits }), invalid);
    });

    test("the same limits given again and again take every token once, and stored ones return after them", async (t) => {
      const { limiter, clock } = await open(t);
      const fresh = { entityId: "again", resource: "llm" };
      const limits = [Limit.perMinute("q", 3)];
      const granted = [];
      for (let i = 0; i < 5; i++) granted.push((await limiter.tryAcquire({ ...fresh, consume: { q: 1 }, limits })).ok);
      assert.deepEqual(granted, [true, true, true, false, false]);
      await clock.advance(20_000);
      assert.ok((await limiter.tryAcquire({ ...fresh, consume: { q: 1 }, limits })).ok);
      assert.equal((await limiter.tryAcquire({ ...fresh, consume: { q: 1 }, limits })).ok, false);
      await limiter.setAccess(fresh, "disabled");
      await assert.rejects(limiter.tryAcquire({ ...fresh, consume: { q: 1 }, limits }), { code: "resource_disabled" });
      await limiter.setAccess(fresh, "inherit");
      await clock.advance(60_000);
      const [held] = (await limiter.acquire({ ...fresh, consume: { q: 1 } })).remaining;
      assert.equal(held?.capacity, 10);
    });
  });
}
