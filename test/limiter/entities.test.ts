import assert from "node:assert/strict";
import { describe, type TestContext, test } from "node:test";
import {
  entityIdOf,
  Limit,
  type OpenOptions,
  RateLimiter,
  resourceOf,
  textOfEntityId,
  textOfResource,
} from "../../src/entry/index.ts";
import type { Store } from "../../src/ports/store.ts";
import { overriding } from "../../src/testing/fault-store.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { EVERY_STORE } from "./every-store.ts";

const T0 = Date.UTC(2026, 2, 15, 12);

for (const [name, openStore] of EVERY_STORE) {
  describe(`entities, on ${name}`, () => {
    async function open(t: TestContext, more: OpenOptions = {}) {
      const clock = new SimulatedClock(T0);
      const { store, options } = openStore(clock, t);
      const limiter = await RateLimiter.open({ store, clock, ...options, ...more });
      await limiter.setResourceDefaults("api", [Limit.perMinute("rpm", 10)]);
      const held = async (entityId: string) =>
        (await limiter.available({ entityId, resource: "api" })).map((one) => [one.entityId, one.available]);
      const take = (entityId: string, rpm: number) => limiter.acquire({ entityId, resource: "api", consume: { rpm } });
      return { limiter, clock, store, held, take };
    }

    for (const atomic of [false, true]) {
      test(`two that change places while a request reads them are charged once each, atomic: ${atomic}`, async (t) => {
        const { limiter, clock, store, held } = await open(t);
        await limiter.createEntity({ id: "org" });
        await limiter.createEntity({ id: "key", parentId: "org" });
        const changed = async () => {
          await limiter.updateEntity("key", { parentId: null });
          await limiter.updateEntity("org", { parentId: "key", cascade: true });
        };
        let change: Promise<void> | undefined;
        const racing = resolvingAfter(store, async (entityId) => {
          if (entityId !== "org") return;
          change ??= changed();
          await change;
        });
        const other = await RateLimiter.open({ store: racing, clock });
        await other.acquire({ entityId: "key", resource: "api", consume: { rpm: 3 }, atomic });
        assert.deepEqual((await held("org")).at(-1), ["key", 7]);
      });
    }

    test("a parent that was named and nothing more is charged", async (t) => {
      const { limiter, held, take } = await open(t);
      await limiter.createEntity({ id: "proj-1" });
      const key = await limiter.createEntity({ id: "key-1", parentId: "proj-1" });
      assert.equal(key.cascade, true);
      await take("key-1", 4);
      assert.deepEqual(await held("key-1"), [
        ["key-1", 6],
        ["proj-1", 6],
      ]);
    });

    test("a parent is left alone by a child that says so, and charged by one that gets it later", async (t) => {
      const { limiter, held, take } = await open(t);
      await limiter.createEntity({ id: "proj-1" });
      await limiter.createEntity({ id: "free", parentId: "proj-1", cascade: false });
      await take("free", 4);
      assert.deepEqual(await held("proj-1"), [["proj-1", 10]]);
      await limiter.createEntity({ id: "late" });
      await take("late", 3);
      const late = await limiter.updateEntity("late", { parentId: "proj-1" });
      assert.equal(late.cascade, true);
      await take("late", 2);
      assert.deepEqual(await held("late"), [
        ["late", 5],
        ["proj-1", 8],
      ]);
    });

    test("an id that was never created is limited by defaults, unless unknown ones are refused", async (t) => {
      const { limiter, store, clock, take } = await open(t);
      await take("nobody", 1);
      const strict = await RateLimiter.open({ store, clock, strict: true });
      const request = { entityId: "ghost", resource: "api", consume: { rpm: 1 } };
      const missing = { name: "NotFoundError", code: "entity_not_found", message: /no entity ghost; create it/ };
      const ways = [
        () => strict.acquire(request),
        () => strict.tryAcquire(request),
        () => strict.tryAcquire({ ...request, wait: { maxMs: 1_000 } }),
        () => strict.acquire({ ...request, limits: [Limit.perMinute("rpm", 5)] }),
        () => strict.withLease(request, () => assert.fail("the body ran")),
        () => strict.available(request),
        () => strict.timeUntilAvailable(request),
        () => strict.explain(request),
        () => strict.topUp({ entityId: "ghost", resource: "api", amounts: { rpm: 1 } }),
        () => strict.resetBucket({ entityId: "ghost", resource: "api" }),
        () => strict.setLimits("ghost", [Limit.perMinute("rpm", 5)]),
        () => strict.setLimits("ghost", [Limit.perMinute("rpm", 5)], { resource: "api" }),
        () => strict.setAccess({ entityId: "ghost" }, "disabled"),
        () => strict.setAccess({ entityId: "ghost", resource: "api" }, "bypass"),
        () => strict.setCascade({ entityId: "ghost" }, false),
      ];
      for (const way of ways) await assert.rejects(way, missing);
      // Twice: what is remembered must not let it in, either.
      await assert.rejects(strict.acquire(request), missing);
      await strict.createEntity({ id: "ghost" });
      await strict.acquire(request);
      assert.equal((await strict.available(request))[0]?.available, 9);
      await strict.acquire(request);
      await strict.deleteEntity("ghost");
      await assert.rejects(strict.acquire(request), missing);
      await limiter.acquire(request);
    });

    test("what was set for an id before unknown ones were refused can be taken away", async (t) => {
      const { limiter, store, clock } = await open(t);
      await limiter.setLimits("ghost", [Limit.perMinute("rpm", 5)]);
      await limiter.setAccess({ entityId: "ghost" }, "disabled");
      const strict = await RateLimiter.open({ store, clock, unknownEntities: "refuse" });
      await strict.setAccess({ entityId: "ghost" }, "inherit");
      assert.equal(await strict.deleteLimits("ghost"), true);
      assert.deepEqual([await limiter.getPolicy({ entityId: "ghost" }), await limiter.getLimits("ghost")], [{}, []]);
      // Resources need not be created.
      await strict.setAccess({ resource: "api" }, "bypass");
      await strict.setResourceDefaults("other", [Limit.perMinute("rpm", 5)]);
    });

    test("an unknown id is let in as soon as another process created it, not when configuration is forgotten", async (t) => {
      const { limiter, store, clock } = await open(t);
      const strict = await RateLimiter.open({ store, clock, unknownEntities: "refuse", configTtlMs: 600_000 });
      const request = { entityId: "ghost", resource: "api", consume: { rpm: 1 } };
      await assert.rejects(strict.acquire(request), { code: "entity_not_found" });
      await limiter.createEntity({ id: "ghost" });
      await strict.acquire(request);
    });

    test("the capacity of a resource does not count what children hold of their parents twice", async (t) => {
      const { limiter, take } = await open(t);
      await limiter.createEntity({ id: "acme" });
      await limiter.createEntity({ id: "proj-1", parentId: "acme" });
      for (const id of ["key-1", "key-2"]) await limiter.createEntity({ id, parentId: "proj-1" });
      await limiter.createEntity({ id: "free", parentId: "proj-1", cascade: false });
      await limiter.setLimits("acme", [Limit.perMinute("rpm", 100)]);
      // It has no limit of that name, so that its keys are counted in its own parent.
      await limiter.setLimits("proj-1", [Limit.perMinute("tpm", 1_000)]);
      for (const id of ["key-1", "key-2", "free", "stranger"]) await take(id, 4);
      const { entities, totalCapacity, totalAvailable, utilizationPct } = await limiter.resourceCapacity("api", "rpm");
      const shown = entities.map(({ entityId, capacity, available, within }) => [
        entityId,
        capacity,
        available,
        within,
      ]);
      assert.deepEqual(
        shown.sort((a, b) => String(a[0]).localeCompare(String(b[0]))),
        [
          ["acme", 100, 92, undefined],
          ["free", 10, 6, undefined],
          ["key-1", 10, 6, "acme"],
          ["key-2", 10, 6, "acme"],
          ["stranger", 10, 6, undefined],
        ],
      );
      assert.deepEqual([totalCapacity, totalAvailable], [120, 104]);
      assert.equal(Math.round(utilizationPct), 13);
    });

    test("ids from outside are limited apart and come back as they were", async (t) => {
      const { limiter, take } = await open(t);
      const users = ["auth0|42", "auth0_7C42", "a+b@x.org", "::1", "\ud800", "日本"];
      for (const [i, user] of users.entries()) await take(entityIdOf(user), i + 1);
      const { entities } = await limiter.resourceCapacity("api", "rpm");
      const left = new Map(entities.map(({ entityId, available }) => [textOfEntityId(entityId), available]));
      assert.deepEqual(
        users.map((user) => left.get(user)),
        users.map((_, i) => 9 - i),
      );
      await limiter.setResourceDefaults(resourceOf("GET /users/:id"), [Limit.perMinute("rpm", 3)]);
      assert.deepEqual((await limiter.listResources()).map(textOfResource).sort(), ["GET /users/:id", "api"]);
    });
  });
}

/** A store on which something else happens before an entity's configuration is read. */
function resolvingAfter(store: Store, before: (entityId: string) => Promise<void>): Store {
  return overriding(store, {
    scope: (id) => {
      const scope = store.scope(id);
      const config = overriding(scope.config, {
        resolve: async (entityId, ...asked) => {
          await before(entityId);
          return scope.config.resolve(entityId, ...asked);
        },
      });
      return { ...scope, config };
    },
  });
}
