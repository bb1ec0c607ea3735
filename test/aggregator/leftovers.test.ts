import assert from "node:assert/strict";
import { test } from "node:test";
import { collected } from "../../src/adapters/dynamodb/paging.ts";
import { entityKey, NAMESPACE_INDEX, namespaceIdKey } from "../../src/adapters/dynamodb/schema.ts";
import { Limit } from "../../src/domain/limits/limit.ts";
import { sweep } from "../../src/entry/aggregator.ts";
import { atDepth } from "../depth.ts";
import { describeDynamo } from "../dynamodb/dynamodb-local.ts";
import { CUT_OFF, cutOffAfter, newGround } from "../dynamodb/store-kit.ts";
import { claim, T0 } from "../kit/contract-kit.ts";
import { CREDENTIALS } from "./archive-kit.ts";

const rpm = [Limit.perMinute("rpm", 10)];

await describeDynamo("what was cut off, and the sweep that finishes it", (dynamodb) => {
  const swept = (stack: string) =>
    sweep({ stack, region: "us-east-1", endpoint: dynamodb.endpoint, credentials: CREDENTIALS, write: () => {} });

  test("a deletion that was cut off anywhere is finished, and nothing of the entity is left", async (t) => {
    const ground = await newGround(dynamodb, t);
    let finished = 0;
    for (let calls = 1; ; calls += atDepth(3, 1)) {
      await ground.place.create({ id: "a" });
      await ground.place.create({ id: "b" });
      await ground.place.set({ level: "entity", entityId: "a", resource: "api" }, rpm);
      await ground.place.take([claim("a", rpm, { rpm: 1 })], T0);
      const cut = await ground.another();
      cut.wire.fault = cutOffAfter(calls);
      const isDone = await remove(cut.place, "a").then(
        () => true,
        () => false,
      );
      const report = await swept(ground.table);
      assert.equal(report.failures, 0);
      finished += report.deletionsFinished;
      if (await ground.place.scope.entities.get("a")) await remove(ground.place, "a");
      assert.equal(await ground.records.get(entityKey(ground.namespaceId, "a")), undefined, `after ${calls} calls`);
      const left = await collected(
        ground.records.query({ index: NAMESPACE_INDEX, partition: ground.namespaceId, keysOnly: true }),
      );
      assert.deepEqual(
        left.map(({ PK }) => PK?.S ?? "").filter((pk) => /#a(#|$)/.test(pk) && !pk.includes("AUDIT#")),
        [],
        `after ${calls} calls`,
      );
      assert.notEqual(await ground.place.scope.entities.get("b"), undefined);
      await remove(ground.place, "b");
      if (isDone) break;
    }
    assert.ok(finished >= atDepth(1, 3), `${finished} deletions were finished by the sweep`);
  });

  test("a purge that was cut off is finished, told once, and other namespaces keep all of theirs", async (t) => {
    const ground = await newGround(dynamodb, t);
    const tenant = await ground.place.register("tenant");
    const other = await ground.place.register("other");
    for (let i = 0; i < 30; i++) await tenant.set({ level: "entity", entityId: `e${i}`, resource: "api" }, rpm);
    await other.set({ level: "entity", entityId: "e", resource: "api" }, rpm);
    const { namespaces } = ground.store;
    await namespaces.delete("tenant", T0, ground.place.event("namespace_deleted", "tenant"), ground.namespaceId);
    const cut = await ground.another();
    let batches = 0;
    cut.wire.fault = async ({ operation, send }) =>
      operation === "BatchWriteItem" && ++batches > 1 ? CUT_OFF : send();
    const event = ground.place.event("namespace_purged", "tenant");
    await assert.rejects(async () =>
      cut.store.namespaces.purge(tenant.namespaceId, event, ground.namespaceId, () => {}),
    );
    const reports = await Promise.all([swept(ground.table), swept(ground.table)]);
    assert.equal(Math.max(...reports.map(({ purgesFinished }) => purgesFinished)), 1);
    assert.equal(await ground.records.get(namespaceIdKey(tenant.namespaceId)), undefined);
    const left = ground.records.query({ index: NAMESPACE_INDEX, partition: tenant.namespaceId });
    for await (const item of left) assert.fail(item.PK?.S);
    const { items } = await ground.place.scope.audit.list({}, { limit: 100 });
    assert.equal(items.filter(({ action }) => action === "namespace_purged").length, 1);
    assert.equal((await other.resolve("e", "api")).source, "entity");
    assert.equal((await swept(ground.table)).purgesFinished, 0);
  });
});

function remove(place: Awaited<ReturnType<typeof newGround>>["place"], id: string) {
  return place.scope.entities.delete(id, place.event("entity_deleted", id)) as Promise<unknown>;
}
