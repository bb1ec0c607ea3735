import assert from "node:assert/strict";
import type { ConfigScope } from "../../src/domain/config/config.ts";
import { newEntity } from "../../src/domain/config/entity.ts";
import { newPlan } from "../../src/domain/config/plan.ts";
import { Limit } from "../../src/domain/limits/limit.ts";
import type { PageRequest } from "../../src/domain/names/paging.ts";
import { type Suite, samePaged, T0, TestedNamespace } from "./contract-kit.ts";

const GOLD: ConfigScope = { level: "planDefault", planId: "gold" };
const GOLD_ON_API: ConfigScope = { level: "plan", planId: "gold", resource: "api" };
const GOLD_TOTAL: ConfigScope = { level: "planTotal", planId: "gold" };

const rpm = (rate: number) => [Limit.perMinute("rpm", rate)];

/** Plans: what entities refer to is there, and goes with its limits. */
export function planContract(suite: Suite): void {
  suite.test("a plan comes back as it was made, is changed, and is made once", async (place) => {
    const { plans } = place.scope;
    const plan = await place.createPlan({ id: "gold", name: "Gold", metadata: { price: "10" } });
    assert.deepEqual(await plans.get("gold"), plan);
    assert.equal(await plans.get("gol"), undefined);
    const again = newPlan({ id: "gold" }, T0);
    assert.deepEqual(await plans.create(again, place.event("plan_created", "$PLAN:gold")), { kind: "exists" });
    const change = { patch: { name: "Golden" }, version: 1, nowMs: T0 + 5 };
    const updated = { ...plan, name: "Golden", version: 2, updatedAtMs: T0 + 5 };
    const event = place.event("plan_updated", "$PLAN:gold");
    assert.deepEqual(await plans.update("gold", change, event), { kind: "updated", plan: updated });
    assert.deepEqual(await plans.update("gold", change, event), { kind: "conflict", version: 2 });
    assert.deepEqual(await plans.update("nope", change, event), { kind: "missing" });
    assert.deepEqual(await plans.get("gold"), updated);
  });

  suite.test("plans are listed by id, and the entities of a plan by theirs", async (place) => {
    for (const id of ["silver", "gold", "gold2"]) await place.createPlan({ id });
    await place.create({ id: "b", planId: "gold" });
    await place.create({ id: "a", planId: "gold" });
    await place.create({ id: "c", planId: "gold2" });
    await place.create({ id: "d" });
    const { plans } = place.scope;
    const ids = async (page: PageRequest) => {
      const { items, ...rest } = await plans.list(page);
      return { ...rest, items: items.map(({ id }) => id) };
    };
    await samePaged(ids, ["gold", "gold2", "silver"]);
    assert.deepEqual(await entitiesOf(place, "gold"), ["a", "b"]);
    assert.deepEqual(await entitiesOf(place, "gold2"), ["c"]);
    assert.deepEqual(await entitiesOf(place, "silver"), []);
  });

  suite.test("an entity has a plan, another, or none", async (place) => {
    for (const id of ["gold", "silver"]) await place.createPlan({ id });
    const a = await place.create({ id: "a", planId: "gold" });
    assert.deepEqual(await place.scope.entities.get("a"), a);
    assert.equal(a.planId, "gold");
    await giveUpdated(place, "a", "silver");
    assert.deepEqual(await entitiesOf(place, "gold"), []);
    assert.deepEqual(await entitiesOf(place, "silver"), ["a"]);
    assert.equal((await place.resolve("a", "api")).planId, "silver");
    await giveUpdated(place, "a", null);
    assert.deepEqual(await entitiesOf(place, "silver"), []);
    assert.equal((await place.scope.entities.get("a"))?.planId, undefined);
  });

  suite.test("no entity comes to a plan that there is not", async (place) => {
    const { entities } = place.scope;
    const event = place.event("entity_created", "a");
    const missing = { kind: "planMissing", planId: "nope" };
    assert.deepEqual(await entities.create(newEntity({ id: "a", planId: "nope" }, T0), event), missing);
    assert.equal(await entities.get("a"), undefined);
    await place.create({ id: "a" });
    assert.deepEqual(await give(place, "a", "nope"), missing);
  });

  suite.test("a plan is deleted with its limits and totals, once no entity refers to it", async (place) => {
    await place.createPlan({ id: "gold" });
    await place.create({ id: "a", planId: "gold" });
    for (const scope of [GOLD, GOLD_ON_API, GOLD_TOTAL]) await place.set(scope, rpm(1));
    assert.deepEqual(await remove(place, "gold"), { kind: "inUse", entityId: "a" });
    await place.scope.entities.delete("a", place.event("entity_deleted", "a"));
    assert.deepEqual(await remove(place, "gold"), { kind: "deleted" });
    assert.deepEqual(await remove(place, "gold"), { kind: "missing" });
    for (const scope of [GOLD, GOLD_ON_API, GOLD_TOTAL]) {
      assert.equal(await place.scope.config.get(scope), undefined);
      assert.equal(await place.set(scope, rpm(1)), "planMissing");
    }
    // Made again, it has nothing of what it had.
    await place.createPlan({ id: "gold" });
    await place.create({ id: "b", planId: "gold" });
    assert.equal((await place.resolve("b", "api")).source, "none");
  });

  suite.test("a plan that is deleted and an entity that comes to it exclude each other", async (place) => {
    for (let i = 0; i < 8; i++) {
      const planId = `plan-${i}`;
      await place.createPlan({ id: planId });
      await place.create({ id: `old-${i}` });
      const [deleted, ...came] = await Promise.all([
        remove(place, planId),
        place.scope.entities.create(
          newEntity({ id: `new-${i}`, planId }, T0),
          place.event("entity_created", `new-${i}`),
        ),
        give(place, `old-${i}`, planId),
      ]);
      const isThere = (await place.scope.plans.get(planId)) !== undefined;
      assert.equal(isThere, deleted.kind !== "deleted");
      for (const [entityId, reply] of [
        [`new-${i}`, came[0]],
        [`old-${i}`, came[1]],
      ] as const) {
        const has = (await place.scope.entities.get(entityId))?.planId;
        assert.equal(has, reply.kind === "planMissing" ? undefined : planId);
        assert.ok(has === undefined || isThere, `${entityId} refers to ${planId}, which is gone`);
      }
    }
  });

  suite.test("plans, and limits by them, end at their namespace", async (place) => {
    await place.createPlan({ id: "gold" });
    await place.set(GOLD, rpm(3));
    const { store } = place;
    await store.namespaces.register(
      { id: "other-id", name: "other", status: "active", createdAtMs: T0 },
      place.event("namespace_registered", "$NAMESPACE:other"),
      place.namespaceId,
    );
    const other = await TestedNamespace.in(store, "other");
    assert.equal(await other.scope.plans.get("gold"), undefined);
    assert.deepEqual((await other.scope.plans.list({ limit: 10 })).items, []);
    assert.equal(await other.set(GOLD, rpm(3)), "planMissing");
  });

  suite.test("every change of a plan leaves its event", async (place) => {
    await place.createPlan({ id: "gold" });
    await place.scope.config.set(GOLD, { limits: rpm(1) }, place.event("limits_set", "$PLAN:gold"));
    await place.scope.config.set(GOLD, { limits: rpm(1) }, place.event("limits_set", "$PLAN:gold"));
    await remove(place, "gold");
    await remove(place, "gold");
    const { items } = await place.scope.audit.list({ entityId: "$PLAN:gold" }, { limit: 10 });
    assert.deepEqual(
      items.map(({ action }) => action),
      ["plan_deleted", "limits_set", "plan_created"],
    );
  });
}

async function entitiesOf(place: TestedNamespace, planId: string): Promise<readonly string[]> {
  const ids: string[] = [];
  for (let cursor: string | undefined; ; ) {
    // One at a time, so that every page has a next one.
    const page = await place.scope.plans.listEntities(planId, {
      limit: 1,
      ...(cursor === undefined ? {} : { cursor }),
    });
    ids.push(...page.items.map(({ id }) => id));
    cursor = page.cursor;
    if (cursor === undefined) return ids;
  }
}

function give(place: TestedNamespace, id: string, planId: string | null) {
  const change = { patch: { planId }, version: undefined, nowMs: T0 };
  return place.scope.entities.update(id, change, place.event("entity_updated", id));
}

async function giveUpdated(place: TestedNamespace, id: string, planId: string | null): Promise<void> {
  assert.equal((await give(place, id, planId)).kind, "updated");
}

function remove(place: TestedNamespace, id: string) {
  return place.scope.plans.delete(id, place.event("plan_deleted", `$PLAN:${id}`));
}
