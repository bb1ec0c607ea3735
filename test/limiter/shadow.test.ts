import assert from "node:assert/strict";
import { describe, type TestContext, test } from "node:test";
import { CHANNELS, Limit, RateLimitExceeded, RateLimiter } from "../../src/entry/index.ts";
import { openMemory } from "../../src/entry/memory.ts";
import { StoredLeases } from "../../src/leases/stored-leases.ts";
import { FaultStore } from "../../src/testing/fault-store.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { EVERY_STORE } from "./every-store.ts";
import { heard } from "./listening.ts";

// A limit that decides like a hard one and refuses nothing: what callers, operators and leases see of it.

const T0 = Date.UTC(2026, 2, 15, 12);
const ask = { entityId: "key-1", resource: "gpt-4" } as const;
/** What stays taken until it is given back: nothing drips in while a story is told. */
const still = (name: string, capacity: number, shadow: boolean) =>
  Limit.custom(name, { capacity, refillAmount: 1, refillPeriodMs: 1_000_000_000_000, shadow });

for (const [name, openStore] of EVERY_STORE) {
  describe(`shadows on ${name}`, () => {
    async function open(t: TestContext, ...limits: readonly Limit[]) {
      const clock = new SimulatedClock(T0);
      const { store, options } = openStore(clock, t);
      const limiter = await RateLimiter.open({ store, clock, ...options });
      await limiter.setResourceDefaults("gpt-4", limits);
      const left = async (): Promise<Record<string, number>> =>
        Object.fromEntries(
          (await limiter.available(ask)).map(({ entityId, limit, available }) => [`${entityId}.${limit}`, available]),
        );
      return { limiter, clock, left };
    }
    const tried = (t: TestContext) => open(t, still("rpm", 10, false), still("tpm", 1_000, true));

    test("the lease names the limit that would have refused, and usage counts it", async (t) => {
      const { limiter, left } = await tried(t);
      const fitting = await limiter.acquire({ ...ask, consume: { rpm: 1, tpm: 700 } });
      assert.deepEqual(fitting.shadowed, []);
      const over = await limiter.acquire({ ...ask, consume: { rpm: 1, tpm: 400 } });
      assert.deepEqual(over.shadowed, ["tpm"]);
      assert.deepEqual(over.consumed, { rpm: 1, tpm: 400 });
      assert.deepEqual(over.overdrawn, []);
      assert.deepEqual(await left(), { "key-1.rpm": 8, "key-1.tpm": 300 });
      const usage = await limiter.usageSummary({ entityId: "key-1", window: "hourly" });
      assert.deepEqual(usage.wouldRefuse, { tpm: 1 });
      assert.deepEqual(usage.total, { rpm: 2, tpm: 700 });
      assert.equal(usage.requests, 2);
    });

    test("it is never exceeded, never waited for, and shown as what it is", async (t) => {
      const { limiter } = await tried(t);
      await limiter.acquire({ ...ask, consume: { rpm: 10, tpm: 1_000 } });
      const refused = await limiter.tryAcquire({ ...ask, consume: { rpm: 1, tpm: 5 } });
      assert.ok(!refused.ok);
      const [rpm, tpm] = refused.statuses;
      assert.deepEqual([rpm?.shadow, rpm?.exceeded], [false, true]);
      assert.deepEqual([tpm?.shadow, tpm?.exceeded, tpm?.available, tpm?.retryAfterMs], [true, false, 0, 0]);
      assert.equal(refused.primary.limit, "rpm");
      const alone = { ...ask, consume: { tpm: 5_000 } };
      assert.equal(await limiter.timeUntilAvailable(alone), 0);
      const explained = await limiter.explain(alone);
      assert.equal(explained.outcome, "granted");
      assert.deepEqual(
        explained.levels[0]?.limits.map(({ limit, shadow, soft }) => [limit, shadow, soft]),
        [
          ["rpm", false, false],
          ["tpm", true, false],
        ],
      );
      const [bucket] = await limiter.listBuckets({ entityId: "key-1" });
      assert.deepEqual(
        bucket?.limits.map(({ limit, shadow }) => [limit, shadow]),
        [
          ["rpm", false],
          ["tpm", true],
        ],
      );
      assert.deepEqual((await limiter.acquire(alone)).shadowed, ["tpm"], "more than it ever holds, too");
      assert.deepEqual((await limiter.acquire({ ...alone, wait: { maxMs: 1_000 } })).shadowed, ["tpm"]);
    });

    test("changes of a shadowed lease leave the limit out, and those of another do not", async (t) => {
      const { limiter, left } = await tried(t);
      const over = await limiter.acquire({ ...ask, consume: { rpm: 1, tpm: 1_400 } });
      await over.adjust({ tpm: 100 });
      await over.release({ tpm: 300 });
      assert.deepEqual(over.consumed, { rpm: 1, tpm: 1_200 });
      assert.deepEqual(await left(), { "key-1.rpm": 9, "key-1.tpm": 1_000 });
      await over.settle({ rpm: 2, tpm: 900 });
      assert.deepEqual(over.consumed, { rpm: 2, tpm: 900 });
      assert.deepEqual(over.shadowed, ["tpm"]);
      assert.deepEqual(await left(), { "key-1.rpm": 8, "key-1.tpm": 1_000 });
      const fitting = await limiter.acquire({ ...ask, consume: { rpm: 1, tpm: 400 } });
      await fitting.adjust({ tpm: 700 });
      assert.deepEqual(await left(), { "key-1.rpm": 7, "key-1.tpm": -100 });
      await fitting.rollback();
      assert.deepEqual(await left(), { "key-1.rpm": 8, "key-1.tpm": 1_000 });
    });

    test("a rollback gives back what was taken, and nothing of what passed", async (t) => {
      const { limiter, left } = await tried(t);
      await limiter.acquire({ ...ask, consume: { rpm: 1, tpm: 600 } });
      const over = await limiter.acquire({ ...ask, consume: { rpm: 3, tpm: 600 } });
      assert.deepEqual(await left(), { "key-1.rpm": 6, "key-1.tpm": 400 });
      await over.rollback();
      assert.deepEqual(await left(), { "key-1.rpm": 9, "key-1.tpm": 400 });
      assert.deepEqual([over.consumed, over.shadowed], [{}, ["tpm"]]);
      // The request was granted and would have been refused: that stays counted.
      const usage = await limiter.usageSummary({ entityId: "key-1", window: "hourly" });
      assert.deepEqual([usage.wouldRefuse, usage.total], [{ tpm: 1 }, { rpm: 1, tpm: 600 }]);
    });

    test("what a lease consumes further is decided anew, and a rollback gives back what of it was taken", async (t) => {
      const { limiter, left } = await tried(t);
      const lease = await limiter.acquire({ ...ask, consume: { rpm: 1, tpm: 600 } });
      await lease.consume({ tpm: 500 });
      assert.deepEqual(lease.shadowed, ["tpm"]);
      assert.deepEqual(lease.consumed, { rpm: 1, tpm: 1_100 });
      await lease.consume({ tpm: 400 });
      assert.deepEqual(await left(), { "key-1.rpm": 9, "key-1.tpm": 0 });
      assert.deepEqual(lease.consumed, { rpm: 1, tpm: 1_500 });
      assert.deepEqual((await limiter.usageSummary({ entityId: "key-1", window: "hourly" })).wouldRefuse, { tpm: 1 });
      await lease.rollback();
      assert.deepEqual(await left(), { "key-1.rpm": 10, "key-1.tpm": 1_000 });
    });

    test("levels and totals are named by their place, and a hard limit above them takes the amount", async (t) => {
      const { limiter, left } = await open(t, still("rpm", 10, false), still("tpm", 100, true));
      await limiter.createEntity({ id: "org" });
      await limiter.createEntity({ id: "key-1", parentId: "org", cascade: true });
      await limiter.setLimits("org", [still("tpm", 50, true)], { resource: "gpt-4" });
      await limiter.setSystemTotals([still("all", 1_000, false)].map((limit) => ({ ...limit, counts: "tpm" })));
      const lease = await limiter.acquire({ ...ask, consume: { rpm: 1, tpm: 60 } });
      assert.deepEqual(lease.shadowed, ["tpm^1"]);
      const over = await limiter.acquire({ ...ask, consume: { rpm: 1, tpm: 300 } });
      assert.deepEqual([...over.shadowed].sort(), ["tpm", "tpm^1"]);
      await over.settle({ tpm: 500 });
      assert.deepEqual(over.consumed, { rpm: 1, tpm: 500 });
      const totals = await limiter.listBuckets({ resource: "*" });
      assert.ok(totals.length > 0 && totals.every(({ limits }) => limits[0]?.available === 440));
      assert.deepEqual(await left(), { ...(await left()), "key-1.tpm": 40, "org.tpm": 50 });
    });

    test("levels are counted upwards, also those between that have no limits", async (t) => {
      const { limiter } = await tried(t);
      await limiter.createEntity({ id: "org" });
      await limiter.createEntity({ id: "proj", parentId: "org" });
      await limiter.createEntity({ id: "key", parentId: "proj" });
      const shadows = ["b", "a"].map((name) => Limit.perDay(name, 5, { shadow: true }));
      await limiter.setLimits("org", [...shadows, Limit.perDay("soft", 5, { soft: true }), Limit.perDay("hard", 5)]);
      const ask = { entityId: "key", resource: "api" };
      const lease = await limiter.acquire({ ...ask, consume: { a: 9, soft: 9, b: 9 } });
      assert.deepEqual([lease.shadowed, lease.overdrawn], [["a^2", "b^2"], ["soft^2"]], "in the order of the request");
      await limiter.acquire({ ...ask, consume: { hard: 5 } });
      const refused = await limiter.acquire({ ...ask, consume: { hard: 1 } }).catch((error: unknown) => error);
      assert.ok(refused instanceof RateLimitExceeded);
      assert.deepEqual(
        refused.toProblem()["violated-policies"],
        ["hard"],
        "a key without limits is told those of whoever has them by their plain names",
      );
    });

    test("events say what was taken, and what passed", async (t) => {
      const { limiter } = await tried(t);
      const events = heard(t, CHANNELS.acquired);
      await limiter.acquire({ ...ask, consume: { rpm: 1, tpm: 2_000 } });
      await limiter.acquire({ ...ask, consume: { rpm: 1, tpm: 1 } });
      assert.deepEqual(
        events.map(({ consumed, shadowed }) => [consumed, shadowed]),
        [
          [{ rpm: 1 }, ["tpm"]],
          [{ rpm: 1, tpm: 1 }, undefined],
        ],
      );
    });

    test("a stored lease keeps it through its changes", async (t) => {
      const { limiter, left } = await tried(t);
      const leases = new StoredLeases(limiter, {
        holdMs: 60_000,
        holdMaxMs: 600_000,
        onExpiry: "charge",
        onChange: () => {},
      });
      const { lease } = await leases.acquire({ ...ask, consume: { rpm: 1, tpm: 1_400 } });
      const id = lease.leaseId as string;
      assert.deepEqual([lease.shadowed, lease.consumed], [["tpm"], { rpm: 1, tpm: 1_400 }]);
      assert.deepEqual((await leases.get(id)).shadowed, ["tpm"]);
      await leases.adjust(id, { delta: { tpm: 100, rpm: 1 } });
      await leases.release(id, { amounts: { tpm: 300 } });
      assert.deepEqual((await leases.get(id)).consumed, { rpm: 2, tpm: 1_200 });
      assert.deepEqual(await left(), { "key-1.rpm": 8, "key-1.tpm": 1_000 });
      await leases.consume(id, { amounts: { tpm: 400 } });
      assert.deepEqual((await leases.get(id)).consumed, { rpm: 2, tpm: 1_600 });
      assert.deepEqual(await left(), { "key-1.rpm": 8, "key-1.tpm": 600 });
      const settled = await leases.settle(id, { consumed: { tpm: 500, rpm: 1 } });
      assert.deepEqual([settled.shadowed, settled.consumed], [["tpm"], { rpm: 1, tpm: 500 }]);
      assert.deepEqual(await left(), { "key-1.rpm": 9, "key-1.tpm": 600 });
      const second = await leases.acquire({ ...ask, consume: { rpm: 1, tpm: 700 } });
      const undone = await leases.rollback(second.lease.leaseId as string);
      assert.deepEqual([undone.shadowed, undone.consumed], [["tpm"], { rpm: 0, tpm: 0 }]);
      assert.deepEqual(await left(), { "key-1.rpm": 9, "key-1.tpm": 600 });
    });
  });
}

test("a lease shows what it was charged, whatever it noted of a shadow beside it that it passed by", async () => {
  const clock = new SimulatedClock(T0);
  const faults = new FaultStore(openMemory(), {});
  const limiter = await RateLimiter.open({ store: faults, clock });
  const tokens = { refillAmount: 1, refillPeriodMs: 1_000_000_000_000, counts: "tokens" };
  await limiter.setResourceDefaults("gpt-4", [
    Limit.custom("tpm", { capacity: 100, ...tokens }),
    Limit.custom("burst", { capacity: 10, ...tokens, shadow: true }),
  ]);
  const lease = await limiter.acquire({ ...ask, consume: { tokens: 20 } });
  assert.deepEqual(lease.shadowed, ["burst"]);
  for (let tries = 0; tries < 3; tries++) faults.failNext("debit", "refused");
  const adjusted = lease.adjust({ tokens: 5 });
  for (let i = 0; i < 100; i++) await clock.advance(100);
  await adjusted;
  // The adjustment is not stored yet.
  assert.deepEqual(lease.consumed, { tokens: 20 });
  for (let i = 0; i < 100; i++) await Promise.all([clock.advance(100), i === 0 ? lease.settle() : undefined]);
  assert.deepEqual(lease.consumed, { tokens: 25 });
  assert.equal((await limiter.available(ask))[0]?.available, 75);
});

test("a limit is soft or a shadow, not both, and says why", () => {
  assert.throws(() => Limit.perMinute("tpm", 5, { soft: true, shadow: true }), {
    name: "ValidationError",
    code: "limit_invalid",
    message: /"tpm".*soft and shadow.*give one of them/,
  });
  assert.throws(() => Limit.perMinute("tpm", 5, { shadow: 1 as never }), {
    code: "limit_invalid",
    message: /shadow is 1/,
  });
  assert.deepEqual(Limit.perMinute("tpm", 5, { shadow: false }), Limit.perMinute("tpm", 5));
  assert.equal(Limit.quota("tpm", 5, { resetAfterMs: 1_000, shadow: true }).shadow, true);
});
