import assert from "node:assert/strict";
import { describe, type TestContext, test } from "node:test";
import { ExistsError, NotFoundError, RateLimiter, ValidationError } from "../../src/entry/index.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { EVERY_STORE } from "./every-store.ts";

const T0 = Date.UTC(2026, 2, 15, 12);

for (const [name, openStore] of EVERY_STORE) {
  describe(`an entity that is ensured, on ${name}`, () => {
    async function open(t: TestContext) {
      const clock = new SimulatedClock(T0);
      const { store, options } = openStore(clock, t);
      const limiter = await RateLimiter.open({ store, clock, ...options });
      const created = async () =>
        (await limiter.auditEvents({ entityId: "key-1" })).events.filter(({ action }) => action === "entity_created")
          .length;
      return { limiter, clock, created };
    }

    test("a program that starts again neither fails nor undoes what an operator changed", async (t) => {
      const { limiter, clock, created } = await open(t);
      await limiter.ensureEntity({ id: "proj-1" });
      const first = await limiter.ensureEntity({ id: "key-1", parentId: "proj-1", name: "Key" }, { principal: "boot" });
      assert.deepEqual([first.parentId, first.cascade, first.name], ["proj-1", true, "Key"]);
      await clock.advance(1_000);
      const moved = await limiter.updateEntity("key-1", { name: "Renamed", cascade: false });
      await clock.advance(1_000);
      const again = await limiter.ensureEntity({ id: "key-1", parentId: "proj-1", name: "Key" });
      assert.deepEqual(again, moved);
      assert.equal(await created(), 1);
      await assert.rejects(limiter.createEntity({ id: "key-1" }), ExistsError);
    });

    test("of several that start at once one creates it, and all have the same", async (t) => {
      const { limiter, created } = await open(t);
      const all = await Promise.all([1, 2, 3, 4].map((n) => limiter.ensureEntity({ id: "key-1", name: `of ${n}` })));
      for (const one of all) assert.deepEqual(one, all[0]);
      assert.equal(await created(), 1);
    });

    test("a plan is ensured alike: of several starts at once one creates it, and an operator's change stays", async (t) => {
      const { limiter } = await open(t);
      const all = await Promise.all([1, 2, 3].map((n) => limiter.ensurePlan({ id: "gold", name: `of ${n}` })));
      for (const one of all) assert.deepEqual(one, all[0]);
      const renamed = await limiter.updatePlan("gold", { name: "Gold" });
      assert.deepEqual(await limiter.ensurePlan({ id: "gold", name: "again" }), renamed);
      await assert.rejects(limiter.createPlan({ id: "gold" }), ExistsError);
      await assert.rejects(limiter.ensurePlan({ id: "gold", name: 7 as never }), ValidationError);
    });

    test("what is wrong is refused whether or not the entity is there", async (t) => {
      const { limiter } = await open(t);
      await assert.rejects(limiter.ensureEntity({ id: "key-1", parentId: "nobody" }), NotFoundError);
      await limiter.ensureEntity({ id: "key-1" });
      await assert.rejects(limiter.ensureEntity({ id: "key-1", name: 7 as never }), ValidationError);
      await assert.rejects(limiter.ensureEntity({ id: "key-1", parent: "x" } as never), { code: "option_unknown" });
    });
  });
}
