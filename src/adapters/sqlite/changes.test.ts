import assert from "node:assert/strict";
import { test } from "node:test";
import { claim, context, event, kinds, NOON, openOn, openTemp, tempFile } from "../../../test/sqlite/temp-store.ts";
import type { Entity } from "../../domain/config/entity.ts";
import { Limit } from "../../domain/limits/limit.ts";

const RPM = Limit.perMinute("rpm", 10);
const PAGE = { limit: 100 };

const entity = (id: string, parentId?: string): Entity => ({
  id,
  name: id,
  ...(parentId === undefined ? {} : { parentId }),
  cascade: parentId !== undefined,
  metadata: { plan: "gold" },
  version: 1,
  createdAtMs: NOON,
  updatedAtMs: NOON,
});

test("the first level that has limits wins, and the parent and the policy are read with it", async (t) => {
  const { config, entities } = openTemp(t);
  await entities.create(entity("org"), event("entity_created", "org"));
  await entities.create(entity("key", "org"), event("entity_created", "key"));
  const set = (scope: Parameters<typeof config.set>[0], rate: number) =>
    config.set(scope, { limits: [Limit.perMinute("rpm", rate)] }, event("limits_set", "x"));
  const rate = async () => {
    const { limits, source, parentId, cascade } = await config.resolve("key", "gpt-4");
    assert.deepEqual({ parentId, cascade }, { parentId: "org", cascade: true });
    return [source, limits[0]?.capacity];
  };
  assert.deepEqual(await rate(), ["none", undefined]);
  await config.set({ level: "system" }, { limits: [RPM], onUnavailable: "allow" }, event("limits_set", "$SYSTEM"));
  assert.deepEqual(await rate(), ["system", 10]);
  await set({ level: "resource", resource: "gpt-4" }, 20);
  assert.deepEqual(await rate(), ["resource", 20]);
  await set({ level: "entityDefault", entityId: "key" }, 30);
  assert.deepEqual(await rate(), ["entityDefault", 30]);
  await set({ level: "entity", entityId: "key", resource: "gpt-4" }, 40);
  assert.deepEqual(await rate(), ["entity", 40]);
  assert.equal((await config.resolve("key", "gpt-4")).onUnavailable, "allow");
});

test("what did not change anything is neither audited nor a new generation", async (t) => {
  const { config, entities, audit } = openTemp(t);
  await entities.create(entity("key"), event("entity_created", "key"));
  const generation = config.generation();
  assert.equal(await config.delete({ level: "system" }, event("limits_deleted", "$SYSTEM"), "all"), false);
  assert.deepEqual(await entities.create(entity("key"), event("entity_created", "key")), { kind: "exists" });
  assert.deepEqual(await entities.delete("nobody", event("entity_deleted", "nobody")), { kind: "missing" });
  const late = { patch: { name: "new" }, version: 7, nowMs: NOON };
  assert.deepEqual(await entities.update("key", late, event("entity_updated", "key")), {
    kind: "conflict",
    version: 1,
  });
  assert.equal(config.generation(), generation);
  assert.equal((await audit.list({}, PAGE)).items.length, 1);
});

test("the audit log is newest first, and goes on where it was left while new events come", async (t) => {
  const { entities, audit } = openTemp(t);
  for (const id of ["a", "b", "c"]) await entities.create(entity(id), event("entity_created", id));
  const first = await audit.list({}, { limit: 2 });
  await entities.create(entity("d"), event("entity_created", "d"));
  const second = await audit.list({}, { limit: 2, cursor: first.cursor! });
  assert.deepEqual(
    [...first.items, ...second.items].map(({ entityId }) => entityId),
    ["c", "b", "a"],
  );
  assert.equal(second.cursor, undefined);
  assert.deepEqual((await audit.list({ entityId: "b" }, PAGE)).items.length, 1);
});

test("deleting an entity takes its limits, buckets and usage with it, also for a process that remembers the bucket", async (t) => {
  const file = tempFile(t);
  const here = openOn(t, file);
  const there = openOn(t, file);
  await here.entities.create(entity("key"), event("entity_created", "key"));
  await here.config.set({ level: "entityDefault", entityId: "key" }, { limits: [RPM] }, event("limits_set", "key"));
  const all = claim("key", [RPM], { rpm: 10 });
  for (const { buckets } of [here, there]) await buckets.take([all], context(NOON));
  await there.entities.delete("key", event("entity_deleted", "key"));
  assert.deepEqual(await here.buckets.read([all.bucket]), [undefined]);
  assert.deepEqual((await here.config.listForEntity("key", NOON, PAGE)).items, []);
  assert.deepEqual((await here.usage.query({ window: "hourly", fromMs: 0, toMs: NOON + 1 }, PAGE)).items, []);
  assert.deepEqual((await here.audit.list({}, PAGE)).items.length, 3);
  assert.deepEqual(kinds(await here.buckets.take([all], context(NOON))), ["taken"]);
});

test("an entity's default comes first in its list, on a page of its own too", async (t) => {
  const { config } = openTemp(t);
  for (const resource of ["b", "a"]) {
    await config.set({ level: "entity", entityId: "key", resource }, { limits: [RPM] }, event("limits_set", "key"));
  }
  await config.set({ level: "entityDefault", entityId: "key" }, { limits: [RPM] }, event("limits_set", "key"));
  const scopes: unknown[] = [];
  for (let cursor: string | undefined, more = true; more; more = cursor !== undefined) {
    const page = await config.listForEntity("key", NOON, { limit: 1, ...(cursor === undefined ? {} : { cursor }) });
    scopes.push(...page.items.map(({ scope }) => ("resource" in scope ? scope.resource : scope.level)));
    cursor = page.cursor;
  }
  assert.deepEqual(scopes, ["entityDefault", "a", "b"]);
});

test("a deleted namespace is closed to changes until it is recovered", async (t) => {
  const { store } = openTemp(t);
  const tenant = { id: "n1", name: "tenant", status: "active", createdAtMs: NOON } as const;
  await store.namespaces.register(tenant, event("namespace_registered", "$NAMESPACE:tenant"), "default");
  const { config } = store.scope("n1");
  await store.namespaces.delete("tenant", NOON, event("namespace_deleted", "$NAMESPACE:tenant"), "default");
  assert.throws(() => config.resolve("key", "gpt-4"), { name: "NotFoundError", code: "namespace_not_found" });
  const refused = async () => config.set({ level: "system" }, { limits: [RPM] }, event("limits_set", "$SYSTEM"));
  await assert.rejects(refused, { code: "namespace_not_found" });
  const reply = await store.namespaces.recover("n1", event("namespace_recovered", "$NAMESPACE:n1"), "default");
  assert.deepEqual(reply, { kind: "recovered", namespace: tenant });
  await refused();
});

test("a purge goes in steps, and one that was cut off is finished by the next", async (t) => {
  const file = tempFile(t);
  const { store } = openOn(t, file);
  const tenant = { id: "n1", name: "tenant", status: "active", createdAtMs: NOON } as const;
  await store.namespaces.register(tenant, event("namespace_registered", "$NAMESPACE:tenant"), "default");
  const scope = store.scope("n1");
  await scope.entities.create(entity("key"), event("entity_created", "key"));
  await Promise.all(
    Array.from({ length: 1_200 }, (_, i) => scope.buckets.take([claim(`key-${i}`, [RPM], { rpm: 1 })], context(NOON))),
  );
  await store.scope("default").buckets.take([claim("other", [RPM], { rpm: 1 })], context(NOON));
  const purged = event("namespace_purged", "$NAMESPACE:n1");
  const none = () => {};
  assert.deepEqual(await store.namespaces.purge("n1", purged, "default", none), { kind: "active", name: "tenant" });
  await store.namespaces.delete("tenant", NOON, event("namespace_deleted", "$NAMESPACE:tenant"), "default");
  const cutOff = async () =>
    store.namespaces.purge("n1", purged, "default", () => {
      throw new Error("cut off");
    });
  await assert.rejects(cutOff, /cut off/);
  const [orphan] = (await store.namespaces.listOrphans(PAGE)).items;
  assert.equal(orphan?.status, "purging");
  const recovery = await store.namespaces.recover("n1", event("namespace_recovered", "$NAMESPACE:n1"), "default");
  assert.deepEqual(recovery, { kind: "notDeleted", status: "purging" });
  const steps: number[] = [];
  const reply = await store.namespaces.purge("n1", purged, "default", (records) => steps.push(records));
  // 500 buckets went in the first attempt; the rest, the entity and its audit event now.
  assert.deepEqual(reply, { kind: "purged", records: 702 });
  assert.deepEqual(steps, [500, 700, 701, 702]);
  assert.deepEqual(await store.namespaces.purge("n1", purged, "default", none), { kind: "missing" });
  const { items } = await store.scope("default").buckets.listByResource("gpt-4", PAGE);
  assert.equal(items.length, 1);
});
