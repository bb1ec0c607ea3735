import assert from "node:assert/strict";
import type { ConfigScope } from "../../src/domain/config/config.ts";
import { newEntity } from "../../src/domain/config/entity.ts";
import { Limit } from "../../src/domain/limits/limit.ts";
import { deleteAt, drained, held, perSecond, setAt } from "./contract-change-kit.ts";
import { SECOND_MS, type Suite, T0, type TestedNamespace } from "./contract-kit.ts";

const SYSTEM: ConfigScope = { level: "system" };
const API: ConfigScope = { level: "resource", resource: "api" };
const A: ConfigScope = { level: "entityDefault", entityId: "a" };
const GOLD: ConfigScope = { level: "planDefault", planId: "gold" };
const SILVER: ConfigScope = { level: "planDefault", planId: "silver" };
const GOLD_ON_API: ConfigScope = { level: "plan", planId: "gold", resource: "api" };

const OTHER = [Limit.perDay("other", 5)];

/** Changes of plans, and of how levels go together: they count from their instants, as changes of limits do. */
export function changeLevelsContract(suite: Suite): void {
  suite.test("limits of a plan that are changed while nobody asks count from the change on", async (place) => {
    await ofGold(place);
    await setAt(place, SYSTEM, perSecond(1_000), T0);
    await setAt(place, GOLD, perSecond(1), T0);
    await drained(place, T0);
    await setAt(place, GOLD, perSecond(2), T0 + 10 * SECOND_MS);
    await setAt(place, GOLD_ON_API, perSecond(100), T0 + 20 * SECOND_MS);
    await deleteAt(place, GOLD_ON_API, T0 + 30 * SECOND_MS);
    await deleteAt(place, GOLD, T0 + 40 * SECOND_MS);
    assert.equal(await held(place, T0 + 50 * SECOND_MS), 10 + 10 * 2 + 10 * 100 + 10 * 2 + 10 * 1_000);
  });

  suite.test("an entity that comes to another plan while nobody asks goes by it from then on", async (place) => {
    for (const id of ["gold", "silver"]) await place.createPlan({ id });
    await setAt(place, SYSTEM, perSecond(1), T0);
    await setAt(place, GOLD, perSecond(10), T0);
    await setAt(place, SILVER, perSecond(100), T0);
    await place.create({ id: "a" });
    await drained(place, T0);
    await planAt(place, "gold", T0 + 10 * SECOND_MS);
    // Of a plan that it does not have yet, and of one that it has no more, changes mean nothing to it.
    await setAt(place, SILVER, perSecond(50), T0 + 15 * SECOND_MS);
    await setAt(place, GOLD, perSecond(20), T0 + 20 * SECOND_MS);
    await planAt(place, "silver", T0 + 30 * SECOND_MS);
    await setAt(place, GOLD, perSecond(90_000), T0 + 35 * SECOND_MS);
    await planAt(place, null, T0 + 40 * SECOND_MS);
    assert.equal(await held(place, T0 + 50 * SECOND_MS), 10 + 10 * 10 + 10 * 20 + 10 * 50 + 10);
  });

  suite.test("levels that change within one millisecond of a take each count from it on", async (place) => {
    // On conditional writes each change that is met moves the epoch by a millisecond, at most a tenth of a token here.
    const whole = async (nowMs: number) => {
      const tokens = await held(place, nowMs);
      return tokens - Math.floor(tokens) <= 0.2 ? Math.floor(tokens) : tokens;
    };
    await ofGold(place);
    await setAt(place, SYSTEM, perSecond(100), T0);
    await drained(place, T0);
    await setAt(place, GOLD, perSecond(10), T0);
    assert.equal(await whole(T0), 0);
    await setAt(place, A, perSecond(1), T0);
    assert.equal(await whole(T0 + 10 * SECOND_MS), 10);
    await deleteAt(place, A, T0 + 20 * SECOND_MS);
    assert.equal(await whole(T0 + 20 * SECOND_MS), 20);
    await planAt(place, null, T0 + 20 * SECOND_MS);
    assert.equal(await whole(T0 + 30 * SECOND_MS), 20 + 10 * 100);
  });

  suite.test("an id that is created with a plan goes by it from then on", async (place) => {
    await place.createPlan({ id: "gold" });
    await setAt(place, GOLD, perSecond(100), T0);
    await setAt(place, SYSTEM, perSecond(1), T0);
    await drained(place, T0);
    await place.scope.entities.create(
      newEntity({ id: "a", planId: "gold" }, T0 + 10 * SECOND_MS),
      place.event("entity_created", "a", T0 + 10 * SECOND_MS),
    );
    assert.equal(await held(place, T0 + 20 * SECOND_MS), 10 + 10 * 100);
  });

  suite.test("what a plan said counts for its time, also after it was left, deleted and made anew", async (place) => {
    for (const id of ["gold", "silver"]) await place.createPlan({ id });
    await setAt(place, SYSTEM, perSecond(1_000), T0);
    await setAt(place, GOLD, perSecond(100), T0);
    await setAt(place, SILVER, perSecond(5), T0);
    await place.create({ id: "a", planId: "gold" });
    await drained(place, T0);
    await setAt(place, GOLD, perSecond(1), T0 + 10 * SECOND_MS);
    await setAt(place, SYSTEM, perSecond(2_000), T0 + 12 * SECOND_MS);
    await planAt(place, "silver", T0 + 20 * SECOND_MS);
    const ended = place.event("plan_deleted", "$PLAN:gold", T0 + 22 * SECOND_MS);
    assert.deepEqual(await place.scope.plans.delete("gold", ended), { kind: "deleted" });
    assert.equal(await held(place, T0 + 23 * SECOND_MS), 10 * 100 + 10 * 1 + 3 * 5);
    await place.createPlan({ id: "gold" });
    await setAt(place, GOLD, perSecond(3_000), T0 + 25 * SECOND_MS);
    assert.equal(await held(place, T0 + 30 * SECOND_MS), 10 * 100 + 10 * 1 + 10 * 5);
  });

  suite.test("of the time under a plan without limits, what comes after plans counts", async (place) => {
    for (const id of ["gold", "silver", "bare"]) await place.createPlan({ id });
    await setAt(place, SYSTEM, perSecond(1), T0);
    await setAt(place, GOLD, perSecond(1_000), T0);
    await setAt(place, SILVER, perSecond(5), T0);
    await place.create({ id: "a", planId: "gold" });
    await drained(place, T0);
    await planAt(place, "bare", T0 + 10 * SECOND_MS);
    await planAt(place, "silver", T0 + 20 * SECOND_MS);
    assert.equal(await held(place, T0 + 30 * SECOND_MS), 10 * 1_000 + 10 * 1 + 10 * 5);
  });

  suite.test("an entity that is made anew after it was deleted has no plans of before", async (place) => {
    await place.createPlan({ id: "gold" });
    await setAt(place, GOLD, perSecond(1), T0);
    await place.create({ id: "a", planId: "gold" });
    await planAt(place, null, T0 + SECOND_MS);
    assert.notEqual((await place.resolve("a", "api")).changes, undefined);
    await place.scope.entities.delete("a", place.event("entity_deleted", "a"));
    await place.create({ id: "a" });
    assert.equal((await place.resolve("a", "api")).changes, undefined);
  });

  suite.test("a level that begins to inherit, and one that ends it, does so from the change on", async (place) => {
    await setAt(place, API, perSecond(1), T0);
    await setAt(place, A, OTHER, T0, { inherit: true });
    await drained(place, T0);
    // What is inherited goes by the level that it comes from, from that one's change on.
    await setAt(place, API, perSecond(10), T0 + 10 * SECOND_MS);
    // From here on it is taken away here, and goes on by its last rule until it comes back.
    await setAt(place, A, OTHER, T0 + 20 * SECOND_MS);
    await setAt(place, API, perSecond(100), T0 + 30 * SECOND_MS);
    await setAt(place, A, OTHER, T0 + 40 * SECOND_MS, { inherit: true });
    assert.equal(await held(place, T0 + 50 * SECOND_MS), 10 + 30 * 10 + 10 * 100);
    const { changes } = await place.resolve("a", "api");
    assert.deepEqual(
      changes
        ?.slice(-4)
        .map(({ fromMs, limits }) => [(fromMs - T0) / SECOND_MS, limits.map(({ name }) => name).sort()]),
      [
        [0, ["other", "r"]],
        [10, ["other", "r"]],
        [20, ["other"]],
        [40, ["other", "r"]],
      ],
    );
  });

  suite.test("whom a level is for is no other rule of the bucket", async (place) => {
    await setAt(place, API, perSecond(1), T0);
    await drained(place, T0);
    await setAt(place, API, perSecond(1), T0 + 10 * SECOND_MS, { appliesTo: "callers" });
    assert.deepEqual((await place.resolve("a", "api")).forEveryone, []);
    await setAt(place, API, perSecond(5), T0 + 20 * SECOND_MS, { appliesTo: "callers" });
    assert.equal(await held(place, T0 + 30 * SECOND_MS), 20 + 10 * 5);
    const { changes } = await place.resolve("a", "api");
    assert.deepEqual(
      changes?.map(({ fromMs }) => (fromMs - T0) / SECOND_MS),
      [0, 20],
    );
  });

  suite.test("who comes to a plan that was made anew has no changes of the one before", async (place) => {
    await place.create({ id: "a" });
    await place.createPlan({ id: "gold" });
    for (const scope of [GOLD, GOLD_ON_API]) {
      await setAt(place, scope, perSecond(1), T0);
      await setAt(place, scope, perSecond(2), T0 + SECOND_MS);
    }
    await place.scope.plans.delete("gold", place.event("plan_deleted", "$PLAN:gold", T0 + 2 * SECOND_MS));
    await place.createPlan({ id: "gold" });
    for (const scope of [GOLD, GOLD_ON_API]) {
      assert.equal(await place.scope.config.get(scope), undefined);
    }
    await planAt(place, "gold", T0 + 3 * SECOND_MS);
    assert.equal((await place.resolve("a", "api")).changes, undefined);
    await setAt(place, GOLD, perSecond(7), T0 + 4 * SECOND_MS);
    const { changes } = await place.resolve("a", "api");
    assert.deepEqual(
      changes?.map(({ fromMs }) => (fromMs - T0) / SECOND_MS),
      [4],
    );
  });
}

async function planAt(place: TestedNamespace, planId: string | null, atMs: number): Promise<void> {
  const change = { patch: { planId }, version: undefined, nowMs: atMs };
  const reply = await place.scope.entities.update("a", change, place.event("entity_updated", "a", atMs));
  assert.equal(reply.kind, "updated");
}

async function ofGold(place: TestedNamespace): Promise<void> {
  await place.createPlan({ id: "gold" });
  await place.create({ id: "a", planId: "gold" });
}
