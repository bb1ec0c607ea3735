import assert from "node:assert/strict";
import { test } from "node:test";
import {
  configKey,
  NAMESPACE_INDEX,
  namespaceIdKey,
  namespaceNameKey,
  provisionerKey,
  systemPk,
} from "../../src/adapters/dynamodb/schema.ts";
import { Limit } from "../../src/domain/limits/limit.ts";
import { allPages, claim, T0, type TestedNamespace } from "../kit/contract-kit.ts";
import { describeDynamo } from "./dynamodb-local.ts";
import { answersLost, CUT_OFF, N, newGround, S, withoutKeys } from "./store-kit.ts";

const rpm = [Limit.perMinute("rpm", 10)];

await describeDynamo("namespaces in the table", (dynamodb) => {
  test("a namespace has two records in the words of the original, and both change together", async (t) => {
    const { place, records } = await newGround(dynamodb, t);
    await place.register("tenant");
    const both = async () => [
      withoutKeys(await records.get(namespaceNameKey("tenant"))),
      withoutKeys(await records.get(namespaceIdKey("id-of-tenant"))),
    ];
    const names = { namespace_id: S("id-of-tenant"), namespace_name: S("tenant") };
    const active = { ...names, status: S("active"), created_at: S("2026-03-15T12:00:00Z") };
    assert.deepEqual(await both(), [active, active]);
    await remove(place, "tenant");
    const deleted = { ...active, status: S("deleted"), deleted_at: S("2026-03-15T12:00:00.001Z") };
    assert.deepEqual(await both(), [{}, deleted]);
    await recover(place, "id-of-tenant");
    assert.deepEqual(await both(), [active, active]);
  });

  test("changes whose answers were lost are made once", async (t) => {
    const { place, wire } = await newGround(dynamodb, t);
    wire.fault = answersLost("TransactWriteItems", 1);
    await place.register("tenant");
    wire.fault = answersLost("TransactWriteItems", 1);
    assert.equal((await remove(place, "tenant"))?.status, "deleted");
    wire.fault = answersLost("TransactWriteItems", 1);
    assert.equal((await recover(place, "id-of-tenant")).kind, "recovered");
    assert.equal((await place.scope.audit.list({}, { limit: 10 })).items.length, 3);
  });

  test("a namespace that the original deleted half can be recovered and purged (W34)", async (t) => {
    const { place, records } = await newGround(dynamodb, t);
    const tenant = await place.register("tenant");
    await tenant.create({ id: "a" });
    const half = () => records.deleteAll([namespaceNameKey("tenant")]);
    await half();
    const orphans = await allPages((page) => place.store.namespaces.listOrphans(page), 1);
    assert.deepEqual(
      orphans.map(({ id, status }) => [id, status]),
      [["id-of-tenant", "deleted"]],
    );
    assert.equal((await recover(place, "id-of-tenant")).kind, "recovered");
    assert.equal((await place.store.namespaces.get("tenant"))?.id, "id-of-tenant");
    await half();
    assert.equal((await purge(place, "id-of-tenant")).kind, "purged");
    assert.equal(await records.get(namespaceIdKey("id-of-tenant")), undefined);
  });

  test("a namespace that the original recovered half can be recovered whole, or deleted (W34)", async (t) => {
    const { place, put, records } = await newGround(dynamodb, t);
    await place.register("tenant");
    const forward = withoutKeys(await records.get(namespaceNameKey("tenant")));
    const half = async () => {
      await remove(place, "tenant");
      await put(namespaceNameKey("tenant"), forward);
    };
    await half();
    assert.equal((await recover(place, "id-of-tenant")).kind, "recovered");
    assert.deepEqual((await records.get(namespaceIdKey("id-of-tenant")))?.status, S("active"));
    await half();
    assert.equal((await remove(place, "tenant"))?.status, "deleted");
    assert.equal(await place.store.namespaces.get("tenant"), undefined);
  });

  test("a purge finds what is in no index: the provisioner's state and what it set (W34)", async (t) => {
    const { place, put, records } = await newGround(dynamodb, t);
    const { namespaceId } = await place.register("tenant");
    const poor = { l_rpm_cp: N(1), l_rpm_ra: N(1), l_rpm_rp: N(1), GSI4PK: S(namespaceId) };
    const api = configKey(namespaceId, { level: "resource", resource: "api" });
    const ofA = configKey(namespaceId, { level: "entityDefault", entityId: "a" });
    await put(api, poor);
    await put(ofA, poor);
    await put(configKey(namespaceId, { level: "system" }), { audit_retention_days: N(7) });
    await put(provisionerKey(namespaceId), {
      managed_system: { BOOL: false },
      managed_resources: { L: [S("api")] },
      managed_entities: { M: { a: { L: [S("_default_")] } } },
      GSI4PK: S(namespaceId),
    });
    await remove(place, "tenant");
    const reply = await purge(place, namespaceId);
    assert.deepEqual(reply, { kind: "purged", records: 4 });
    assert.deepEqual(await records.getAll([api, ofA]), [undefined, undefined]);
    for await (const left of records.query({ partition: systemPk(namespaceId) })) assert.fail(left.SK?.S);
  });

  test("a purge that is cut off anywhere is finished by the next, told of in steps, and not recovered", async (t) => {
    const ground = await newGround(dynamodb, t);
    const tenant = await ground.place.register("tenant");
    for (let i = 0; i < 30; i++) await tenant.set({ level: "entity", entityId: `e${i}`, resource: "api" }, rpm);
    await tenant.take([claim("a", rpm, { rpm: 1 })], T0);
    await remove(ground.place, "tenant");
    const cut = await ground.another();
    let batches = 0;
    cut.wire.fault = async ({ operation, send }) =>
      operation === "BatchWriteItem" && ++batches > 1 ? CUT_OFF : send();
    await assert.rejects(purge(cut.place, tenant.namespaceId));
    assert.equal((await recover(ground.place, tenant.namespaceId)).kind, "notDeleted");
    const progress: number[] = [];
    const reply = await purge(ground.place, tenant.namespaceId, (count) => progress.push(count));
    assert.equal(reply.kind, "purged");
    assert.ok(progress.length > 0 && progress.at(-1) === (reply.kind === "purged" ? reply.records : 0));
    const left = ground.records.query({ index: NAMESPACE_INDEX, partition: tenant.namespaceId });
    for await (const item of left) assert.fail(item.PK?.S);
  });

  test("items that a batch left over are deleted all the same", async (t) => {
    const { place, wire, records } = await newGround(dynamodb, t);
    const tenant = await place.register("tenant");
    for (let i = 0; i < 5; i++) await tenant.set({ level: "resource", resource: `r${i}` }, rpm);
    await remove(place, "tenant");
    wire.fault = async ({ operation, input, send }) => {
      if (operation !== "BatchWriteItem") return send();
      const [[table, writes] = ["", []]] = Object.entries(input.RequestItems as Record<string, unknown[]>);
      const answer = await send({ RequestItems: { [table]: writes.slice(0, 2) } });
      const left = writes.length > 2 ? { [table]: writes.slice(2) } : {};
      return answer.kind === "answered" ? { ...answer, body: { UnprocessedItems: left } } : answer;
    };
    assert.equal((await purge(place, tenant.namespaceId)).kind, "purged");
    const left = records.query({ index: NAMESPACE_INDEX, partition: tenant.namespaceId });
    for await (const item of left) assert.fail(item.PK?.S);
  });
});

async function remove(place: TestedNamespace, name: string) {
  const event = place.event("namespace_deleted", `$NAMESPACE:${name}`);
  return place.store.namespaces.delete(name, T0 + 1, event, place.namespaceId);
}

async function recover(place: TestedNamespace, id: string) {
  return place.store.namespaces.recover(id, place.event("namespace_recovered", id), place.namespaceId);
}

async function purge(place: TestedNamespace, id: string, onProgress: (recordsDeleted: number) => void = () => {}) {
  return place.store.namespaces.purge(id, place.event("namespace_purged", id), place.namespaceId, onProgress);
}
