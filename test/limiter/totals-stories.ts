import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { CHANNELS, Limit, type RateLimiter, ValidationError } from "../../src/entry/index.ts";
import type { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { heard } from "./listening.ts";

const MODELS = ["gpt-4", "gpt-4o", "claude"];
const usd = (amount: number) => [Limit.quota("usd", amount, { reset: { cron: "0 0 1 * *" } })];

interface Opened {
  readonly limiter: RateLimiter;
  readonly clock: SimulatedClock;
}

/** One budget over all resources, on any store. */
export function tellTotalsStories(openOne: (t: TestContext) => Promise<Opened>): void {
  const open = async (t: TestContext) => {
    const { limiter, clock } = await openOne(t);
    const spend = (entityId: string, resource: string, amount: number) =>
      limiter.tryAcquire({ entityId, resource, consume: { usd: amount } });
    const left = async (entityId: string) => (await limiter.available({ entityId, resource: "*" }))[0]?.available;
    return { limiter, clock, spend, left };
  };

  test("a budget of 100 over three models is 100, whichever of them asks", async (t) => {
    const { limiter, spend, left } = await open(t);
    await limiter.setTotals("acme", usd(100));
    for (const model of MODELS) assert.equal((await spend("acme", model, 33)).ok, true);
    const refused = await spend("acme", "claude", 2);
    assert.ok(!refused.ok);
    const { entityId, resource, limit, available } = refused.primary;
    assert.deepEqual([entityId, resource, limit, available], ["acme", "*", "usd", 1]);
    assert.equal((await spend("acme", "gpt-4", 1)).ok, true);
    assert.equal(await left("acme"), 0);
  });

  test("those below that cascade are charged to the totals of every level above", async (t) => {
    const { limiter, spend, left } = await open(t);
    await limiter.setResourceDefaults("gpt-4", [Limit.perMinute("rpm", 10, { counts: "requests" })]);
    await limiter.createEntity({ id: "acme" });
    await limiter.createEntity({ id: "key", parentId: "acme" });
    await limiter.setTotals("acme", usd(10));
    await limiter.setTotals("key", usd(6));
    assert.equal((await spend("key", "gpt-4", 5)).ok, true);
    assert.equal((await spend("key", "gpt-4o", 2)).ok, false);
    assert.deepEqual([await left("key"), await left("acme")], [1, 5]);
    const { levels } = await limiter.explain({ entityId: "key", resource: "gpt-4" });
    assert.deepEqual(
      levels.map(({ totals }) => totals.map(({ limit, available, source }) => [limit, available, source])),
      [[["usd", 1, "entityTotal"]], [["usd", 5, "entityTotal"]]],
    );
    assert.deepEqual(
      (await limiter.available({ entityId: "key", resource: "gpt-4" })).map(
        (one) => `${one.entityId} ${one.resource}/${one.limit}`,
      ),
      ["key gpt-4/rpm", "key */usd", "acme gpt-4/rpm", "acme */usd"],
    );
  });

  test("a request with also charges a total the sum, and one request", async (t) => {
    const { limiter, left } = await open(t);
    const events = heard(t, CHANNELS.acquired);
    await limiter.setTotals("acme", [...usd(100), Limit.perDay("calls", 50, { counts: "requests" })]);
    const lease = await limiter.acquire({
      ...{ entityId: "acme", resource: "gpt-4", consume: { usd: 7 } },
      also: { gpu: { usd: 5 }, net: { usd: 1, requests: 3 } },
    });
    const held = async () => (await limiter.available({ entityId: "acme", resource: "*" })).map((one) => one.available);
    assert.deepEqual(await held(), [87, 49]);
    assert.deepEqual(
      events.filter(({ role }) => role === "total").map(({ resource, consumed }) => ({ resource, consumed })),
      [{ resource: "*", consumed: { usd: 13, calls: 1 } }],
    );
    await lease.adjust({ usd: 3 });
    await lease.resource("gpu").adjust({ usd: -4 });
    assert.equal(await left("acme"), 88);
    await lease.settle({ usd: 2 }, { also: { net: { usd: 0 } } });
    assert.equal(await left("acme"), 97);
    const [total] = await limiter.usage({ entityId: "acme", resource: "*", window: "hourly" });
    assert.deepEqual([total?.counters.usd, total?.requests], [3, 1]);
  });

  test("requests of a further resource count there and at its parents, and never in a total", async (t) => {
    const { limiter } = await open(t);
    const requests = (name: string) => [Limit.perDay(name, 50, { counts: "requests" })];
    await limiter.createEntity({ id: "acme" });
    await limiter.createEntity({ id: "key", parentId: "acme" });
    await limiter.setLimits("acme", requests("rpd"), { resource: "gpu" });
    await limiter.setTotals("key", requests("calls"));
    const lease = await limiter.acquire({ entityId: "key", resource: "gpt-4", also: { gpu: {} } });
    const held = async () =>
      (await limiter.available({ entityId: "key", resource: "gpu" })).map(({ limit, available }) => [limit, available]);
    assert.deepEqual([lease.consumed, lease.resource("gpu").consumed], [{ requests: 1 }, { requests: 1 }]);
    assert.deepEqual(await held(), [
      ["calls", 49],
      ["rpd", 49],
    ]);
    await lease.resource("gpu").adjust({ requests: 2 });
    await lease.settle({}, { also: { gpu: { requests: 5 } } });
    assert.deepEqual(await held(), [
      ["calls", 49],
      ["rpd", 45],
    ]);
    // A resource on which only the total counts: its request is that of the first.
    const further = { entityId: "key", resource: "gpt-4", also: { net: {} } };
    assert.deepEqual((await limiter.acquire(further)).resource("net").consumed, {});
    await limiter.setLimits("key", [Limit.perDay("bytes", 9)], { resource: "net" });
    await limiter.acquire({ ...further, also: { net: { requests: 1 } } });
    assert.deepEqual((await held())[0], ["calls", 47]);
    await assert.rejects(limiter.acquire({ ...further, entityId: "other" }), { code: "limits_missing" });
  });

  test("a rollback gives totals back, and a refusal by a total takes nothing from a level", async (t) => {
    const { limiter, spend, left } = await open(t);
    await limiter.setLimits("acme", [Limit.perDay("usd", 50)]);
    await limiter.setTotals("acme", usd(20));
    const lease = await limiter.acquire({ entityId: "acme", resource: "gpt-4", consume: { usd: 15 } });
    assert.equal((await spend("acme", "gpt-4", 10)).ok, false);
    const [own] = await limiter.available({ entityId: "acme", resource: "gpt-4" });
    assert.equal(own?.available, 35);
    await lease.rollback();
    assert.equal(await left("acme"), 20);
  });

  test("plan and system have totals for who has none, and those for callers do not cap a parent", async (t) => {
    const { limiter, spend, left } = await open(t);
    await limiter.createPlan({ id: "gold" });
    await limiter.setPlanTotals("gold", usd(5), { appliesTo: "callers" });
    await limiter.setSystemTotals(usd(3));
    await limiter.createEntity({ id: "org", planId: "gold" });
    await limiter.createEntity({ id: "key", parentId: "org" });
    assert.equal((await spend("org", "gpt-4", 4)).ok, true);
    // The organisation's are for callers; the key has those of the system.
    assert.equal((await spend("key", "gpt-4", 3)).ok, true);
    assert.deepEqual([await left("org"), await left("key")], [1, 0]);
    assert.equal((await spend("key", "claude", 1)).ok, false);
  });

  test("what is bypassed does not reach the total, and what comes back has what it had", async (t) => {
    const { limiter, spend, left } = await open(t);
    await limiter.setTotals("acme", usd(10));
    await spend("acme", "gpt-4", 4);
    await limiter.setAccess({ entityId: "acme", resource: "gpt-4" }, "bypass");
    await limiter.setResourceDefaults("gpt-4", [Limit.perDay("usd", 1_000)]);
    assert.equal((await spend("acme", "gpt-4", 900)).ok, true);
    assert.equal(await left("acme"), 6);
    const { total, requests } = await limiter.usageSummary({ entityId: "acme", resource: "*", window: "hourly" });
    assert.deepEqual([total.usd, requests], [4, 1]);
    await limiter.deleteTotals("acme");
    await assert.rejects(async () => left("acme"), { code: "limits_missing" });
    await limiter.setTotals("acme", usd(10));
    assert.equal(await left("acme"), 6);
  });

  test("an entity that is deleted takes its total with it, and made anew begins full", async (t) => {
    const { limiter, spend, left } = await open(t);
    await limiter.setSystemTotals(usd(10));
    await limiter.createEntity({ id: "acme" });
    assert.equal((await spend("acme", "gpt-4", 7)).ok, true);
    await limiter.deleteEntity("acme");
    await limiter.createEntity({ id: "acme" });
    assert.equal(await left("acme"), 10);
  });

  test("sums over all resources leave totals out, and operations take the asterisk", async (t) => {
    const { limiter, spend, left } = await open(t);
    await limiter.setSystemDefaults([Limit.perDay("usd", 1_000)]);
    await limiter.setTotals("acme", usd(10));
    for (const model of MODELS) await spend("acme", model, 2);
    const summary = await limiter.usageSummary({ entityId: "acme", window: "hourly" });
    assert.deepEqual([summary.total.usd, summary.requests], [6, 3]);
    assert.equal((await limiter.usageSummary({ entityId: "acme", resource: "*", window: "hourly" })).total.usd, 6);
    await limiter.topUp({ entityId: "acme", resource: "*", amounts: { usd: 5 } });
    assert.equal(await left("acme"), 9);
    await limiter.resetBucket({ entityId: "acme", resource: "*" });
    assert.equal(await left("acme"), 10);
    const listed = await limiter.listBuckets({ entityId: "acme", resource: "*" });
    assert.deepEqual(
      listed.map(({ resource, limits }) => [resource, limits.map(({ limit }) => limit)]),
      [["*", ["usd"]]],
    );
    for (const wrong of [
      () => limiter.acquire({ entityId: "acme", resource: "*", consume: { usd: 1 } }),
      () => limiter.setLimits("acme", usd(1), { resource: "*" }),
      () => limiter.setResourceDefaults("*", usd(1)),
      () => limiter.setAccess({ entityId: "acme", resource: "*" }, "disabled"),
      () => limiter.acquire({ entityId: "acme", resource: "gpt-4", consume: { usd: 1 }, also: { "*": { usd: 1 } } }),
    ]) {
      await assert.rejects(
        async () => wrong(),
        (error: Error) => error instanceof ValidationError && error.code === "resource_invalid",
      );
    }
  });

  test("a total that is lowered counts from when it was", async (t) => {
    const { limiter, clock, left } = await open(t);
    await limiter.setTotals("acme", [Limit.perMinute("tpm", 6_000)]);
    await limiter.acquire({ entityId: "acme", resource: "gpt-4", consume: { tpm: 6_000 } });
    await clock.advance(1);
    await limiter.setTotals("acme", [Limit.perMinute("tpm", 10, { burst: 6_000 })]);
    await clock.advance(60_000);
    const held = await left("acme");
    assert.ok(held !== undefined && held <= 11, `${held}`);
  });

  test("totals are shown where limits on resources that nobody asks for do not go together", async (t) => {
    const { limiter, left } = await open(t);
    const inZone = (tz: string) => [Limit.quota(tz === "UTC" ? "day" : "usd", 9, { reset: { cron: "daily", tz } })];
    await limiter.setSystemDefaults(inZone("UTC"));
    await limiter.setLimits("acme", inZone("Europe/Berlin"), { inherit: true });
    await limiter.setLimits("acme", usd(9), { resource: "gpt-4" });
    await limiter.setTotals("acme", usd(20));
    await limiter.acquire({ entityId: "acme", resource: "gpt-4", consume: { usd: 8 } });
    assert.equal(await left("acme"), 12);
  });

  test("soft totals are named among what is overdrawn", async (t) => {
    const { limiter } = await open(t);
    await limiter.createEntity({ id: "org" });
    await limiter.createEntity({ id: "key", parentId: "org" });
    await limiter.setTotals("key", [Limit.perDay("day", 1, { counts: "tpm", soft: true })]);
    await limiter.setTotals("org", [Limit.perDay("day", 1, { counts: "tpm", soft: true })]);
    const lease = await limiter.acquire({ entityId: "key", resource: "gpt-4", consume: { tpm: 5 } });
    assert.deepEqual(lease.overdrawn, ["*/day", "*/day^1"]);
  });
}
