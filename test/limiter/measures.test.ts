import assert from "node:assert/strict";
import { test } from "node:test";
import { Limit, type OpenOptions, RateLimiter, ValidationError } from "../../src/entry/index.ts";
import { openMemory } from "../../src/entry/memory.ts";
import { StoredLeases } from "../../src/leases/stored-leases.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { EVERY_STORE, type OpenedStore } from "./every-store.ts";

const T0 = 1_800_000_000_000;
const GPT = { entityId: "key-1", resource: "gpt-4" } as const;

const KEY = [Limit.perMinute("rpm", 10, { counts: "requests" }), Limit.perMinute("tpm", 10_000)];
const PROJECT = [
  Limit.perMinute("rpm", 100, { counts: "requests" }),
  Limit.perMinute("tpm", 10_000),
  Limit.quota("month", 2_000, { counts: "tpm", reset: { cron: "0 0 1 * *" } }),
  Limit.quota("usd", 50, { resetAfterMs: 3_600_000 }),
];

/** A project with a budget, and a key below it. */
async function openFamily({ store, options }: OpenedStore, clock: SimulatedClock, more: OpenOptions = {}) {
  const limiter = await RateLimiter.open({ ...options, ...more, store, clock });
  await limiter.createEntity({ id: "proj-1" });
  await limiter.createEntity({ id: "key-1", parentId: "proj-1" });
  await limiter.setResourceDefaults("gpt-4", KEY);
  await limiter.setLimits("proj-1", PROJECT);
  return limiter;
}

/** What is gone of each limit, as `entity.limit`; full ones are left out. */
async function used(limiter: RateLimiter, entityId = "key-1", resource = "gpt-4"): Promise<Record<string, number>> {
  const all = await limiter.available({ entityId, resource });
  const gone = all.map((one) => [`${one.entityId}.${one.limit}`, one.capacity - one.available] as const);
  return Object.fromEntries(gone.filter(([, tokens]) => tokens !== 0));
}

const code = (expected: string) => (error: unknown) => error instanceof ValidationError && error.code === expected;

for (const [name, open] of EVERY_STORE) {
  const story = (sentence: string, tell: (limiter: RateLimiter, clock: SimulatedClock) => Promise<void>) =>
    test(`${name}: ${sentence}`, async (t) => {
      const clock = new SimulatedClock(T0);
      const limiter = await openFamily(open(clock, t), clock);
      await tell(limiter, clock);
      await limiter.close();
    });

  story("a budget of a project binds its keys, which name neither it nor the requests", async (limiter) => {
    const ask = { ...GPT, consume: { tpm: 500 } };
    const lease = await limiter.acquire(ask);
    assert.deepEqual(lease.consumed, { tpm: 500, requests: 1 });
    assert.deepEqual(await used(limiter), {
      ...{ "key-1.rpm": 1, "key-1.tpm": 500 },
      ...{ "proj-1.rpm": 1, "proj-1.tpm": 500, "proj-1.month": 500 },
    });
    for (let i = 0; i < 3; i++) await limiter.acquire(ask);
    const refused = await limiter.tryAcquire(ask);
    assert.ok(!refused.ok);
    assert.deepEqual(
      [refused.primary.entityId, refused.primary.limit, refused.primary.counts, refused.primary.requested],
      ["proj-1", "month", "tpm", 500],
    );
    assert.deepEqual(refused.levels, ["key-1", "proj-1"]);
    assert.equal((await used(limiter))["key-1.rpm"], 4, "what was refused took nothing");
  });

  story("what only a parent counts may be named, and is charged there alone", async (limiter) => {
    const lease = await limiter.acquire({ ...GPT, consume: { tpm: 10, usd: 7 } });
    assert.deepEqual(lease.consumed, { tpm: 10, requests: 1, usd: 7 });
    await lease.adjust({ usd: 3 });
    assert.equal((await used(limiter))["proj-1.usd"], 10);
    await lease.release({ usd: 4 });
    await lease.consume({ usd: 1 });
    assert.deepEqual(lease.consumed, { tpm: 10, requests: 1, usd: 7 });
    assert.equal((await used(limiter))["proj-1.usd"], 7);
    await lease.rollback();
    assert.deepEqual(await used(limiter), {});
  });

  story("a key without limits of its own is held to those of its project", async (limiter) => {
    await limiter.setLimits("proj-1", PROJECT, { resource: "dall-e" });
    const ask = { entityId: "key-1", resource: "dall-e", consume: { usd: 30 } };
    const lease = await limiter.acquire(ask);
    assert.deepEqual(lease.consumed, { usd: 30, requests: 1 });
    assert.deepEqual(
      lease.remaining.map(({ entityId, limit, counts, available }) => [entityId, limit, counts, available]),
      [
        ["proj-1", "rpm", "requests", 99],
        ["proj-1", "tpm", "tpm", 10_000],
        ["proj-1", "month", "tpm", 2_000],
        ["proj-1", "usd", "usd", 20],
      ],
    );
    const refused = await limiter.tryAcquire(ask);
    assert.ok(!refused.ok);
    // The holder of the key reads neither the id nor the capacity of the project.
    assert.deepEqual(refused.levels, ["key-1", "proj-1"]);
    await assert.rejects(limiter.acquire({ ...ask, consume: { usd: 51 } }), (error: ValidationError) => {
      assert.equal(error.code, "amount_above_capacity");
      assert.match(error.message, /its parent proj-1 has a capacity of 50/);
      assert.doesNotMatch(String(error.toProblem().detail), /proj-1|50\b/);
      return true;
    });
    await lease.settle({ usd: 5 });
    assert.deepEqual(await used(limiter, "key-1", "dall-e"), { "proj-1.usd": 5, "proj-1.rpm": 1 });
    const explained = await limiter.explain({ ...ask, consume: { usd: 46 } });
    assert.deepEqual([explained.outcome, explained.primary?.limit], ["refused", "usd"]);
    assert.deepEqual(explained.levels[0]?.limits, []);
    await limiter.deleteLimits("proj-1");
    await assert.rejects(limiter.available({ entityId: "key-1", resource: "nothing" }), code("limits_missing"));
  });

  story(
    "a lease comes to its totals: charged or given back the difference, and what is not named stays",
    async (limiter) => {
      const more = await limiter.acquire({ ...GPT, consume: { tpm: 500, usd: 2 } });
      await more.settle({ tpm: 730 });
      assert.equal(more.status, "settled");
      assert.deepEqual(more.consumed, { tpm: 730, requests: 1, usd: 2 });
      assert.deepEqual(await used(limiter), {
        ...{ "key-1.rpm": 1, "key-1.tpm": 730 },
        ...{ "proj-1.rpm": 1, "proj-1.tpm": 730, "proj-1.month": 730, "proj-1.usd": 2 },
      });
      const less = await limiter.acquire({ ...GPT, consume: { tpm: 500 } });
      await less.adjust({ tpm: 100 });
      await less.settle({ tpm: 20, requests: 3 });
      assert.deepEqual(less.consumed, { tpm: 20, requests: 3 });
      assert.equal((await used(limiter))["proj-1.month"], 750);
      assert.equal((await used(limiter))["key-1.rpm"], 4);
      // The same again does nothing; anything else comes too late.
      await less.settle({ requests: 3, tpm: 20 });
      await less.settle();
      await assert.rejects(less.settle({ tpm: 21 }), { code: "lease_closed" });
      assert.equal((await used(limiter))["proj-1.month"], 750);
    },
  );

  story(
    "totals that nothing counts leave the lease open; more than there is is charged all the same",
    async (limiter) => {
      const lease = await limiter.acquire({ ...GPT, consume: { tpm: 500 } });
      await assert.rejects(lease.settle({ tpm: 600, tokens: 1 }), code("limit_unknown"));
      await assert.rejects(lease.settle({ month: 600 }), {
        code: "limit_unknown",
        message: /month counts tpm; name tpm/,
      });
      await assert.rejects(lease.settle({ tpm: -1 }), code("amount_invalid"));
      await assert.rejects(lease.settle({}, { also: { gpu: { slots: 1 } } }), code("resource_unknown"));
      assert.equal(lease.status, "open");
      assert.equal((await used(limiter))["key-1.tpm"], 500);
      await lease.settle({ tpm: 2_600 });
      assert.equal((await used(limiter))["proj-1.month"], 2_600);
    },
  );

  story(
    "each resource of a request counts a request, unless it says otherwise; totals may name them too",
    async (limiter) => {
      const slots = [Limit.perMinute("slots", 4), Limit.perMinute("calls", 9, { counts: "requests" })];
      await limiter.setResourceDefaults("gpu", slots);
      await limiter.setLimits("proj-1", slots, { resource: "gpu" });
      const lease = await limiter.acquire({ ...GPT, consume: { tpm: 5 }, also: { gpu: { slots: 2 } } });
      assert.deepEqual(lease.resource("gpu").consumed, { slots: 2, requests: 1 });
      await lease.settle({ tpm: 7 }, { also: { gpu: { slots: 1 } } });
      assert.equal((await used(limiter))["key-1.tpm"], 7);
      assert.deepEqual(await used(limiter, "key-1", "gpu"), {
        ...{ "key-1.slots": 1, "key-1.calls": 1, "proj-1.slots": 1, "proj-1.calls": 1 },
      });
      const silent = { ...GPT, consume: { requests: 0, tpm: 1 }, also: { gpu: { requests: 3 } } };
      await limiter.acquire(silent);
      assert.equal((await used(limiter, "key-1", "gpu"))["key-1.calls"], 4);
      assert.equal((await used(limiter))["key-1.rpm"], 1);
      await limiter.acquire({ ...GPT, also: { gpu: {} } });
      assert.equal((await used(limiter, "key-1", "gpu"))["key-1.calls"], 5);
    },
  );

  story(
    "what limits count now counts for the next request; a lease goes by those of its take",
    async (limiter, clock) => {
      const lease = await limiter.acquire({ ...GPT, consume: { tpm: 100 } });
      const [rpm, tpm, month, usd] = PROJECT as [Limit, Limit, Limit, Limit];
      await limiter.setLimits("proj-1", [rpm, tpm, { ...month, counts: "usd" }, usd]);
      limiter.invalidateCache();
      await clock.advance(1);
      assert.equal((await used(limiter))["proj-1.month"], 100);
      await lease.adjust({ tpm: 50 });
      assert.equal((await used(limiter))["proj-1.month"], 150);
      await limiter.acquire({ ...GPT, consume: { tpm: 1_000, usd: 3 } });
      assert.equal((await used(limiter))["proj-1.month"], 153);
      const [project] = await limiter.listBuckets({ entityId: "proj-1" });
      assert.deepEqual(
        project?.limits.map(({ limit, counts }) => [limit, counts]),
        [
          ["rpm", "requests"],
          ["tpm", "tpm"],
          ["month", "usd"],
          ["usd", "usd"],
        ],
      );
      await lease.rollback();
      assert.equal((await used(limiter))["proj-1.month"], 3);
    },
  );

  story("usage and purchases go by limit", async (limiter) => {
    await limiter.acquire({ ...GPT, consume: { tpm: 500 } });
    const { total } = await limiter.usageSummary({ entityId: "proj-1", window: "hourly" });
    assert.deepEqual(total, { rpm: 1, tpm: 500, month: 500 });
    await limiter.topUp({ entityId: "proj-1", resource: "gpt-4", amounts: { month: 10 } });
    await assert.rejects(
      limiter.topUp({ entityId: "proj-1", resource: "gpt-4", amounts: { requests: 1 } }),
      code("limit_unknown"),
    );
    const month = (await limiter.available(GPT)).find(({ limit }) => limit === "month");
    assert.deepEqual([month?.available, month?.capacity], [1_510, 2_010]);
  });

  story("a stored lease is charged, settled and given back by measure", async (limiter) => {
    const storedLeases = new StoredLeases(limiter, {
      holdMs: 60_000,
      holdMaxMs: 60_000,
      onExpiry: "charge",
      onChange: () => {},
    });
    const { lease } = await storedLeases.acquire({ ...GPT, consume: { tpm: 500, usd: 1 } });
    const id = lease.leaseId as string;
    assert.deepEqual(lease.consumed, { tpm: 500, requests: 1, usd: 1 });
    assert.deepEqual(lease.limits.find(({ limit }) => limit === "month")?.counts, "tpm");
    await storedLeases.adjust(id, { delta: { tpm: 100, usd: -1 } });
    await storedLeases.consume(id, { amounts: { usd: 4 } });
    await storedLeases.release(id, { amounts: { requests: 1 } });
    await assert.rejects(storedLeases.settle(id, { consumed: { month: 1 } }), code("limit_unknown"));
    assert.deepEqual((await storedLeases.get(id)).consumed, { tpm: 600, requests: 0, usd: 4 });
    const settled = await storedLeases.settle(id, { consumed: { tpm: 730, usd: 3 } });
    assert.deepEqual(settled.consumed, { tpm: 730, requests: 0, usd: 3 });
    assert.deepEqual(await used(limiter), {
      ...{ "key-1.tpm": 730, "proj-1.tpm": 730, "proj-1.month": 730, "proj-1.usd": 3 },
    });
    const second = await storedLeases.acquire({ entityId: "key-1", resource: "gpt-4" });
    assert.deepEqual(second.lease.consumed, { requests: 1 });
    await storedLeases.rollback(second.lease.leaseId as string);
    assert.equal((await used(limiter))["key-1.rpm"], undefined);
  });

  test(`${name}: a hard limit that a request leaves out is refused where that was asked for`, async (t) => {
    const clock = new SimulatedClock(T0);
    const limiter = await openFamily(open(clock, t), clock, { unnamedLimits: "refuse" });
    await assert.rejects(limiter.acquire({ ...GPT, consume: { tpm: 5 } }), {
      code: "measure_missing",
      message: /does not say how much usd it uses: the limit usd of proj-1 counts it/,
    });
    await assert.rejects(limiter.explain({ ...GPT, consume: { tpm: 5 } }), code("measure_missing"));
    await assert.rejects(limiter.timeUntilAvailable({ ...GPT, consume: { tpm: 5 } }), code("measure_missing"));
    const lease = await limiter.acquire({ ...GPT, consume: { tpm: 5, usd: 0 } });
    await lease.consume({ tpm: 1 });
    await limiter.setAccess({ entityId: "proj-1" }, "bypass");
    await limiter.acquire({ ...GPT, consume: { tpm: 5 } });
    await assert.rejects(limiter.acquire(GPT), code("measure_missing"));
    assert.equal((await used(limiter))["key-1.rpm"], 2);
    await limiter.close();
  });
}

test("a request may leave consume out only where something counts requests", async () => {
  const limiter = await RateLimiter.open({ store: "memory", clock: new SimulatedClock(T0) });
  await limiter.setResourceDefaults("api", [Limit.perMinute("n", 5)]);
  await limiter.setResourceDefaults("web", [Limit.perMinute("requests", 5), Limit.perMinute("bytes", 5)]);
  const ask = { entityId: "a", resource: "api" };
  for (const consume of [undefined, {}, { requests: 1 }]) {
    const request = consume === undefined ? ask : { ...ask, consume };
    for (const attempt of [() => limiter.acquire(request), async () => limiter.tryAcquireSync(request)]) {
      await assert.rejects(attempt, { code: "consume_empty", message: /measures: n\./ });
    }
  }
  await limiter.acquire({ entityId: "a", resource: "web" });
  await limiter.acquire({ entityId: "a", resource: "web", consume: {} });
  const lease = await limiter.acquire({ entityId: "a", resource: "web", consume: { bytes: 1 } });
  assert.deepEqual(await used(limiter, "a", "web"), { "a.requests": 3, "a.bytes": 1 });
  await assert.rejects(lease.consume({}), code("consume_empty"));
  assert.equal(await limiter.timeUntilAvailable({ entityId: "a", resource: "web", consume: { requests: 3 } }), 12_000);
  await limiter.close();
});

test("limits in a request say what they count, and stand in for those of the entity alone", async () => {
  const clock = new SimulatedClock(T0);
  const limiter = await openFamily({ store: openMemory(), options: {} }, clock);
  const limits = [Limit.perMinute("calls", 2, { counts: "requests" })];
  await limiter.acquire({ ...GPT, limits });
  const consume: Record<string, number> = { tpm: 5 };
  await limiter.acquire({ ...GPT, limits, consume });
  assert.equal((await limiter.tryAcquire({ ...GPT, limits })).ok, false);
  const project = (await limiter.available(GPT)).filter(({ entityId }) => entityId === "proj-1");
  assert.deepEqual(
    project.map(({ limit, capacity, available }) => [limit, capacity - available]),
    [
      ["rpm", 2],
      ["tpm", 5],
      ["month", 5],
      ["usd", 0],
    ],
  );
  await limiter.close();
});

test("whoever misses a limit that those of the entity or its plan hide is told what hides it", async () => {
  const limiter = await RateLimiter.open({ store: openMemory(), clock: new SimulatedClock(T0) });
  await limiter.setResourceDefaults("gpt-4", KEY);
  await limiter.createPlan({ id: "gold" });
  await limiter.setPlanLimits("gold", [Limit.perDay("gpd", 5)]);
  await limiter.createEntity({ id: "of-gold", planId: "gold" });
  await limiter.setLimits("alone", [Limit.perDay("apd", 5)]);
  const toldTo = (entityId: string, measure: string) =>
    limiter.acquire({ entityId, resource: "gpt-4", consume: { [measure]: 1 } }).then(
      () => assert.fail("granted"),
      (error: ValidationError) => error.message,
    );
  assert.match(
    await toldTo("alone", "tpm"),
    /measures: apd\. alone has limits of its own instead of those of gpt-4, unless they inherit\. Set a limit/,
  );
  assert.match(await toldTo("of-gold", "tpm"), /of-gold has the limits of its plan instead of those of gpt-4, unless/);
  assert.doesNotMatch(await toldTo("key-1", "usd"), /instead of/);
  await limiter.setLimits("alone", [Limit.perDay("apd", 5)], { inherit: true });
  await limiter.acquire({ entityId: "alone", resource: "gpt-4", consume: { tpm: 1 } });
  await limiter.close();
});
