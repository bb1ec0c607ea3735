import assert from "node:assert/strict";
import { describe, type TestContext, test } from "node:test";
import { Limit, RateLimiter } from "../../src/entry/index.ts";
import { StoredLeases } from "../../src/leases/stored-leases.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { EVERY_STORE } from "./every-store.ts";

// What a request must leave for others, and what it is told when that is not there.

const T0 = Date.UTC(2026, 2, 15, 12);
const ask = { entityId: "key-1", resource: "gpt-4" } as const;
const NEVER = { name: "ValidationError", code: "amount_above_capacity" };

for (const [name, openStore] of EVERY_STORE) {
  describe(`floors on ${name}`, () => {
    async function open(t: TestContext, ...limits: readonly Limit[]) {
      const clock = new SimulatedClock(T0);
      const { store, options } = openStore(clock, t);
      const limiter = await RateLimiter.open({ store, clock, ...options });
      await limiter.setResourceDefaults("gpt-4", limits);
      return { limiter, clock };
    }
    const perMinute = (t: TestContext) => open(t, Limit.perMinute("rpm", 60));

    test("a refused request is told when the floor is there too, and let in at that millisecond", async (t) => {
      const { limiter, clock } = await perMinute(t);
      await limiter.acquire({ ...ask, consume: { rpm: 55 } });
      const low = { ...ask, consume: { rpm: 1 }, leavePercent: 50 };
      const refused = await limiter.tryAcquire(low);
      assert.ok(!refused.ok);
      // 30 must be left and 1 is asked for: 26 more at one a second.
      assert.equal(refused.retryAfterMs, 26_000);
      const { available, requested, floor, exceeded } = refused.primary;
      assert.deepEqual(
        { available, requested, floor, exceeded },
        { available: 5, requested: 1, floor: 30, exceeded: true },
      );
      assert.equal(await limiter.timeUntilAvailable(low), 26_000);
      const explained = await limiter.explain(low);
      assert.deepEqual([explained.outcome, explained.retryAfterMs], ["refused", 26_000]);
      assert.equal(explained.reason, "rpm of key-1 has 5 left, 1 requested with 30 to be left");
      assert.equal((await limiter.tryAcquire({ ...low, leavePercent: 0 })).ok, true, "the floor is for others");
      await clock.advance(26_999);
      assert.equal((await limiter.tryAcquire(low)).ok, false);
      await clock.advance(1);
      assert.equal((await limiter.explain(low)).outcome, "granted");
      assert.equal((await limiter.tryAcquire(low)).ok, true);
      assert.equal((await limiter.available(ask))[0]?.available, 30);
    });

    test("the wait goes window by window: each has a floor of its own", async (t) => {
      // From one o'clock on 100 are held, and 60 to be left; before that only 10, of which 6 are to be left.
      const schedule = [{ cron: "* 0-12 * * *", capacity: 10, refillAmount: 1 }];
      const { limiter, clock } = await open(t, Limit.perMinute("rpm", 100, { schedule }));
      await limiter.acquire({ ...ask, consume: { rpm: 1 } });
      const low = { ...ask, consume: { rpm: 5 }, leavePercent: 60 };
      const refused = await limiter.tryAcquire(low);
      assert.ok(!refused.ok);
      // 11 can never be held before one o'clock; then 10 are there, and 55 more drip in within 33 seconds.
      assert.equal(refused.retryAfterMs, 3_600_000 + 33_000);
      await clock.advance(refused.retryAfterMs - 1);
      assert.equal((await limiter.tryAcquire(low)).ok, false);
      await clock.advance(1);
      assert.equal((await limiter.tryAcquire(low)).ok, true);
    });

    test("an amount and a floor above every capacity can never be granted", async (t) => {
      const { limiter } = await perMinute(t);
      const never = { ...ask, consume: { rpm: 31 }, leavePercent: 50 };
      await assert.rejects(limiter.acquire(never), {
        ...NEVER,
        message:
          '31 of "rpm" with 50 % to be left for key-1 on gpt-4 can never be granted: the capacity is 60. ' +
          "Ask for less, or leave less, or raise the limit.",
      });
      assert.equal(await limiter.timeUntilAvailable(never), Number.POSITIVE_INFINITY);
      assert.equal((await limiter.explain(never)).outcome, "never");
      await limiter.acquire({ ...never, consume: { rpm: 30 } });
      await assert.rejects(limiter.acquire(never), NEVER);
    });

    test("what was bought counts as capacity until the period ends", async (t) => {
      const { limiter } = await open(t, Limit.quota("q", 100, { reset: { cron: "0 0 1 * *" } }));
      const low = (q: number) => ({ ...ask, consume: { q }, leavePercent: 50 });
      await assert.rejects(limiter.acquire(low(60)), NEVER);
      await limiter.topUp({ ...ask, amounts: { q: 100 } });
      const lease = await limiter.acquire({ ...ask, consume: { q: 41 } });
      const refused = await limiter.tryAcquire(low(60));
      assert.ok(!refused.ok, "159 of 200 are there, 160 are needed");
      assert.equal(refused.retryAfterMs, Date.UTC(2026, 3, 1) - T0, "until then something may come back");
      await lease.release({ q: 1 });
      assert.equal((await limiter.tryAcquire(low(60))).ok, true);
    });

    test("every level must be left its floor, and the one that is short is told", async (t) => {
      const { limiter } = await perMinute(t);
      await limiter.createEntity({ id: "org" });
      await limiter.createEntity({ id: "key-1", parentId: "org", cascade: true });
      await limiter.setLimits("org", [Limit.perMinute("rpm", 100)], { resource: "gpt-4" });
      await limiter.acquire({ entityId: "org", resource: "gpt-4", consume: { rpm: 50 } });
      const refused = await limiter.tryAcquire({ ...ask, consume: { rpm: 31 }, leavePercent: 20 });
      assert.ok(!refused.ok);
      assert.deepEqual([refused.primary.entityId, refused.primary.floor, refused.retryAfterMs], ["org", 20, 600]);
      assert.equal((await limiter.available(ask))[0]?.available, 60, "nothing was taken below");
      assert.equal((await limiter.tryAcquire({ ...ask, consume: { rpm: 30 }, leavePercent: 20 })).ok, true);
    });

    test("a lease that consumes more leaves what its request had to leave, and adjusts below it", async (t) => {
      const { limiter } = await perMinute(t);
      const lease = await limiter.acquire({ ...ask, consume: { rpm: 10 }, leavePercent: 50 });
      await assert.rejects(lease.consume({ rpm: 21 }), { code: "rate_limit_exceeded", retryAfterMs: 1_000 });
      await lease.consume({ rpm: 20 });
      await lease.adjust({ rpm: 25 });
      assert.equal((await limiter.available(ask))[0]?.available, 5);
      await assert.rejects(lease.consume({ rpm: 0 }), { code: "rate_limit_exceeded" });
      await lease.settle();
    });

    test("a stored lease that consumes more leaves what its request had to leave", async (t) => {
      const { limiter } = await perMinute(t);
      const leases = new StoredLeases(limiter, {
        ...{ holdMs: 300_000, holdMaxMs: 86_400_000, onExpiry: "charge" },
        onChange: () => {},
      });
      const { lease } = await leases.acquire({ ...ask, consume: { rpm: 10 }, leavePercent: 50 });
      assert.ok(lease.leaseId !== null);
      await assert.rejects(leases.consume(lease.leaseId, { amounts: { rpm: 21 } }), {
        code: "rate_limit_exceeded",
        retryAfterMs: 1_000,
      });
      await leases.consume(lease.leaseId, { amounts: { rpm: 20 } });
      await leases.adjust(lease.leaseId, { delta: { rpm: 25 } });
      assert.equal((await limiter.available(ask))[0]?.available, 5);
    });

    test("who must leave less goes first among those that wait, then who came first", async (t) => {
      const { limiter, clock } = await perMinute(t);
      await limiter.acquire({ ...ask, consume: { rpm: 60 } });
      const served: string[] = [];
      const wait = (who: string, leavePercent: number) =>
        limiter
          .acquire({ ...ask, consume: { rpm: 1 }, leavePercent, wait: { maxMs: 600_000 } })
          .then(() => served.push(`${who} ${(clock.now() - T0) / 1_000}`));
      const all = [];
      for (const [who, leavePercent] of [
        ["batch", 50],
        ["also batch", 50],
        ["chat", 10],
        ["urgent", 0],
        ["also urgent", 0],
      ] as const) {
        all.push(wait(who, leavePercent));
        await clock.advance(0);
      }
      for (let i = 0; i < 60; i++) await clock.advance(1_000);
      await Promise.all(all);
      // 6 must be left by the chat, 30 by the batches.
      assert.deepEqual(served, ["urgent 1", "also urgent 2", "chat 9", "batch 34", "also batch 35"]);
    });

    test("a request with a floor that is refused does not hide tokens from those without", async (t) => {
      const { limiter } = await perMinute(t);
      await limiter.acquire({ ...ask, consume: { rpm: 31 } });
      for (let i = 0; i < 3; i++) {
        assert.equal((await limiter.tryAcquire({ ...ask, consume: { rpm: 1 }, leavePercent: 50 })).ok, false);
        assert.equal((await limiter.tryAcquire({ ...ask, consume: { rpm: 1 } })).ok, true);
      }
    });

    test("all resources of a request must be left their floors", async (t) => {
      const { limiter } = await perMinute(t);
      await limiter.setResourceDefaults("gpu", [Limit.perMinute("slots", 4)]);
      const both = (slots: number) => ({ ...ask, consume: { rpm: 1 }, also: { gpu: { slots } }, leavePercent: 50 });
      await limiter.acquire({ ...ask, resource: "gpu", consume: { slots: 1 } });
      assert.equal((await limiter.tryAcquire(both(2))).ok, false);
      assert.equal((await limiter.tryAcquire(both(1))).ok, true);
    });

    test("what is no whole percentage from 0 to 99 is refused, and changes nothing", async (t) => {
      const { limiter } = await perMinute(t);
      for (const leavePercent of [-1, 100, 0.5, Number.NaN, "20", null] as unknown as number[]) {
        const request = { ...ask, consume: { rpm: 1 }, leavePercent };
        const invalid = { name: "ValidationError", code: "leave_invalid" };
        await assert.rejects(limiter.acquire(request), invalid);
        await assert.rejects(limiter.acquire({ ...request, wait: { maxMs: 10 } }), invalid);
        await assert.rejects(limiter.timeUntilAvailable(request), invalid);
        await assert.rejects(limiter.explain(request), invalid);
      }
      await assert.rejects(limiter.acquire({ ...ask, consume: { rpm: 1 }, leavePercent: 100 }), {
        message: "leavePercent is 100; give a whole number of percent from 0 to 99.",
      });
      assert.equal((await limiter.available(ask))[0]?.available, 60);
    });
  });
}
