import assert from "node:assert/strict";
import { describe, type TestContext, test } from "node:test";
import { Limit, RateLimiter } from "../../src/entry/index.ts";
import { SeededRandom } from "../../src/testing/random.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { conditionalWorld, openConditional } from "../kit/conditional-store.ts";
import { calendar } from "../limits/kind-arbitraries.ts";
import { EVERY_STORE } from "./every-store.ts";

// "Never" is said, and thrown as a mistake of the caller, only where it is certain: the bucket tells, not configuration.

const T0 = Date.UTC(2026, 2, 15, 12);
const MONTH_END_MS = Date.UTC(2026, 3, 1);
const NEVER = { name: "ValidationError", code: "amount_above_capacity" };
const month = (capacity: number) => Limit.quota("q", capacity, { reset: { cron: "0 0 1 * *" } });
const asking = (q: number) => ({ entityId: "a", resource: "llm", consume: { q } });

for (const [name, openStore] of EVERY_STORE) {
  describe(`never is said only where it is certain, on ${name}`, () => {
    async function open(t: TestContext, ...limits: readonly Limit[]) {
      const clock = new SimulatedClock(T0);
      const { store, options } = openStore(clock, t);
      const limiter = await RateLimiter.open({ store, clock, ...options });
      await limiter.setResourceDefaults("llm", limits);
      return { limiter, clock };
    }

    test("what was bought makes room above the capacity: held by a lease it is refused, given back it is granted", async (t) => {
      const { limiter, clock } = await open(t, month(100));
      await limiter.topUp({ entityId: "a", resource: "llm", amounts: { q: 100 } });
      const lease = await limiter.acquire(asking(80));
      const untilResetMs = MONTH_END_MS - T0;
      const refused = await limiter.tryAcquire(asking(150));
      assert.ok(!refused.ok);
      assert.equal(refused.retryAfterMs, untilResetMs, "until then something may come back");
      assert.equal(await limiter.timeUntilAvailable(asking(150)), untilResetMs);
      const { outcome, retryAfterMs } = await limiter.explain(asking(150));
      assert.deepEqual({ outcome, retryAfterMs }, { outcome: "refused", retryAfterMs: untilResetMs });
      const waiting = limiter.acquire({ ...asking(150), wait: { maxMs: 10_000 } });
      await clock.advance(1_000);
      await lease.rollback();
      await clock.advance(1_000);
      assert.deepEqual((await waiting).consumed, { q: 150 });
    });

    test("more than the capacity and what was bought is a mistake, as is what was bought once the period is over", async (t) => {
      const { limiter, clock } = await open(t, month(100));
      await limiter.topUp({ entityId: "a", resource: "llm", amounts: { q: 100 } });
      const message = /201 of "q".*never be granted: the capacity is 100 and was topped up by 100\. Ask for less/;
      await assert.rejects(limiter.tryAcquire(asking(201)), { ...NEVER, message });
      await assert.rejects(limiter.tryAcquire({ ...asking(201), wait: { maxMs: 10_000 } }), NEVER);
      assert.equal((await limiter.explain(asking(201))).outcome, "never");
      assert.equal(await limiter.timeUntilAvailable(asking(201)), Number.POSITIVE_INFINITY);
      await clock.advance(MONTH_END_MS - T0);
      await assert.rejects(limiter.tryAcquire(asking(150)), { ...NEVER, message: /the capacity is 100\. Ask/ });
      assert.equal((await limiter.explain(asking(150))).outcome, "never");
      assert.equal(await limiter.timeUntilAvailable(asking(150)), Number.POSITIVE_INFINITY);
    });

    test("what takes longer than numbers go is not told as the wait of another limit that is short, too", async (t) => {
      const most = 9_000_000_000_000;
      const slow = Limit.custom("slow", { capacity: most, refillAmount: 2, refillPeriodMs: 60_000 });
      const { limiter } = await open(t, Limit.perHour("hourly", most), slow);
      const request = (hourly: number, tokens: number) => ({
        ...{ entityId: "a", resource: "llm", consume: { hourly, slow: tokens } },
      });
      await limiter.acquire(request(most, most));
      const refused = await limiter.tryAcquire(request(most / 10, most / 10));
      assert.ok(!refused.ok);
      assert.equal(refused.retryAfterMs, 2 ** 45, "when to ask again: never would be certain");
      assert.equal(refused.primary.limit, "slow");
      assert.equal(await limiter.timeUntilAvailable(request(most / 10, most / 10)), 2 ** 45);
    });

    test("a limit that drips, one with a larger window, limits of the request, a soft one, a lease that takes more", async (t) => {
      const { limiter } = await open(t, Limit.perMinute("q", 100), Limit.perMinute("s", 10, { soft: true }));
      await assert.rejects(limiter.tryAcquire(asking(101)), { ...NEVER, message: /101 .*the capacity is 100\./ });
      assert.equal(await limiter.timeUntilAvailable(asking(101)), Number.POSITIVE_INFINITY);
      assert.ok((await limiter.tryAcquire({ ...asking(0), consume: { s: 1_000 } })).ok);
      const lease = await limiter.acquire(asking(1));
      await assert.rejects(lease.consume({ q: 101 }), NEVER);
      const own = [Limit.perMinute("q", 500)];
      assert.ok((await limiter.tryAcquire({ ...asking(200), entityId: "b", limits: own })).ok);
      await assert.rejects(limiter.tryAcquire({ ...asking(501), entityId: "b", limits: own }), NEVER);
      const schedule = [{ cron: "* 20 * * *", capacity: 1_000 }];
      const windowed = [Limit.perMinute("q", 100, { schedule })];
      const early = await limiter.tryAcquire({ ...asking(900), entityId: "c", limits: windowed });
      assert.ok(!early.ok && early.retryAfterMs < Number.POSITIVE_INFINITY);
      await assert.rejects(limiter.tryAcquire({ ...asking(1_001), entityId: "c", limits: windowed }), NEVER);
    });

    test("a quota that fits now, beside a limit that takes until after its reset: when to ask again, not never", async (t) => {
      const slow = Limit.custom("s", { capacity: 100, refillAmount: 1, refillPeriodMs: 86_400_000 });
      const { limiter } = await open(t, month(100), slow);
      await limiter.topUp({ entityId: "a", resource: "llm", amounts: { q: 100 } });
      const held = await limiter.acquire({ ...asking(0), consume: { s: 100 } });
      const both = { ...asking(0), consume: { q: 150, s: 50 } };
      const refused = await limiter.tryAcquire(both);
      assert.ok(!refused.ok);
      assert.equal(
        refused.retryAfterMs,
        MONTH_END_MS - T0,
        "it fits as soon as the other is given back, until what was bought ends",
      );
      await held.rollback();
      assert.ok((await limiter.tryAcquire(both)).ok);
    });
  });
}

for (const [what, engineMs, storeMs] of [
  ["the limiter", 1_000, 0],
  ["the store", 0, 1_000],
] as const) {
  describe(`never is not said from what ${what} remembers`, () => {
    async function open(...limits: readonly Limit[]) {
      const clock = new SimulatedClock(T0);
      const random = new SeededRandom(5);
      const world = conditionalWorld(
        { now: () => clock.now(), random, writesPerSecond: Number.POSITIVE_INFINITY, staleMs: 0 },
        calendar,
      );
      const one = () => {
        const store = openConditional(world, { clock, random: () => random.next(), denyMemoryMs: storeMs });
        return RateLimiter.open({ store, clock, denyMemoryMs: engineMs });
      };
      const [asker, operator] = [await one(), await one()];
      await operator.setResourceDefaults("llm", limits);
      return { asker, operator, clock };
    }

    test("another process buys: what was a mistake a moment ago is granted", async () => {
      const { asker, operator, clock } = await open(month(100));
      await (await asker.acquire(asking(10))).settle();
      await assert.rejects(asker.tryAcquire(asking(150)), NEVER);
      await operator.topUp({ entityId: "a", resource: "llm", amounts: { q: 100 } });
      await clock.advance(100);
      assert.ok((await asker.tryAcquire(asking(150))).ok);
    });

    test("another process buys for the parent, while the entity itself is short: refused, and no mistake", async () => {
      const { asker, operator, clock } = await open(month(1_000));
      await operator.createEntity({ id: "p" });
      await operator.createEntity({ id: "a", parentId: "p", cascade: true });
      await operator.setLimits("p", [month(100)], { resource: "llm" });
      await (await asker.acquire(asking(10))).settle();
      await (await asker.acquire({ ...asking(0), limits: [month(1_000)] })).adjust({ q: 900 });
      await assert.rejects(asker.tryAcquire(asking(150)), NEVER);
      await operator.topUp({ entityId: "p", resource: "llm", amounts: { q: 100 } });
      await clock.advance(100);
      const refused = await asker.tryAcquire(asking(150));
      assert.ok(!refused.ok);
      assert.equal(refused.retryAfterMs, MONTH_END_MS - T0 - 100);
    });
  });
}

test("a parent's capacity is a mistake of the caller too, and it is not told how large that is", async () => {
  const limiter = await RateLimiter.open({ store: "memory", clock: new SimulatedClock(T0) });
  await limiter.createEntity({ id: "p" });
  await limiter.createEntity({ id: "a", parentId: "p", cascade: true });
  await limiter.setLimits("p", [Limit.perMinute("q", 100)]);
  await limiter.setLimits("a", [Limit.perMinute("q", 500)]);
  await assert.rejects(
    limiter.acquire(asking(150)),
    (error: { code: string; message: string; toProblem(): object }) => {
      assert.match(error.message, /its parent p has a capacity of 100/);
      assert.doesNotMatch(JSON.stringify(error.toProblem()), /100/);
      return error.code === NEVER.code;
    },
  );
  const [held] = await limiter.available({ entityId: "a", resource: "llm" });
  assert.equal(held?.available, 500, "what the entity gave is given back");
});

test("a process that has not heard of raised limits asks the bucket, which has: granted, not called a mistake", async () => {
  const clock = new SimulatedClock(T0);
  const random = new SeededRandom(5);
  const world = conditionalWorld(
    { now: () => clock.now(), random, writesPerSecond: Number.POSITIVE_INFINITY, staleMs: 0 },
    calendar,
  );
  const open = () =>
    RateLimiter.open({ store: openConditional(world, { clock, random: () => random.next(), denyMemoryMs: 0 }), clock });
  const [operator, behind] = [await open(), await open()];
  await operator.setResourceDefaults("llm", [Limit.perMinute("q", 50)]);
  assert.ok((await behind.tryAcquire(asking(1))).ok);
  await clock.advance(10);
  await operator.setResourceDefaults("llm", [Limit.perSecond("q", 200)]);
  assert.ok((await operator.tryAcquire(asking(1))).ok);
  await clock.advance(5_000);
  assert.ok((await behind.tryAcquire(asking(100))).ok);
});

test("never of a bucket in shards counts what was bought for all of them", async () => {
  const clock = new SimulatedClock(T0);
  const random = new SeededRandom(5);
  const world = conditionalWorld(
    { now: () => clock.now(), random, writesPerSecond: Number.POSITIVE_INFINITY, staleMs: 0 },
    calendar,
  );
  const store = openConditional(world, { clock, random: () => random.next() });
  const limiter = await RateLimiter.open({ store, clock, denyMemoryMs: 0 });
  await limiter.setResourceDefaults("llm", [month(100)]);
  const lease = await limiter.acquire(asking(80));
  const { key } = { key: { entityId: "a", resource: "llm", id: "a\nllm" } };
  assert.ok(await store.bucketsOf("default").resize(key, "more", clock.now()));
  await limiter.topUp({ entityId: "a", resource: "llm", amounts: { q: 100 } });
  const refused = await limiter.tryAcquire(asking(150));
  assert.ok(!refused.ok);
  assert.equal(refused.retryAfterMs, MONTH_END_MS - T0);
  await assert.rejects(limiter.tryAcquire(asking(201)), NEVER);
  await lease.rollback();
  assert.ok((await limiter.tryAcquire(asking(150))).ok);
});
