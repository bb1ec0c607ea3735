import assert from "node:assert/strict";
import type { ConfigScope } from "../../src/domain/config/config.ts";
import { Limit } from "../../src/domain/limits/limit.ts";
import { NotFoundError } from "../../src/domain/names/errors.ts";
import { claim, type Suite, samePaged, T0, type TestedNamespace } from "./contract-kit.ts";

const SYSTEM: ConfigScope = { level: "system" };
const API: ConfigScope = { level: "resource", resource: "api" };
const ANY_OF_A: ConfigScope = { level: "entityDefault", entityId: "a" };
const A_ON_API: ConfigScope = { level: "entity", entityId: "a", resource: "api" };

const rpm = (rate: number) => [Limit.perMinute("rpm", rate)];

/** Stored limits: six levels, of which the first that has any wins whole. */
export function configContract(suite: Suite): void {
  suite.test("the most specific level with limits wins, and they do not merge", async (place) => {
    await place.set(SYSTEM, [...rpm(1), Limit.perMinute("tpm", 1)]);
    await resolvesTo(place, "system", [...rpm(1), Limit.perMinute("tpm", 1)]);
    await place.set(API, rpm(2));
    await resolvesTo(place, "resource", rpm(2));
    await place.set(ANY_OF_A, rpm(3));
    await resolvesTo(place, "entityDefault", rpm(3));
    await place.set(A_ON_API, rpm(4));
    await resolvesTo(place, "entity", rpm(4));
  });

  suite.test("deleting a level brings the next one back", async (place) => {
    const scopes = [A_ON_API, ANY_OF_A, API, SYSTEM] as const;
    for (const [i, scope] of scopes.entries()) await place.set(scope, rpm(i + 1));
    for (const [i, scope] of scopes.entries()) {
      await resolvesTo(place, scope.level, rpm(i + 1));
      assert.equal(await place.scope.config.delete(scope, place.event("limits_deleted", "a"), "all"), true);
    }
    await resolvesTo(place, "none", []);
  });

  suite.test(
    "limits of one entity or resource say nothing about another, also where names begin alike",
    async (place) => {
      await place.set(A_ON_API, rpm(4));
      await place.set({ level: "entityDefault", entityId: "ab" }, rpm(5));
      await place.set({ level: "resource", resource: "api2" }, rpm(6));
      assert.equal((await place.resolve("ab", "api")).source, "entityDefault");
      assert.equal((await place.resolve("a", "api2")).source, "resource");
      assert.equal((await place.resolve("b", "api")).source, "none");
      assert.equal((await place.resolve("a", "ap")).source, "none");
    },
  );

  suite.test(
    "limits come back as they were set, in their order, and a second set replaces the first",
    async (place) => {
      const limits = [
        Limit.custom("z-last.v1", { capacity: 9_000_000_000_000, refillAmount: 7, refillPeriodMs: 1_000_000_000_000 }),
        Limit.perDay("a", 3),
      ];
      await place.set(A_ON_API, rpm(1));
      await place.set(A_ON_API, limits);
      assert.deepEqual((await place.scope.config.get(A_ON_API))?.limits, limits);
      assert.equal(await place.scope.config.get(ANY_OF_A), undefined);
    },
  );

  suite.test("deleting what is not there says so", async (place) => {
    assert.equal(await place.scope.config.delete(API, place.event("limits_deleted", "$RESOURCE:api"), "all"), false);
  });

  suite.test("setting system limits without saying what an outage means keeps what was said before", async (place) => {
    const event = place.event("limits_set", "$SYSTEM");
    await place.scope.config.set(SYSTEM, { limits: rpm(1), onUnavailable: "allow" }, event);
    await place.set(SYSTEM, rpm(2));
    assert.deepEqual(await place.scope.config.get(SYSTEM), { limits: rpm(2), onUnavailable: "allow" });
    assert.equal((await place.resolve("a", "api")).onUnavailable, "allow");
    await place.scope.config.set(SYSTEM, { limits: rpm(2), onUnavailable: "block" }, event);
    assert.equal((await place.resolve("a", "api")).onUnavailable, "block");
  });

  suite.test("limits and what an outage means are set and taken away by themselves", async (place) => {
    const event = place.event("limits_set", "$SYSTEM");
    const { config } = place.scope;
    await config.set(SYSTEM, { limits: rpm(1), onUnavailable: "allow" }, event);
    await config.set(SYSTEM, { onUnavailable: "block" }, event);
    assert.deepEqual(await config.get(SYSTEM), { limits: rpm(1), onUnavailable: "block" });
    await config.set(SYSTEM, { limits: [] }, event);
    assert.deepEqual(await config.get(SYSTEM), { limits: [], onUnavailable: "block" });
    await config.set(SYSTEM, { limits: rpm(2) }, event);
    await config.set(SYSTEM, { onUnavailable: null }, event);
    assert.deepEqual(await config.get(SYSTEM), { limits: rpm(2) });
    await config.set(SYSTEM, { limits: [] }, event);
    assert.equal(await config.get(SYSTEM), undefined);
  });

  suite.test("what an outage means is told whichever level the limits came from", async (place) => {
    const event = place.event("limits_set", "$SYSTEM");
    await place.scope.config.set(SYSTEM, { limits: [], onUnavailable: "allow" }, event);
    assert.deepEqual(await place.resolve("a", "api"), {
      created: false,
      limits: [],
      source: "none",
      totals: [],
      totalsSource: "none",
      access: "enforce",
      accessSource: "none",
      cascade: false,
      cascadeSource: "none",
      onUnavailable: "allow",
    });
    await place.set(A_ON_API, rpm(4));
    assert.equal((await place.resolve("a", "api")).onUnavailable, "allow");
  });

  suite.test("parent and cascade are read together with the limits", async (place) => {
    await place.create({ id: "root" });
    await place.create({ id: "a", parentId: "root", cascade: true });
    assert.deepEqual(await kinOf(place, "root"), { parentId: undefined, cascade: false });
    assert.deepEqual(await kinOf(place, "a"), { parentId: "root", cascade: true });
    assert.deepEqual(await kinOf(place, "never-created"), { parentId: undefined, cascade: false });
  });

  suite.test("the limits of an entity are listed with its default first, then by resource", async (place) => {
    await place.set({ level: "entity", entityId: "a", resource: "z" }, rpm(1));
    await place.set({ level: "entity", entityId: "a", resource: "b/c" }, rpm(2));
    await place.set(ANY_OF_A, rpm(3));
    await place.set({ level: "entity", entityId: "ab", resource: "b" }, rpm(4));
    await place.set({ level: "resource", resource: "b" }, rpm(5));
    await samePaged(
      (page) => place.scope.config.listForEntity("a", T0, page),
      [
        { scope: ANY_OF_A, config: { limits: rpm(3) } },
        { scope: { level: "entity", entityId: "a", resource: "b/c" }, config: { limits: rpm(2) } },
        { scope: { level: "entity", entityId: "a", resource: "z" }, config: { limits: rpm(1) } },
      ],
    );
  });

  suite.test("entities with limits on a resource are listed in order, defaults left out", async (place) => {
    for (const entityId of ["c", "a", "b"]) await place.set({ level: "entity", entityId, resource: "api" }, rpm(1));
    await place.set({ level: "entityDefault", entityId: "d" }, rpm(1));
    await place.set({ level: "entity", entityId: "e", resource: "api2" }, rpm(1));
    await place.set(API, rpm(1));
    await samePaged((page) => place.scope.config.listEntities("api", T0, page), ["a", "b", "c"]);
  });

  suite.test(
    "resources on which entities have limits are listed in order, once each, created or not",
    async (place) => {
      await place.create({ id: "created" });
      for (const [entityId, resource] of [
        ["never-created", "web"],
        ["created", "web"],
        ["never-created", "api"],
        ["created", "gone"],
      ] as const) {
        await place.set({ level: "entity", entityId, resource }, rpm(1));
      }
      await place.set({ level: "entityDefault", entityId: "d" }, rpm(1));
      await place.set({ level: "resource", resource: "only-defaults" }, rpm(1));
      const event = place.event("access_set", "created");
      const policy = { level: "entity", entityId: "created", resource: "only-policy" } as const;
      await place.scope.config.setPolicy(policy, { access: "bypass" }, event);
      const gone = { level: "entity", entityId: "created", resource: "gone" } as const;
      await place.scope.config.delete(gone, place.event("limits_deleted", "created"), "all");
      await samePaged((page) => place.scope.config.listEntityResources(T0, page), ["api", "web"]);
    },
  );

  suite.test(
    "resources with defaults are listed in order, and no longer once their defaults are deleted",
    async (place) => {
      for (const resource of ["llama3:8b", "gpt-4", "api"]) await place.set({ level: "resource", resource }, rpm(1));
      await place.set({ level: "entity", entityId: "a", resource: "only-of-a" }, rpm(1));
      await place.set(SYSTEM, rpm(1));
      await samePaged((page) => place.scope.config.listResources(T0, page), ["api", "gpt-4", "llama3:8b"]);
      await place.scope.config.delete(API, place.event("limits_deleted", "$RESOURCE:api"), "all");
      await samePaged((page) => place.scope.config.listResources(T0, page), ["gpt-4", "llama3:8b"]);
    },
  );

  suite.test("nobody resolves or sets limits in a namespace that was deleted", async (place) => {
    const gone = await place.register("gone");
    await gone.set(API, rpm(1));
    await place.store.namespaces.delete("gone", T0, place.event("namespace_deleted", "gone"), place.namespaceId);
    await assert.rejects(async () => gone.resolve("a", "api"), NotFoundError);
    await assert.rejects(async () => gone.set(API, rpm(2)), NotFoundError);
  });

  if (suite.gaps.has("generation")) return;

  suite.test("the generation grows with every change of limits, entities and namespaces", async (place) => {
    const { config, entities } = place.scope;
    const { namespaces } = place.store;
    const changes: (() => unknown)[] = [
      () => place.set(API, rpm(1)),
      () => config.delete(API, place.event("limits_deleted", "$RESOURCE:api"), "all"),
      () => place.create({ id: "a" }),
      () =>
        entities.update(
          "a",
          { patch: { cascade: true }, version: undefined, nowMs: T0 },
          place.event("entity_updated", "a"),
        ),
      () => entities.delete("a", place.event("entity_deleted", "a")),
      () => place.register("tenant"),
      () => namespaces.delete("tenant", T0, place.event("namespace_deleted", "tenant"), place.namespaceId),
    ];
    for (const change of changes) {
      const before = config.generation();
      await change();
      const after = config.generation();
      assert.ok(before !== undefined && after !== undefined && after > before, `${before} -> ${after}: ${change}`);
    }
  });

  suite.test("taking and looking leave the generation as it is", async (place) => {
    const before = place.scope.config.generation();
    await place.take([claim("a", rpm(10), { rpm: 1 })], T0);
    await place.debit(claim("a", rpm(10), {}), { rpm: 1 }, T0);
    await place.credit(claim("a", rpm(10), {}), { rpm: 1 }, T0);
    await place.resolve("a", "api");
    assert.equal(place.scope.config.generation(), before);
  });

  suite.test("a take that was planned with older configuration is stale, and takes nothing", async (place) => {
    const planned = place.scope.config.generation();
    assert.ok(planned !== undefined);
    await place.set(API, rpm(1));
    assert.equal(await place.takeReply([claim("a", rpm(10), { rpm: 1 })], T0, { generation: planned }), "stale");
    assert.equal(await place.state("a"), undefined);
    const now = place.scope.config.generation();
    assert.ok(now !== undefined);
    const answers = await place.take([claim("a", rpm(10), { rpm: 1 })], T0, { generation: now });
    assert.equal(answers[0]?.kind, "taken");
  });

  suite.test("a take that was planned before its namespace was deleted is stale", async (place) => {
    const gone = await place.register("gone");
    const planned = gone.scope.config.generation();
    assert.ok(planned !== undefined);
    await place.store.namespaces.delete("gone", T0, place.event("namespace_deleted", "gone"), place.namespaceId);
    assert.equal(await gone.takeReply([claim("a", rpm(10), { rpm: 1 })], T0, { generation: planned }), "stale");
  });
}

async function kinOf(place: TestedNamespace, entityId: string): Promise<unknown> {
  const { parentId, cascade } = await place.resolve(entityId, "api");
  return { parentId, cascade };
}

async function resolvesTo(place: TestedNamespace, source: string, limits: readonly Limit[]): Promise<void> {
  const resolved = await place.resolve("a", "api");
  assert.deepEqual({ source: resolved.source, limits: resolved.limits }, { source, limits });
  const sync = place.scope.config.resolveSync?.("a", "api");
  if (sync !== undefined) assert.deepEqual(sync, resolved);
}
