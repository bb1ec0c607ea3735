import assert from "node:assert/strict";
import type { ConfigScope, LevelOptions, LimitsChange, StoredConfig } from "../../src/domain/config/config.ts";
import { Limit } from "../../src/domain/limits/limit.ts";
import { type Suite, samePaged, T0, type TestedNamespace } from "./contract-kit.ts";

const LEVELS: readonly ConfigScope[] = [
  { level: "entity", entityId: "a", resource: "api" },
  { level: "entityDefault", entityId: "a" },
  { level: "plan", planId: "gold", resource: "api" },
  { level: "planDefault", planId: "gold" },
  { level: "resource", resource: "api" },
  { level: "system" },
];

const TOTALS: readonly ConfigScope[] = [
  { level: "entityTotal", entityId: "a" },
  { level: "planTotal", planId: "gold" },
  { level: "systemTotal" },
];

const [OWN, OWN_DEFAULT, PLAN, PLAN_DEFAULT, API, SYSTEM] = LEVELS as [
  ...[ConfigScope, ConfigScope, ConfigScope, ConfigScope, ConfigScope, ConfigScope],
];

const rpm = (rate: number) => [Limit.perMinute("rpm", rate)];
const tpm = (rate: number) => [Limit.perMinute("tpm", rate)];

/** Levels: which of them count for an entity, what they add up to, and whether a set was one. */
export function levelContract(suite: Suite): void {
  suite.test("of six levels the first that has any wins whole, and deleting it brings back the next", async (place) => {
    await withPlan(place);
    for (const [i, scope] of LEVELS.entries()) await place.set(scope, rpm(i + 1));
    for (const [i, scope] of LEVELS.entries()) {
      const { limits, source, sources, planId } = await place.resolve("a", "api");
      assert.deepEqual(
        { limits, source, sources, planId },
        {
          ...{ limits: rpm(i + 1), source: scope.level, sources: undefined, planId: "gold" },
        },
      );
      assert.equal(await place.scope.config.delete(scope, place.event("limits_deleted", "a"), "all"), true);
    }
    assert.equal((await place.resolve("a", "api")).source, "none");
  });

  suite.test("totals are an entity's own, its plan's or the system's, beside the limits", async (place) => {
    await withPlan(place);
    await place.set(API, rpm(7));
    for (const [i, scope] of TOTALS.entries()) await place.set(scope, rpm(i + 1));
    for (const [i, scope] of TOTALS.entries()) {
      const { limits, source, totals, totalsSource } = await place.resolve("a", "api");
      assert.deepEqual({ limits, source }, { limits: rpm(7), source: "resource" });
      assert.deepEqual({ totals, totalsSource }, { totals: rpm(i + 1), totalsSource: scope.level });
      assert.equal(await place.scope.config.delete(scope, place.event("totals_deleted", "a"), "all"), true);
    }
    assert.deepEqual((await place.resolve("a", "api")).totals, []);
  });

  suite.test("a plan is its entity's own: neither children nor parents go by it", async (place) => {
    await place.createPlan({ id: "gold" });
    await place.create({ id: "root" });
    await place.create({ id: "a", parentId: "root", planId: "gold" });
    await place.create({ id: "leaf", parentId: "a" });
    await place.set(PLAN_DEFAULT, rpm(3));
    await place.set(TOTALS[1] as ConfigScope, rpm(4));
    assert.deepEqual((await place.resolve("a", "api")).limits, rpm(3));
    for (const id of ["root", "leaf"]) {
      const { source, totalsSource, planId } = await place.resolve(id, "api");
      assert.deepEqual({ source, totalsSource, planId }, { source: "none", totalsSource: "none", planId: undefined });
    }
  });

  suite.test("a level that inherits adds to what comes after it, as far down as they inherit", async (place) => {
    await withPlan(place);
    await place.set(OWN_DEFAULT, rpm(500), { inherit: true });
    await place.set(PLAN_DEFAULT, [...rpm(10), ...tpm(20)], { inherit: true });
    await place.set(API, [...tpm(1), Limit.perMinute("ipm", 5)]);
    await place.set(SYSTEM, [Limit.perMinute("never", 1)]);
    const { limits, source, sources } = await place.resolve("a", "api");
    assert.deepEqual(limits, [...rpm(500), ...tpm(20), Limit.perMinute("ipm", 5)]);
    assert.equal(source, "entityDefault");
    assert.deepEqual(sources, { rpm: "entityDefault", tpm: "planDefault", ipm: "resource" });
    // Set without the option, it wins whole again.
    await place.set(OWN_DEFAULT, rpm(500));
    assert.deepEqual((await place.resolve("a", "api")).limits, rpm(500));
  });

  suite.test("totals that inherit add up, too", async (place) => {
    await withPlan(place);
    await place.set(TOTALS[0] as ConfigScope, rpm(5), { inherit: true });
    await place.set(TOTALS[2] as ConfigScope, tpm(6));
    const { totals, totalsSource, totalsSources } = await place.resolve("a", "api");
    assert.deepEqual(totals, [...rpm(5), ...tpm(6)]);
    assert.equal(totalsSource, "entityTotal");
    assert.deepEqual(totalsSources, { rpm: "entityTotal", tpm: "systemTotal" });
  });

  suite.test("levels for callers leave nothing, or the rest, to a request from below", async (place) => {
    await withPlan(place);
    await place.set(API, rpm(1), { appliesTo: "callers" });
    await place.set(SYSTEM, tpm(2));
    const alone = await place.resolve("a", "api");
    assert.deepEqual(alone.limits, rpm(1));
    assert.deepEqual(alone.forEveryone, []);
    await place.set(PLAN, tpm(3), { inherit: true });
    const added = await place.resolve("a", "api");
    assert.deepEqual(added.limits, [...tpm(3), ...rpm(1)]);
    assert.deepEqual(added.forEveryone, tpm(3));
    await place.set(TOTALS[2] as ConfigScope, rpm(9), { appliesTo: "callers" });
    assert.deepEqual((await place.resolve("a", "api")).totalsForEveryone, []);
  });

  suite.test("options of a level come back with it, and a set replaces them all", async (place) => {
    await withPlan(place);
    const options: LevelOptions = { inherit: true, appliesTo: "callers" };
    for (const scope of [...LEVELS, ...TOTALS]) {
      assert.equal(await place.set(scope, rpm(1), options), "written");
      assert.deepEqual(await place.scope.config.get(scope), { limits: rpm(1), ...options });
      assert.equal(await place.set(scope, rpm(1)), "written");
      assert.deepEqual(await place.scope.config.get(scope), { limits: rpm(1) });
    }
  });

  suite.test("setting what is there already writes nothing, whatever the order", async (place) => {
    await withPlan(place);
    for (const scope of [...LEVELS, ...TOTALS]) {
      const options: LevelOptions = { appliesTo: "callers" };
      assert.equal(await place.set(scope, [...rpm(1), ...tpm(2)], options), "written");
      const before = await eventCount(place);
      const generation = place.scope.config.generation();
      assert.equal(await place.set(scope, [...tpm(2), ...rpm(1)], options), "unchanged");
      assert.equal(await eventCount(place), before);
      assert.equal(place.scope.config.generation(), generation);
      assert.equal(await place.set(scope, [...rpm(1), ...tpm(3)], options), "written");
    }
  });

  suite.test("what an outage means is part of what the system says", async (place) => {
    const change: LimitsChange = { limits: rpm(1), onUnavailable: "allow" };
    assert.equal(await set(place, SYSTEM, change), "written");
    assert.equal(await set(place, SYSTEM, change), "unchanged");
    assert.equal(await set(place, SYSTEM, { ...change, onUnavailable: "block" }), "written");
    // What is not named stays, so nothing changes.
    assert.equal(await set(place, SYSTEM, { limits: rpm(1) }), "unchanged");
  });

  suite.test("a switch that is set as it stands is no change", async (place) => {
    assert.equal(await place.setPolicy(OWN_DEFAULT, { access: "disabled" }), true);
    assert.equal(await place.setPolicy(OWN_DEFAULT, { access: "disabled" }), false);
    assert.equal(await place.setPolicy(OWN_DEFAULT, { access: null }), true);
    assert.equal(await place.setPolicy(OWN_DEFAULT, { access: null }), false);
    assert.equal(await place.setPolicy(OWN_DEFAULT, { cascade: false }), true);
    assert.equal(await place.setPolicy(OWN_DEFAULT, { cascade: false }), false);
  });

  suite.test("a set for where none are leaves what an operator has set", async (place) => {
    await withPlan(place);
    for (const scope of [...LEVELS, ...TOTALS]) {
      assert.equal(await set(place, scope, { limits: rpm(1), ifAbsent: true }), "written");
      assert.equal(await set(place, scope, { limits: rpm(2), ifAbsent: true }), "unchanged");
      assert.deepEqual((await place.scope.config.get(scope))?.limits, rpm(1));
    }
    // A policy is no limits.
    const b: ConfigScope = { level: "entityDefault", entityId: "b" };
    await place.setPolicy(b, { access: "bypass" });
    assert.equal(await set(place, b, { limits: rpm(1), ifAbsent: true }), "written");
    assert.deepEqual(await place.scope.config.get(b), { limits: rpm(1), access: "bypass" });
  });

  suite.test("of several sets for where none are, one does", async (place) => {
    const replies = await Promise.all(
      [1, 2, 3, 4].map((rate) => set(place, API, { limits: rpm(rate), ifAbsent: true })),
    );
    assert.deepEqual(replies.toSorted(), ["unchanged", "unchanged", "unchanged", "written"]);
    const winner = replies.indexOf("written") + 1;
    assert.deepEqual((await place.scope.config.get(API))?.limits, rpm(winner));
  });

  suite.test("a set that expects what a scope says is made; one that expects something else is not", async (place) => {
    await withPlan(place);
    const nothing = { limits: [] };
    for (const scope of [...LEVELS, ...TOTALS]) {
      assert.equal(await set(place, scope, { limits: rpm(1), expected: { limits: rpm(9) } }), "conflict");
      assert.equal(await set(place, scope, { limits: rpm(1), expected: nothing }), "written");
      assert.equal(await set(place, scope, { limits: rpm(2), expected: nothing }), "conflict");
      assert.equal(await set(place, scope, { limits: rpm(1), expected: { limits: rpm(1) } }), "unchanged");
      assert.equal(await set(place, scope, { limits: rpm(2), expected: { limits: rpm(1) } }), "written");
      assert.deepEqual((await place.scope.config.get(scope))?.limits, rpm(2));
    }
    // Options and policy are part of what it says.
    assert.equal(
      await set(place, API, { limits: rpm(3), appliesTo: "callers", expected: { limits: rpm(2) } }),
      "written",
    );
    assert.equal(await set(place, API, { limits: rpm(4), expected: { limits: rpm(3) } }), "conflict");
    await place.setPolicy(API, { access: "bypass" });
    const said = await place.scope.config.get(API);
    assert.equal(
      await set(place, API, { limits: rpm(4), expected: { limits: rpm(3), appliesTo: "callers" } }),
      "conflict",
    );
    assert.equal(await set(place, API, { limits: [], expected: said as StoredConfig }), "written");
    assert.deepEqual(await place.scope.config.get(API), { limits: [], access: "bypass" });
  });

  suite.test("of several sets that expect the same, one is made", async (place) => {
    await set(place, API, { limits: rpm(9) });
    const replies = await Promise.all(
      [1, 2, 3, 4].map((rate) => set(place, API, { limits: rpm(rate), expected: { limits: rpm(9) } })),
    );
    assert.deepEqual(replies.toSorted(), ["conflict", "conflict", "conflict", "written"]);
    assert.deepEqual((await place.scope.config.get(API))?.limits, rpm(replies.indexOf("written") + 1));
  });

  suite.test("totals and plans are in no list of resources or of limits of an entity", async (place) => {
    await withPlan(place);
    for (const scope of [...LEVELS, ...TOTALS]) await place.set(scope, rpm(1));
    const { config } = place.scope;
    await samePaged((page) => config.listResources(T0, page), ["api"]);
    await samePaged((page) => config.listEntityResources(T0, page), ["api"]);
    await samePaged((page) => config.listEntities("api", T0, page), ["a"]);
    const { items } = await config.listForEntity("a", T0, { limit: 10 });
    assert.deepEqual(
      items.map(({ scope }) => scope),
      [OWN_DEFAULT, OWN],
    );
  });

  suite.test("all that is configured is listed with its options, and what is of an entity", async (place) => {
    await withPlan(place);
    for (const scope of [...LEVELS, ...TOTALS]) await place.set(scope, rpm(1), { inherit: true });
    const all = await everyConfig(place, {});
    assert.deepEqual(all.toSorted(), [...LEVELS, ...TOTALS].map((scope) => JSON.stringify(scope)).toSorted());
    const own = await everyConfig(place, { entityId: "a" });
    assert.deepEqual(own.toSorted(), [OWN, OWN_DEFAULT, TOTALS[0]].map((scope) => JSON.stringify(scope)).toSorted());
  });

  suite.test("an entity that is deleted takes its totals with it", async (place) => {
    await withPlan(place);
    await place.set(TOTALS[0] as ConfigScope, rpm(1));
    await place.scope.entities.delete("a", place.event("entity_deleted", "a"));
    assert.equal(await place.scope.config.get(TOTALS[0] as ConfigScope), undefined);
    assert.equal((await place.resolve("a", "api")).totalsSource, "none");
  });
}

async function withPlan(place: TestedNamespace): Promise<void> {
  await place.createPlan({ id: "gold" });
  await place.create({ id: "a", planId: "gold" });
}

function set(place: TestedNamespace, scope: ConfigScope, change: LimitsChange) {
  return place.scope.config.set(scope, change, place.event("limits_set", "somebody"));
}

async function eventCount(place: TestedNamespace): Promise<number> {
  return (await place.scope.audit.list({}, { limit: 1000 })).items.length;
}

async function everyConfig(place: TestedNamespace, filter: { readonly entityId?: string }): Promise<string[]> {
  const found: string[] = [];
  for (let cursor: string | undefined; ; ) {
    const page = await place.scope.manifests.listConfigs(filter, {
      limit: 2,
      ...(cursor === undefined ? {} : { cursor }),
    });
    for (const { scope, config } of page.items) {
      assert.deepEqual(config, { limits: rpm(1), inherit: true });
      found.push(JSON.stringify(scope));
    }
    cursor = page.cursor;
    if (cursor === undefined) return found;
  }
}
