import assert from "node:assert/strict";
import { test } from "node:test";
import { isHistoryOnly } from "../../src/adapters/dynamodb/config-codec.ts";
import { StoreRefused } from "../../src/adapters/dynamodb/errors.ts";
import { planPk } from "../../src/adapters/dynamodb/schema.ts";
import type { ConfigScope } from "../../src/domain/config/config.ts";
import { newEntity } from "../../src/domain/config/entity.ts";
import { newPlan } from "../../src/domain/config/plan.ts";
import { Limit } from "../../src/domain/limits/limit.ts";
import { ValidationError } from "../../src/domain/names/errors.ts";
import { RateLimiter } from "../../src/entry/rate-limiter.ts";
import { T0, type TestedNamespace } from "../kit/contract-kit.ts";
import { describeDynamo } from "./dynamodb-local.ts";
import { cutOffAfter, newGround } from "./store-kit.ts";

const rpm = (rate: number) => [Limit.perMinute("rpm", rate)];
const GOLD: ConfigScope = { level: "planDefault", planId: "gold" };

const removePlan = async (place: TestedNamespace, id: string) =>
  place.scope.plans.delete(id, place.event("plan_deleted", `$PLAN:${id}`));

await describeDynamo("plans in the table", (dynamodb) => {
  test("an entity with a plan is read in two calls at first, and from then on in one", async (t) => {
    const ground = await newGround(dynamodb, t);
    await ground.place.createPlan({ id: "gold" });
    await ground.place.set(GOLD, rpm(7));
    await ground.place.create({ id: "a", planId: "gold" });
    const { place, wire } = await ground.another();
    assert.deepEqual(await wire.during(() => place.resolve("nobody", "api")), ["BatchGetItem"]);
    assert.deepEqual(await wire.during(() => place.resolve("a", "api")), ["BatchGetItem", "BatchGetItem"]);
    assert.deepEqual(await wire.during(() => place.resolve("a", "api")), ["BatchGetItem"]);
    assert.deepEqual(await wire.during(() => place.resolve("a", "other")), ["BatchGetItem"]);
    // Another process gives it another plan, and none: the guess was wrong, and the answer is right.
    await ground.place.createPlan({ id: "silver" });
    await ground.place.set({ level: "planDefault", planId: "silver" }, rpm(3));
    const give = (planId: string | null) =>
      ground.place.scope.entities.update(
        "a",
        { patch: { planId }, version: undefined, nowMs: T0 },
        ground.place.event("entity_updated", "a"),
      );
    await give("silver");
    assert.deepEqual((await place.resolve("a", "api")).limits, rpm(3));
    await give(null);
    assert.equal((await place.resolve("a", "api")).source, "none");
    assert.deepEqual(await wire.during(() => place.resolve("a", "api")), ["BatchGetItem"]);
  });

  test("another plan of an entity, and its totals, are announced on its live buckets", async (t) => {
    const ground = await newGround(dynamodb, t);
    const other = await ground.another();
    const writer = await RateLimiter.open({ store: ground.store });
    const reader = await RateLimiter.open({ store: other.store });
    for (const [id, rate] of [
      ["gold", 10],
      ["silver", 3],
    ] as const) {
      await writer.createPlan({ id });
      await writer.setPlanLimits(id, rpm(rate));
    }
    await writer.createEntity({ id: "a", planId: "gold" });
    const request = { entityId: "a", resource: "api", consume: { rpm: 2 } };
    const capacity = async () => (await reader.acquire(request)).remaining[0]?.capacity;
    assert.equal(await capacity(), 10);
    await writer.updateEntity("a", { planId: "silver" });
    assert.equal(await capacity(), 3);
    const calls = await ground.wire.during(() => writer.setTotals("a", rpm(9)));
    assert.ok(calls.includes("UpdateItem"), calls.join());
  });

  test("an entity that comes to a plan between the look and the deletion keeps it", async (t) => {
    const ground = await newGround(dynamodb, t);
    await ground.place.createPlan({ id: "gold" });
    const { place, wire } = await ground.another();
    let came = false;
    wire.fault = async ({ operation, send }) => {
      if (operation === "TransactWriteItems" && !came) {
        came = true;
        await ground.place.create({ id: "a", planId: "gold" });
      }
      return send();
    };
    assert.deepEqual(await removePlan(place, "gold"), { kind: "inUse", entityId: "a" });
    assert.ok(came);
    assert.notEqual(await place.scope.plans.get("gold"), undefined);
  });

  test("an entity that finds its plan deleted between the look and its own change does not come", async (t) => {
    const ground = await newGround(dynamodb, t);
    await ground.place.createPlan({ id: "gold" });
    const { place, wire } = await ground.another();
    let gone = false;
    wire.fault = async ({ operation, send }) => {
      if (operation === "TransactWriteItems" && !gone) {
        gone = true;
        assert.deepEqual(await removePlan(ground.place, "gold"), { kind: "deleted" });
      }
      return send();
    };
    const entity = newEntity({ id: "a", planId: "gold" }, T0);
    const reply = await place.scope.entities.create(entity, place.event("entity_created", "a"));
    assert.deepEqual(reply, { kind: "planMissing", planId: "gold" });
    assert.equal(await place.scope.entities.get("a"), undefined);
  });

  test("a deletion that is cut off anywhere has deleted the plan for everybody, or not at all", async (t) => {
    const ground = await newGround(dynamodb, t);
    for (let calls = 1; calls < 20; calls++) {
      await ground.place.createPlan({ id: "gold" });
      await ground.place.set(GOLD, rpm(1));
      await ground.place.set({ level: "planTotal", planId: "gold" }, rpm(2));
      const cut = await ground.another();
      cut.wire.fault = cutOffAfter(calls);
      const error = await removePlan(cut.place, "gold").then(
        () => undefined,
        (thrown: unknown) => thrown,
      );
      if (error !== undefined) assert.ok(error instanceof StoreRefused, String(error));
      const { place, records, namespaceId } = await ground.another();
      const isThere = (await place.scope.plans.get("gold")) !== undefined;
      assert.equal((await place.scope.plans.list({ limit: 10 })).items.length, isThere ? 1 : 0);
      assert.equal((await place.scope.config.get(GOLD)) !== undefined, isThere);
      assert.equal((await place.scope.manifests.listConfigs({}, { limit: 10 })).items.length, isThere ? 2 : 0);
      if (!isThere) assert.equal(await place.set(GOLD, rpm(5)), "planMissing");
      if (isThere) assert.deepEqual(await removePlan(place, "gold"), { kind: "deleted" });
      // Whoever makes it anew clears up first.
      const again = newPlan({ id: "gold" }, T0);
      assert.deepEqual(await place.scope.plans.create(again, place.event("plan_created", "$PLAN:gold")), {
        kind: "created",
      });
      assert.equal(await place.scope.config.get(GOLD), undefined);
      await removePlan(place, "gold");
      // What its limits said stays, for entities that had it; nothing else does.
      const left = records.query({ partition: planPk(namespaceId, "gold") });
      for await (const item of left) assert.ok(isHistoryOnly(item), JSON.stringify(item));
      if (error === undefined) return;
    }
    assert.fail("never got through");
  });

  test("a table shared with the original refuses what the original would not go by, and keeps nothing of it", async (t) => {
    const { place, wire } = await newGround(dynamodb, t, { shared: true });
    const refused = (error: unknown) => error instanceof ValidationError && error.code === "shared_table";
    const event = place.event("plan_created", "$PLAN:gold");
    const calls = await wire.during(async () => {
      for (const attempt of [
        async () => place.scope.plans.create(newPlan({ id: "gold" }, T0), event),
        async () => place.set(GOLD, rpm(1)),
        async () => place.set({ level: "plan", planId: "gold", resource: "api" }, rpm(1)),
        async () => place.set({ level: "entityTotal", entityId: "a" }, rpm(1)),
        async () => place.set({ level: "systemTotal" }, rpm(1)),
        async () => place.set({ level: "resource", resource: "api" }, rpm(1), { inherit: true }),
        async () => place.set({ level: "resource", resource: "api" }, rpm(1), { appliesTo: "callers" }),
      ]) {
        await assert.rejects(attempt, refused, String(attempt));
      }
    });
    assert.deepEqual(calls, []);
    await assert.rejects(
      async () => place.scope.entities.create(newEntity({ id: "a", planId: "gold" }, T0), event),
      refused,
    );
    // What the original knows is read as ever: four levels and the entity.
    await wire.during(() => place.resolve("a", "api"));
    assert.ok(!JSON.stringify(wire.calls).includes("#TOTAL"));
  });
});
