import assert from "node:assert/strict";
import { describe, type TestContext, test } from "node:test";
import {
  ConflictError,
  ExistsError,
  Limit,
  NotFoundError,
  RateLimiter,
  ValidationError,
} from "../../src/entry/index.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { EVERY_STORE } from "./every-store.ts";

const T0 = Date.UTC(2026, 5, 15, 10);
const rpm = (rate: number) => [Limit.perMinute("rpm", rate)];
const ask = (entityId: string, amount = 1) => ({ entityId, resource: "gpt-4", consume: { rpm: amount } });

for (const [name, openStore] of EVERY_STORE) {
  describe(`plans and levels: ${name}`, () => {
    const open = async (t: TestContext) => {
      const clock = new SimulatedClock(T0);
      const { store, options } = openStore(clock, t);
      const limiter = await RateLimiter.open({ store, clock, ...options });
      t.after(() => limiter.close());
      return { limiter, clock };
    };

    test("a price change is one write, and reaches every entity of the plan", async (t) => {
      const { limiter } = await open(t);
      await limiter.createPlan({ id: "gold", name: "Gold", metadata: { price: "10" } });
      assert.equal(await limiter.setPlanLimits("gold", rpm(10)), true);
      await limiter.createEntity({ id: "a", planId: "gold" });
      await limiter.createEntity({ id: "b" });
      await limiter.updateEntity("b", { planId: "gold" });
      for (const id of ["a", "b"]) await limiter.acquire(ask(id, 10));
      assert.equal((await limiter.tryAcquire(ask("a"))).ok, false);
      await limiter.setPlanLimits("gold", rpm(60));
      for (const id of ["a", "b"]) {
        const [held] = await limiter.available({ entityId: id, resource: "gpt-4" });
        assert.equal(held?.capacity, 60);
      }
      await limiter.updateEntity("b", { planId: null });
      await assert.rejects(limiter.tryAcquire(ask("b")), { code: "limits_missing" });
      assert.deepEqual(
        (await limiter.listEntities({ planId: "gold" })).map(({ id }) => id),
        ["a"],
      );
    });

    test("the plan, but rpm 500: explain names the level of each limit", async (t) => {
      const { limiter } = await open(t);
      await limiter.createPlan({ id: "gold" });
      await limiter.setPlanLimits("gold", [...rpm(10), Limit.perMinute("tpm", 1000)]);
      await limiter.createEntity({ id: "a", planId: "gold" });
      await limiter.setLimits("a", rpm(500), { inherit: true });
      const { limits, source, sources } = await limiter.resolveLimits("a", "gpt-4");
      assert.deepEqual(
        limits.map((limit) => [limit.name, limit.capacity]),
        [
          ["rpm", 500],
          ["tpm", 1000],
        ],
      );
      assert.equal(source, "entityDefault");
      assert.deepEqual(sources, { rpm: "entityDefault", tpm: "planDefault" });
      await limiter.acquire({ ...ask("a", 400), consume: { rpm: 400, tpm: 900 } });
      const { levels } = await limiter.explain({ entityId: "a", resource: "gpt-4" });
      assert.equal(levels[0]?.planId, "gold");
      assert.deepEqual(
        levels[0]?.limits.map((limit) => [limit.limit, limit.source, limit.available]),
        [
          ["rpm", "entityDefault", 100],
          ["tpm", "planDefault", 100],
        ],
      );
    });

    test("defaults for callers do not cap a parent, which has them when it asks itself", async (t) => {
      const { limiter } = await open(t);
      await limiter.setResourceDefaults("gpt-4", rpm(10), { appliesTo: "callers" });
      await limiter.createEntity({ id: "org" });
      for (let i = 0; i < 3; i++) {
        await limiter.createEntity({ id: `key-${i}`, parentId: "org" });
        await limiter.acquire(ask(`key-${i}`, 10));
        assert.equal((await limiter.tryAcquire(ask(`key-${i}`))).ok, false);
      }
      const explained = await limiter.explain({ entityId: "key-0", resource: "gpt-4" });
      assert.deepEqual(explained.levels[1]?.limits, []);
      assert.match(explained.levels[1]?.reason ?? "", /org on gpt-4 \(rpm, from the level resource\).*callers only/);
      assert.deepEqual(
        (await limiter.available({ entityId: "key-0", resource: "gpt-4" })).map(({ entityId }) => entityId),
        ["key-0"],
      );
      await limiter.acquire(ask("org", 10));
      assert.equal((await limiter.tryAcquire(ask("org"))).ok, false);
    });

    test("of a parent only what is for everyone is charged, adjusted, given back and shown", async (t) => {
      const { limiter } = await open(t);
      await limiter.setResourceDefaults("gpt-4", [...rpm(10), Limit.perMinute("tpm", 100)], { appliesTo: "callers" });
      await limiter.createEntity({ id: "org" });
      await limiter.createEntity({ id: "key", parentId: "org" });
      await limiter.setLimits("org", [Limit.perMinute("tpm", 150)], { inherit: true });
      const held = async () =>
        Object.fromEntries(
          (await limiter.available({ entityId: "key", resource: "gpt-4" })).map((one) => [
            `${one.entityId}.${one.limit}`,
            one.available,
          ]),
        );
      const lease = await limiter.acquire({ ...ask("key", 4), consume: { rpm: 4, tpm: 50 } });
      assert.deepEqual(
        lease.remaining.map(({ entityId, limit }) => `${entityId}.${limit}`),
        ["key.rpm", "key.tpm", "org.tpm"],
      );
      assert.deepEqual(await held(), { "key.rpm": 6, "key.tpm": 50, "org.tpm": 100 });
      await lease.adjust({ rpm: 1, tpm: -20 });
      assert.deepEqual(await held(), { "key.rpm": 5, "key.tpm": 70, "org.tpm": 120 });
      const refused = await limiter.tryAcquire({ ...ask("key", 6), consume: { rpm: 6, tpm: 1 } });
      assert.ok(!refused.ok);
      assert.deepEqual(
        refused.statuses.map(({ entityId, limit }) => `${entityId}.${limit}`),
        ["key.rpm", "key.tpm", "org.tpm"],
      );
      await lease.rollback();
      assert.deepEqual(await held(), { "key.rpm": 10, "key.tpm": 100, "org.tpm": 150 });
      // Its own bucket has all of them.
      const own = await limiter.available({ entityId: "org", resource: "gpt-4" });
      assert.deepEqual(
        own.map(({ limit, available }) => [limit, available]),
        [
          ["tpm", 150],
          ["rpm", 10],
        ],
      );
    });

    test("levels that do not go together refuse the request and name themselves", async (t) => {
      const { limiter } = await open(t);
      const many = (prefix: string, count: number) =>
        Array.from({ length: count }, (_, i) => Limit.perMinute(`${prefix}${i}`, 1));
      await limiter.setResourceDefaults("gpt-4", many("a", 10));
      await limiter.setLimits("key", many("b", 10), { inherit: true });
      for (const attempt of [
        () => limiter.acquire({ entityId: "key", resource: "gpt-4", consume: { a0: 1 } }),
        () => limiter.explain({ entityId: "key", resource: "gpt-4" }),
        () => limiter.resolveLimits("key", "gpt-4"),
      ]) {
        await assert.rejects(attempt, (error) => {
          assert.ok(error instanceof ValidationError);
          assert.equal(error.code, "limits_too_many");
          assert.match(error.message, /key on gpt-4: .*20 limits.*entityDefault.*resource/);
          return true;
        });
      }
      // It can still be switched off, and mended.
      await limiter.setAccess({ entityId: "key" }, "disabled");
      await limiter.setAccess({ entityId: "key" }, "inherit");
      await limiter.setLimits("key", many("b", 6), { inherit: true });
      await limiter.acquire({ entityId: "key", resource: "gpt-4", consume: { a0: 1, b0: 1 } });
    });

    test("a boot that sets what is there already is no event; one for where none are leaves the operator's", async (t) => {
      const { limiter } = await open(t);
      const actions = async () => (await limiter.auditEvents()).events.map(({ action }) => action);
      assert.equal(await limiter.setResourceDefaults("gpt-4", rpm(100)), true);
      const before = await actions();
      assert.equal(await limiter.setResourceDefaults("gpt-4", rpm(100)), false);
      assert.deepEqual(await actions(), before);
      assert.equal(await limiter.setResourceDefaults("gpt-4", rpm(500)), true);
      assert.equal(await limiter.setResourceDefaults("gpt-4", rpm(100), { ifAbsent: true }), false);
      assert.deepEqual(await limiter.getResourceDefaults("gpt-4"), rpm(500));
      assert.equal(await limiter.setSystemDefaults(rpm(5), { ifAbsent: true, onUnavailable: "allow" }), true);
      assert.equal(await limiter.setSystemDefaults(rpm(6), { ifAbsent: true, onUnavailable: "block" }), false);
      assert.equal((await limiter.getSystemDefaults()).onUnavailable, "allow");
      assert.equal(await limiter.setAccess({ resource: "gpt-4" }, "enforce"), true);
      assert.equal(await limiter.setAccess({ resource: "gpt-4" }, "enforce"), false);
    });

    test("totals are set, read and deleted for an entity, a plan and everybody", async (t) => {
      const { limiter } = await open(t);
      await limiter.createPlan({ id: "gold" });
      assert.equal(await limiter.setTotals("acme", rpm(1)), true);
      assert.equal(await limiter.setTotals("acme", rpm(1)), false);
      assert.equal(await limiter.setPlanTotals("gold", rpm(2), { appliesTo: "callers" }), true);
      assert.equal(await limiter.setSystemTotals(rpm(3), { ifAbsent: true }), true);
      assert.deepEqual(await limiter.getTotals("acme"), rpm(1));
      assert.deepEqual(await limiter.getPlanTotals("gold"), rpm(2));
      assert.deepEqual(await limiter.getSystemTotals(), rpm(3));
      assert.equal(await limiter.deleteTotals("acme"), true);
      assert.equal(await limiter.deleteTotals("acme"), false);
      assert.equal(await limiter.deletePlanTotals("gold"), true);
      assert.equal(await limiter.deleteSystemTotals(), true);
      assert.deepEqual(await limiter.getTotals("acme"), []);
    });

    test("plans that are misspelled, taken, or in use are refused by name", async (t) => {
      const { limiter } = await open(t);
      await limiter.createPlan({ id: "gold" });
      await limiter.createEntity({ id: "a", planId: "gold" });
      const missing = (error: unknown) => error instanceof NotFoundError && error.code === "plan_not_found";
      for (const attempt of [
        () => limiter.getPlan("golf"),
        () => limiter.updatePlan("golf", { name: "x" }),
        () => limiter.deletePlan("golf"),
        () => limiter.setPlanLimits("golf", rpm(1)),
        () => limiter.getPlanLimits("golf"),
        () => limiter.deletePlanLimits("golf", { resource: "gpt-4" }),
        () => limiter.setPlanTotals("golf", rpm(1)),
        () => limiter.getPlanTotals("golf"),
        () => limiter.createEntity({ id: "b", planId: "golf" }),
        () => limiter.updateEntity("a", { planId: "golf" }),
        async () => limiter.listEntities({ planId: "golf" }),
      ]) {
        await assert.rejects(attempt, missing, String(attempt));
      }
      await assert.rejects(
        limiter.createPlan({ id: "gold" }),
        (error) => error instanceof ExistsError && error.code === "plan_exists",
      );
      await assert.rejects(
        limiter.deletePlan("gold"),
        (error) => error instanceof ConflictError && error.code === "plan_in_use" && error.message.includes(" a;"),
      );
      await limiter.deleteEntity("a");
      await limiter.deletePlan("gold");
      await assert.rejects(limiter.createPlan({ id: "a#b" }), { code: "plan_id_invalid" });
      await assert.rejects(limiter.setLimits("a", rpm(1), { appliesTo: "keys" as "callers" }), {
        code: "applies_to_invalid",
      });
    });
  });
}
