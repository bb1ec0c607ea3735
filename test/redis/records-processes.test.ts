import assert from "node:assert/strict";
import { test } from "node:test";
import { RedisRecords } from "../../src/adapters/redis/records.ts";
import type { AuditEvent } from "../../src/domain/config/audit.ts";
import { newEntity } from "../../src/domain/config/entity.ts";
import { DEFAULT_NAMESPACE } from "../../src/domain/config/namespace.ts";
import { newPlan } from "../../src/domain/config/plan.ts";
import { Limit } from "../../src/domain/limits/limit.ts";
import type { ScopedStore, Store } from "../../src/ports/store.ts";
import { openRecords } from "../records/without-takes.ts";
import { connectionTo, newPrefix } from "./kit.ts";
import { describeRedis } from "./redis-server.ts";

const T0 = Date.UTC(2026, 2, 15, 12);
let events = 0;
const event = (action: AuditEvent["action"], entityId: string): AuditEvent => ({
  ...{ eventId: `event-${++events}`, atMs: T0, action, entityId, details: {} },
});

await describeRedis("several processes on Redis", ({ url }) => {
  /** Each with a connection of its own, as processes have them. */
  const processes = async (count: number): Promise<{ readonly stores: readonly Store[] }> => {
    const prefix = newPrefix();
    const records = Array.from(
      { length: count },
      () => new RedisRecords(connectionTo(url, prefix), 30_000, () => undefined),
    );
    return { stores: await Promise.all(records.map((one) => openRecords(one))) };
  };
  const scopesOf = (stores: readonly Store[]): readonly ScopedStore[] =>
    stores.map((store) => store.scope(DEFAULT_NAMESPACE));

  test("8 processes open an empty store at once, and each finds it whole", async () => {
    const { stores } = await processes(8);
    for (const store of stores) assert.equal((await store.namespaces.get("default"))?.id, "default");
    assert.equal((await stores[0]?.namespaces.list({ limit: 10 }))?.items.length, 1);
  });

  test("changes of the same scope by two processes at once are all made, and none is lost", async () => {
    const { stores } = await processes(2);
    const [one, two] = scopesOf(stores) as [ScopedStore, ScopedStore];
    const scope = { level: "entityDefault", entityId: "a" } as const;
    const changes: Promise<unknown>[] = [];
    for (let i = 0; i < 10; i++) {
      const limits = [Limit.perMinute("rpm", 10 + i)];
      changes.push(Promise.resolve(one.config.set(scope, { limits }, event("limits_set", "a"))));
      const access = i % 2 === 0 ? "disabled" : "bypass";
      changes.push(Promise.resolve(two.config.setPolicy(scope, { access }, event("access_set", "a"))));
    }
    await Promise.all(changes);
    assert.deepEqual(await one.config.get(scope), { limits: [Limit.perMinute("rpm", 19)], access: "bypass" });
    assert.equal((await two.audit.list({}, { limit: 100 })).items.length, 20);
    await two.config.resolve("a", "api");
    assert.equal(two.config.generation(), 20);
  });

  test("of two entities that are hung below each other at once, one is refused", async () => {
    const { stores } = await processes(2);
    const [one, two] = scopesOf(stores) as [ScopedStore, ScopedStore];
    for (let round = 0; round < 10; round++) {
      const [a, b] = [`a${round}`, `b${round}`];
      for (const id of [a, b]) await one.entities.create(newEntity({ id }, T0), event("entity_created", id));
      const hang = (scope: ScopedStore, id: string, parentId: string) =>
        scope.entities.update(id, { patch: { parentId }, version: undefined, nowMs: T0 }, event("entity_updated", id));
      const replies = await Promise.all([hang(one, a, b), hang(two, b, a)]);
      assert.deepEqual(replies.map(({ kind }) => kind).toSorted(), ["cycle", "updated"]);
    }
  });

  test("a plan that is deleted and an entity that comes to it exclude each other", async () => {
    const { stores } = await processes(2);
    const [one, two] = scopesOf(stores) as [ScopedStore, ScopedStore];
    for (let round = 0; round < 10; round++) {
      const planId = `plan${round}`;
      await one.plans.create(newPlan({ id: planId }, T0), event("plan_created", planId));
      const entity = newEntity({ id: `e${round}`, planId }, T0);
      const [deleted, created] = await Promise.all([
        one.plans.delete(planId, event("plan_deleted", planId)),
        two.entities.create(entity, event("entity_created", entity.id)),
      ]);
      const isThere = (await one.plans.get(planId)) !== undefined;
      assert.equal(isThere, deleted.kind === "inUse");
      assert.equal(created.kind, isThere ? "created" : "planMissing");
    }
  });

  test("of 8 processes that begin work under one key, one has it", async () => {
    const { stores } = await processes(8);
    for (let round = 0; round < 5; round++) {
      const replies = await Promise.all(
        scopesOf(stores).map(({ leases }, i) =>
          leases.beginKey({
            ...{ key: `key-${round}`, mark: `mark-${i}`, fingerprint: "f", nowMs: T0, untilMs: T0 + 1000 },
          }),
        ),
      );
      assert.equal(replies.filter(({ kind }) => kind === "begun").length, 1);
    }
  });

  test("of 8 processes that register a name, all hear of the same namespace", async () => {
    const { stores } = await processes(8);
    const registered = await Promise.all(
      stores.map((store, i) =>
        store.namespaces.register(
          { id: `id-${i}`, name: "tenant", status: "active", createdAtMs: T0 },
          event("namespace_registered", "$NAMESPACE:tenant"),
          DEFAULT_NAMESPACE,
        ),
      ),
    );
    assert.equal(new Set(registered.map(({ id }) => id)).size, 1);
  });

  test("changes of 8 processes in one namespace all come through", async () => {
    const { stores } = await processes(8);
    await Promise.all(
      scopesOf(stores).flatMap((scope, i) =>
        Array.from({ length: 5 }, (_, j) =>
          scope.entities.create(newEntity({ id: `e-${i}-${j}` }, T0), event("entity_created", `e-${i}-${j}`)),
        ),
      ),
    );
    const { items } = await (scopesOf(stores)[0] as ScopedStore).entities.list({ limit: 100 });
    assert.equal(items.length, 40);
  });
});
