import assert from "node:assert/strict";
import { describe, type TestContext, test } from "node:test";
import { CHANNELS, Limit, RateLimiter } from "../../src/entry/index.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { EVERY_STORE } from "./every-store.ts";
import { heard } from "./listening.ts";

// What is told when a percentage of a limit is reached, and what a store that cannot tell says.

const T0 = Date.UTC(2026, 2, 15, 12);
const HOUR_MS = 3_600_000;
const ask = { entityId: "key-1", resource: "gpt-4" } as const;
const daily = Limit.quota("day", 100, { reset: "daily", notifyAt: [80, 95] });

for (const [name, openStore] of EVERY_STORE) {
  describe(`thresholds on ${name}`, () => {
    async function open(t: TestContext) {
      const clock = new SimulatedClock(T0);
      const { store, options } = openStore(clock, t);
      const limiter = await RateLimiter.open({ store, clock, ...options });
      const events = heard(t, CHANNELS.threshold);
      const told = async () => {
        await store.scope("default").buckets.thresholdsTold?.();
        return events.splice(0);
      };
      return { limiter, clock, store, told };
    }

    test("a limit that tells is refused where the store keeps no marks", async (t) => {
      const { limiter, store } = await open(t);
      if (store.tellsThresholds === true) return;
      const unsupported = { name: "ValidationError", code: "notify_unsupported", message: /Limit "day" has notifyAt/ };
      await assert.rejects(limiter.setResourceDefaults("gpt-4", [daily]), unsupported);
      await assert.rejects(limiter.acquire({ ...ask, consume: { day: 1 }, limits: [daily] }), unsupported);
    });

    test("each percentage is one event, of whichever level and resource reached it", async (t) => {
      const { limiter, store, told } = await open(t);
      if (store.tellsThresholds === undefined) return;
      await limiter.createEntity({ id: "org" });
      await limiter.createEntity({ id: "key-1", parentId: "org", cascade: true });
      await limiter.setResourceDefaults("gpt-4", [Limit.quota("day", 1_000, { reset: "daily" })]);
      await limiter.setLimits("org", [daily], { resource: "gpt-4" });
      await limiter.setTotals("org", [Limit.perMinute("day", 90, { notifyAt: [50] })]);
      await limiter.acquire({ ...ask, consume: { day: 44 } });
      assert.deepEqual(await told(), []);
      await limiter.acquire({ ...ask, consume: { day: 40 } });
      const at = { namespace: "default", entityId: "org", limit: "day", atMs: T0, used: 84 } as const;
      const byResource = (await told()).toSorted((a, b) => (a.resource < b.resource ? -1 : 1));
      assert.deepEqual(byResource, [
        { ...at, resource: "*", percent: 50, capacity: 90 },
        { ...at, resource: "gpt-4", percent: 80, capacity: 100, resetsAtMs: T0 + 12 * HOUR_MS },
      ]);
    });

    test("leases that consume or adjust are told; a give-back and a refusal are not", async (t) => {
      const { limiter, store, told, clock } = await open(t);
      if (store.tellsThresholds === undefined) return;
      await limiter.setResourceDefaults("gpt-4", [daily]);
      const lease = await limiter.acquire({ ...ask, consume: { day: 70 } });
      assert.equal((await limiter.tryAcquire({ ...ask, consume: { day: 40 } })).ok, false);
      assert.deepEqual(await told(), []);
      await lease.consume({ day: 10 });
      assert.deepEqual(
        (await told()).map(({ percent, used }) => [percent, used]),
        [[80, 80]],
      );
      await clock.advance(1_000);
      await lease.adjust({ day: 16 });
      await lease.settle();
      const [event, ...others] = await told();
      assert.deepEqual([event?.percent, event?.used, event?.atMs, others], [95, 96, T0 + 1_000, []]);
      const more = await limiter.acquire({ ...ask, consume: { day: 2 } });
      await more.rollback();
      assert.deepEqual(await told(), []);
    });

    test("a request that its organisation refuses tells nothing, and the true crossing is told", async (t) => {
      const { limiter, store, told, clock } = await open(t);
      if (store.tellsThresholds === undefined) return;
      await limiter.createEntity({ id: "org" });
      await limiter.createEntity({ id: "key-1", parentId: "org", cascade: true });
      await limiter.setResourceDefaults("gpt-4", [daily]);
      await limiter.setLimits("org", [Limit.perHour("day", 200)], { resource: "gpt-4" });
      await limiter.acquire({ ...ask, entityId: "org", consume: { day: 195 } });
      await limiter.acquire({ ...ask, consume: { day: 1 } });
      for (const atomic of [false, true]) {
        assert.equal((await limiter.tryAcquire({ ...ask, consume: { day: 90 }, atomic })).ok, false);
        assert.deepEqual(await told(), []);
        await clock.advance(2_000);
      }
      await clock.advance(HOUR_MS);
      await limiter.acquire({ ...ask, consume: { day: 90 } });
      assert.deepEqual(
        (await told()).map(({ entityId, percent, used }) => [entityId, percent, used]),
        [["key-1", 80, 91]],
      );
    });

    test("a request that is tried again, because limits have changed, tells once", async (t) => {
      const { limiter, store, told } = await open(t);
      if (store.tellsThresholds === undefined) return;
      await limiter.setSystemDefaults([Limit.perHour("calls", 3, { notifyAt: [50, 90] })]);
      // By its code DynamoDB's store takes from gpt-4 first, and then doubts what it knows of the limits of the other.
      await limiter.resetBucket({ entityId: "key-1", resource: "tools" });
      await limiter.acquire({ ...ask, consume: { calls: 2 }, also: { tools: { calls: 1 } } });
      assert.deepEqual(
        (await told()).map(({ resource, percent, used }) => [resource, percent, used]),
        [["gpt-4", 50, 2]],
      );
    });

    test("a percentage that was added since is told by a lease of older limits", async (t) => {
      const { limiter, store, told, clock } = await open(t);
      if (store.tellsThresholds === undefined) return;
      await limiter.setResourceDefaults("gpt-4", [Limit.quota("day", 100, { reset: "daily" })]);
      const lease = await limiter.acquire({ ...ask, consume: { day: 60 } });
      await clock.advance(1_000);
      await limiter.setResourceDefaults("gpt-4", [daily]);
      await limiter.acquire({ ...ask, consume: { day: 1 } });
      await lease.consume({ day: 20 });
      assert.deepEqual(
        (await told()).map(({ percent, used }) => [percent, used]),
        [[80, 81]],
      );
    });

    test("slots are told when so many are held, and again once they were given back", async (t) => {
      const { limiter, store, told } = await open(t);
      if (store.tellsThresholds === undefined) return;
      await limiter.setResourceDefaults("gpt-4", [Limit.concurrent("parallel", 10, { notifyAt: [80] })]);
      const lease = await limiter.acquire({ ...ask, consume: { parallel: 8 } });
      assert.deepEqual(
        (await told()).map(({ percent, used, capacity }) => [percent, used, capacity]),
        [[80, 8, 10]],
      );
      const more = await limiter.acquire({ ...ask, consume: { parallel: 2 } });
      assert.deepEqual(await told(), []);
      await lease.settle();
      await more.settle();
      await limiter.acquire({ ...ask, consume: { parallel: 9 } });
      assert.deepEqual(
        (await told()).map(({ percent, used }) => [percent, used]),
        [[80, 9]],
      );
    });

    test("what was reached is told before a limiter has closed", async (t) => {
      const { limiter, store } = await open(t);
      if (store.tellsThresholds === undefined) return;
      await limiter.setResourceDefaults("gpt-4", [daily]);
      const events = heard(t, CHANNELS.threshold);
      await limiter.acquire({ ...ask, consume: { day: 96 } });
      await limiter.close();
      assert.deepEqual(
        events.map(({ percent }) => percent),
        [80, 95],
      );
    });

    test("a namespace of its own is named in its events, and told by its own limiter", async (t) => {
      const { limiter, store, told } = await open(t);
      if (store.tellsThresholds === undefined) return;
      await limiter.registerNamespace("team");
      const team = limiter.namespace("team");
      await team.setResourceDefaults("gpt-4", [daily]);
      await team.acquire({ ...ask, consume: { day: 80 } });
      const id = (await limiter.getNamespace("team")).id;
      await store.scope(id).buckets.thresholdsTold?.();
      assert.deepEqual(
        (await told()).map(({ namespace, percent }) => [namespace, percent]),
        [["team", 80]],
      );
    });
  });
}
