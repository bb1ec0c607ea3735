import assert from "node:assert/strict";
import { test } from "node:test";
import { StoreRefused } from "../../src/adapters/dynamodb/errors.ts";
import {
  entityConfigRegistryKey,
  entityKey,
  entityPk,
  isoSeconds,
  NAMESPACE_INDEX,
  usageIndexKeys,
  usageKey,
} from "../../src/adapters/dynamodb/schema.ts";
import { newEntity } from "../../src/domain/config/entity.ts";
import { Limit } from "../../src/domain/limits/limit.ts";
import { atDepth } from "../depth.ts";
import { allPages, claim, T0, type TestedNamespace } from "../kit/contract-kit.ts";
import { describeDynamo } from "./dynamodb-local.ts";
import { answersLost, CUT_OFF, cutOffAfter, type Ground, N, newGround, S, withoutKeys } from "./store-kit.ts";

const rpm = [Limit.perMinute("rpm", 10)];

await describeDynamo("entities in the table", (dynamodb) => {
  test("an entity is stored as the original stores it, with what it counts beside our version", async (t) => {
    const { place, records, namespaceId } = await newGround(dynamodb, t);
    await place.create({ id: "root" });
    await place.create({ id: "a", name: "A", parentId: "root", cascade: true, metadata: { k: "v" } });
    const item = await records.get(entityKey(namespaceId, "a"));
    assert.match(item?.pinc?.S ?? "", /^[0-9a-f]{16}$/);
    assert.deepEqual(item, {
      PK: S(`${namespaceId}/ENTITY#a`),
      SK: S("#META"),
      GSI1PK: S(`${namespaceId}/PARENT#root`),
      GSI1SK: S("CHILD#a"),
      GSI4PK: S(namespaceId),
      GSI4SK: S(`${namespaceId}/ENTITY#a`),
      entity_id: S("a"),
      name: S("A"),
      parent_id: S("root"),
      cascade: { BOOL: true },
      metadata: { M: { k: S("v") } },
      created_at: S("2026-03-15T12:00:00Z"),
      updated_at: S("2026-03-15T12:00:00Z"),
      version: N(1),
      pgen: N(T0),
      pinc: item?.pinc,
    });
    assert.deepEqual((await records.get(entityKey(namespaceId, "root")))?.parent_id, { NULL: true });
  });

  test("a move counts the parent's generation up by one, and nothing else does", async (t) => {
    const { place, records, namespaceId } = await newGround(dynamodb, t);
    await place.create({ id: "root" });
    await place.create({ id: "a" });
    const change = (patch: object) =>
      place.scope.entities.update("a", { patch, version: undefined, nowMs: T0 }, place.event("entity_updated", "a"));
    await change({ name: "B" });
    await change({ parentId: "root" });
    await change({ parentId: "root", cascade: true });
    await change({ parentId: null });
    const item = await records.get(entityKey(namespaceId, "a"));
    assert.deepEqual([item?.pgen, item?.version, item?.GSI1PK], [N(T0 + 2), N(5), undefined]);
  });

  test("an entity that an old release of the original made can be read, changed and deleted", async (t) => {
    const { place, put, namespaceId } = await newGround(dynamodb, t);
    await put(entityKey(namespaceId, "old"), {
      ...{
        entity_id: S("old"),
        name: S("Old"),
        parent_id: { NULL: true },
        created_at: S("2024-01-02T03:04:05.678901"),
      },
      ...{
        metadata: { M: { tier: S("gold"), seats: N(3) } },
        GSI4PK: S(namespaceId),
        GSI4SK: S(entityPk(namespaceId, "old")),
      },
    });
    const createdAtMs = Date.UTC(2024, 0, 2, 3, 4, 5, 678);
    const old = { id: "old", name: "Old", cascade: false, metadata: { tier: "gold", seats: "3" }, version: 1 };
    assert.deepEqual(await place.scope.entities.get("old"), { ...old, createdAtMs, updatedAtMs: createdAtMs });
    const change = { patch: { name: "New" }, version: 1, nowMs: T0 };
    const reply = await place.scope.entities.update("old", change, place.event("entity_updated", "old"));
    assert.equal(reply.kind, "updated");
    assert.deepEqual(await remove(place, "old"), { kind: "deleted" });
    assert.deepEqual((await place.scope.entities.list({ limit: 10 })).items, []);
  });

  test("a deletion that is cut off anywhere has deleted the entity for everybody, or not at all", async (t) => {
    const ground = await newGround(dynamodb, t);
    for (let calls = 1; calls < 40; calls += atDepth(4, 1)) {
      await fill(ground);
      const cut = await ground.another();
      cut.wire.fault = cutOffAfter(calls);
      const error = await remove(cut.place, "a").then(
        () => undefined,
        (thrown: unknown) => thrown,
      );
      if (error !== undefined) assert.ok(error instanceof StoreRefused, String(error));
      const { place } = await ground.another();
      const isThere = (await place.scope.entities.get("a")) !== undefined;
      const children = await allPages((page) => place.scope.entities.children("root", page), 10);
      const listed = await allPages((page) => place.scope.entities.list(page), 10);
      assert.deepEqual([children.length, listed.length], isThere ? [1, 2] : [0, 1]);
      assert.equal((await place.resolve("a", "api")).source, isThere ? "entity" : "none");
      assert.equal((await place.scope.config.listForEntity("a", T0, { limit: 10 })).items.length, isThere ? 2 : 0);
      if (isThere) assert.deepEqual(await remove(place, "a"), { kind: "deleted" });
      await place.create({ id: "a" });
      // Whoever came next has cleared up first.
      assert.equal(await place.state("a"), undefined);
      assert.equal((await place.resolve("a", "api")).source, "none");
      assert.equal((await place.topUp(claim("a", rpm, {}), { rpm: 1 }, T0, "order-1")).repeated, false);
      await remove(place, "a");
      const { items } = await place.scope.audit.list({ entityId: "a" }, { limit: 3 });
      assert.equal(items[0]?.action, "entity_deleted");
      await ground.place.scope.entities.delete("root", ground.place.event("entity_deleted", "root"));
      if (error === undefined) return;
    }
    assert.fail("never got through");
  });

  test("limits that are set on an entity whose deletion was cut off are those of a new one", async (t) => {
    const ground = await newGround(dynamodb, t);
    await fill(ground);
    const cut = await ground.another();
    cut.wire.fault = async ({ operation, input, send }) =>
      operation === "TransactWriteItems" && !JSON.stringify(input).includes("SET #0") ? CUT_OFF : send();
    await assert.rejects(remove(cut.place, "a"), StoreRefused);
    const { place } = await ground.another();
    assert.equal(await place.scope.entities.get("a"), undefined);
    await place.set({ level: "entity", entityId: "a", resource: "api" }, [Limit.perMinute("rpm", 3)]);
    assert.deepEqual((await place.resolve("a", "api")).limits, [Limit.perMinute("rpm", 3)]);
    assert.equal(await place.scope.config.get({ level: "entityDefault", entityId: "a" }), undefined);
    assert.equal(await place.state("a"), undefined);
  });

  test("with an entity go buckets, records of operations, usage and counts, more than fit one step (W33)", async (t) => {
    const { place, records, put, namespaceId } = await newGround(dynamodb, t);
    await place.create({ id: "a" });
    for (const resource of ["api", "b/c"]) {
      await place.set({ level: "entity", entityId: "a", resource }, rpm);
      await place.take([claim("a", rpm, { rpm: 1 }, { resource })], T0);
    }
    await place.reset(claim("a", rpm, {}), undefined, T0, "order-1");
    for (let hour = 0; hour < 120; hour++) {
      const windowStartMs = T0 + hour * 3_600_000;
      const usage = { entityId: "a", resource: "api", window: "hourly", windowStartMs } as const;
      const index = Object.entries(usageIndexKeys(namespaceId, usage)).map(
        ([name, value]) => [name, S(value)] as const,
      );
      await put(usageKey(namespaceId, usage), { ...Object.fromEntries(index), window: S("hourly"), rpm: N(1) });
    }
    await remove(place, "a");
    const left = records.query({ index: NAMESPACE_INDEX, partition: namespaceId });
    const kinds = new Set<string>();
    for await (const { PK } of left) kinds.add(PK?.S?.split("#")[0]?.split("/")[1] ?? "");
    assert.deepEqual([...kinds].sort(), ["AUDIT", "SYSTEM"]);
    assert.deepEqual(withoutKeys(await records.get(entityConfigRegistryKey(namespaceId))), { api: N(0), "b/c": N(0) });
  });

  test("a child that comes while its parent is deleted has a parent, or is not made", async (t) => {
    const ground = await newGround(dynamodb, t);
    const other = await ground.another();
    for (let round = 0; round < 12; round++) {
      const [parent, child] = [`p${round}`, `c${round}`];
      await ground.place.create({ id: parent });
      const [deleted, created] = await Promise.all([
        remove(ground.place, parent),
        other.place.scope.entities.create(
          newEntity({ id: child, parentId: parent }, T0),
          other.place.event("entity_created", child),
        ),
      ]);
      if (created.kind === "created") assert.deepEqual(deleted, { kind: "children", childId: child });
      else assert.deepEqual([created.kind, deleted.kind], ["parentMissing", "deleted"]);
    }
  });

  test("a child that the index does not know yet is a child", async (t) => {
    const { place, wire } = await newGround(dynamodb, t);
    await place.create({ id: "root" });
    await place.create({ id: "a", parentId: "root" });
    wire.fault = async ({ input, send }) => {
      const answer = await send();
      const isIndex = input.IndexName === "GSI1" && answer.kind === "answered";
      return isIndex ? { kind: "answered", body: { Items: [], Count: 0 } } : answer;
    };
    assert.deepEqual(await remove(place, "root"), { kind: "children", childId: "a" });
  });

  test("a child that the original removed does not keep its parent", async (t) => {
    const { place, records, namespaceId } = await newGround(dynamodb, t);
    await place.create({ id: "root" });
    await place.create({ id: "a", parentId: "root" });
    await records.deleteAll([entityKey(namespaceId, "a")]);
    assert.deepEqual(await remove(place, "root"), { kind: "deleted" });
  });

  test("two moves at once never make a circle", async (t) => {
    const ground = await newGround(dynamodb, t);
    const other = await ground.another();
    const move = (place: TestedNamespace, id: string, parentId: string) =>
      place.scope.entities.update(
        id,
        { patch: { parentId }, version: undefined, nowMs: T0 },
        place.event("entity_updated", id),
      );
    for (let round = 0; round < 8; round++) {
      const [a, b] = [`a${round}`, `b${round}`];
      for (const id of [a, b]) await ground.place.create({ id });
      const replies = await Promise.all([move(ground.place, a, b), move(other.place, b, a)]);
      assert.deepEqual(replies.map(({ kind }) => kind).sort(), ["cycle", "updated"]);
    }
  });

  test("an entity whose answer was lost is created once, and the one who asked is told so", async (t) => {
    const { place, wire } = await newGround(dynamodb, t);
    wire.fault = answersLost("TransactWriteItems", 1);
    await place.create({ id: "a" });
    wire.fault = answersLost("TransactWriteItems", 1);
    const change = { patch: { name: "B" }, version: 1, nowMs: T0 };
    const reply = await place.scope.entities.update("a", change, place.event("entity_updated", "a"));
    assert.equal(reply.kind, "updated");
    assert.equal((await place.scope.audit.list({}, { limit: 10 })).items.length, 2);
  });
});

async function remove(place: TestedNamespace, id: string) {
  return place.scope.entities.delete(id, place.event("entity_deleted", id));
}

/** A child with limits, buckets, a record of an operation and usage. */
async function fill({ place, put, namespaceId }: Ground): Promise<void> {
  await place.create({ id: "root" });
  await place.create({ id: "a", parentId: "root" });
  await place.set({ level: "entityDefault", entityId: "a" }, rpm);
  await place.set({ level: "entity", entityId: "a", resource: "api" }, rpm);
  await place.take([claim("a", rpm, { rpm: 1 })], T0);
  await place.reset(claim("a", rpm, {}), undefined, T0, "order-1");
  const usage = { entityId: "a", resource: "api", window: "hourly", windowStartMs: T0 } as const;
  await put(usageKey(namespaceId, usage), { window: S("hourly"), window_start: S(isoSeconds(T0)), rpm: N(1) });
}
