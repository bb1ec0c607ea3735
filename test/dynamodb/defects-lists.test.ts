import assert from "node:assert/strict";
import { test } from "node:test";
import type { Attributes } from "../../src/adapters/dynamodb/codec.ts";
import { auditPk, NAMESPACE_INDEX, provisionerKey } from "../../src/adapters/dynamodb/schema.ts";
import { openDynamo } from "../../src/entry/dynamodb.ts";
import { Limit, NotFoundError, RateLimiter } from "../../src/entry/index.ts";
import { deepTest } from "../deep-test.ts";
import { HOUR_MS, MINUTE_MS, rpm, take } from "../defects/kit.ts";
import { describeDynamo } from "./dynamodb-local.ts";
import { OneTable, type Scene } from "./one-table.ts";
import { S } from "./store-kit.ts";

// Defects of the original in lists, and in what is deleted, created and counted: pages, what is in no index, what is left over.

await describeDynamo("no defect of the original shows in what is listed, deleted and counted", (dynamodb) => {
  const table = new OneTable(dynamodb);

  test("W33: children that fill more than a page of the table are all listed, page by page", async () => {
    const scene = await table.newScene();
    const { limiter } = await scene.process();
    await limiter.createEntity({ id: "parent" });
    await limiter.createEntity({ id: "c-0", parentId: "parent", metadata: { note: "n".repeat(9_000) } });
    const key = { pk: `${scene.namespaceId}/ENTITY#c-0`, sk: "#META" };
    const first = (await scene.records.get(key)) as Attributes;
    const ids = Array.from({ length: 150 }, (_, i) => `c-${i}`);
    await scene.put(ids.map((id) => renamed(first, "c-0", id)));
    const listed: string[] = [];
    for await (const { id } of limiter.getChildren("parent")) listed.push(id);
    assert.deepEqual(listed, ids.toSorted());
    await assert.rejects(limiter.deleteEntity("parent"), { code: "entity_has_children" });
  });

  test("W33: a list goes on where it was, whatever was deleted or added meanwhile", async () => {
    const scene = await table.newScene();
    const { limiter } = await scene.process();
    for (const id of ["a", "b", "c", "d", "e"]) await limiter.createEntity({ id });
    const first = await limiter.listEntities({ limit: 2 });
    await limiter.deleteEntity("b");
    await limiter.createEntity({ id: "a2" });
    await limiter.createEntity({ id: "b2" });
    assert.ok(first.cursor !== undefined);
    const rest = await limiter.listEntities({ limit: 10, cursor: first.cursor });
    assert.deepEqual(
      [...first, ...rest].map(({ id }) => id),
      ["a", "b", "b2", "c", "d", "e"],
    );
  });

  deepTest("W33: more than a hundred entities on a resource are all counted, whatever the index projects", async () => {
    const scene = await table.newScene();
    const { limiter } = await scene.process();
    await limiter.setSystemDefaults(rpm(10));
    await take(limiter, "e-0", { rpm: 4 });
    const first = (await scene.bucket("e-0")) as Attributes;
    const ids = Array.from({ length: 230 }, (_, i) => `e-${i}`);
    await scene.put(ids.map((id) => renamed(first, "e-0", id)));
    const { totalCapacity, totalAvailable, entities } = await limiter.resourceCapacity("api", "rpm");
    assert.deepEqual([totalCapacity, totalAvailable, entities.length], [2_300, 1_380, 230]);
    // The items that stand for them are those of somebody: they go with him.
    for (const id of ["e-0", "e-7"]) {
      await limiter.createEntity({ id });
      await limiter.deleteEntity(id);
    }
    assert.equal((await limiter.resourceCapacity("api", "rpm")).entities.length, 228);
  });

  test("W33: who creates one entity at once with others is the one, or is told so", async () => {
    const scene = await table.newScene();
    const processes = await Promise.all(Array.from({ length: 4 }, () => scene.process()));
    const outcomes = await Promise.allSettled(
      processes.map(({ limiter }, i) => limiter.createEntity({ id: "a", name: `by ${i}` })),
    );
    const made = outcomes.flatMap((outcome) => (outcome.status === "fulfilled" ? [outcome.value.name] : []));
    const told = outcomes.flatMap((outcome) => (outcome.status === "rejected" ? [outcome.reason.code] : []));
    assert.deepEqual(told, ["entity_exists", "entity_exists", "entity_exists"]);
    assert.deepEqual([(await processes[0]?.limiter.getEntity("a"))?.name], made);
    const { events } = (await processes[0]?.limiter.auditEvents({ entityId: "a" })) ?? { events: [] };
    assert.equal(events.length, 1);
  });

  test("W34: who only takes hears that its namespace was deleted, one TTL later, and leaves nothing behind in it", async () => {
    const scene = await table.newScene();
    const { limiter: worker } = await scene.process();
    const { limiter: admin } = await scene.process({ namespace: "default" });
    await worker.setSystemDefaults(rpm(10));
    await take(worker, "a", { rpm: 1 });
    await admin.deleteNamespace(scene.namespace);
    await scene.clock.advance(MINUTE_MS);
    for (const id of ["a", "new"]) await assert.rejects(take(worker, id, { rpm: 1 }), NotFoundError);
    const steps: number[] = [];
    const { records } = await admin.purgeNamespace(scene.namespaceId, { onProgress: (gone) => steps.push(gone) });
    assert.equal(steps.at(-1), records);
    assert.deepEqual(await keysIn(scene), []);
    for (const id of ["a", "new"]) await assert.rejects(take(worker, id, { rpm: 1 }), NotFoundError);
    assert.deepEqual(await keysIn(scene), []);
  });

  test("W34: a limiter that purges its own namespace leaves nothing in it, not even the event", async () => {
    const scene = await table.newScene();
    const { limiter } = await scene.process();
    await limiter.setSystemDefaults(rpm(10));
    await limiter.deleteNamespace(scene.namespace);
    await limiter.purgeNamespace(scene.namespaceId);
    assert.deepEqual(await keysIn(scene), []);
  });

  test("W34: a purge is not stopped by a provisioner that names the same twice", async () => {
    const scene = await table.newScene();
    const { limiter } = await scene.process();
    await limiter.setLimits("a", rpm(1), { resource: "api" });
    const { pk, sk } = provisionerKey(scene.namespaceId);
    const twice = { L: [S("api"), S("api")] };
    await scene.put([{ PK: S(pk), SK: S(sk), managed_resources: twice, managed_entities: { M: { a: twice } } }]);
    const { limiter: admin } = await scene.process({ namespace: "default" });
    await admin.deleteNamespace(scene.namespace);
    await admin.purgeNamespace(scene.namespaceId);
    assert.deepEqual(await keysIn(scene), []);
  });

  test("W35: events that are gone by the time they are looked up do not end the list before its end", async () => {
    const scene = await table.newScene();
    const { limiter, wire } = await scene.process();
    for (let i = 0; i < 6; i++) await limiter.setLimits(`e${i}`, rpm(1));
    const gone = auditPk(scene.namespaceId, "e4");
    wire.fault = async ({ operation, send }) => {
      const answer = await send();
      if (operation !== "BatchGetItem" || answer.kind !== "answered") return answer;
      const found = (answer.body.Responses as Record<string, readonly Attributes[]>)[scene.table] ?? [];
      return { ...answer, body: { Responses: { [scene.table]: found.filter(({ PK }) => PK?.S !== gone) } } };
    };
    const listed: string[] = [];
    for await (const { entityId } of limiter.auditEvents({ limit: 2 })) listed.push(entityId);
    assert.deepEqual(listed, ["e5", "e3", "e2", "e1", "e0"]);
  });

  test("W35: the event of a top-up stands where the original looks for it, by the name of its sort key", async () => {
    const scene = await table.newScene();
    const { limiter } = await scene.process();
    await limiter.setSystemDefaults([Limit.quota("q", 10, { reset: { cron: "0 0 * * *" } })]);
    await limiter.topUp({ entityId: "a", resource: "api", amounts: { q: 5 } });
    await limiter.resetBucket({ entityId: "a", resource: "api" });
    const items = scene.records.query({ partition: auditPk(scene.namespaceId, "a") });
    let count = 0;
    for await (const { SK, event_id } of items) {
      assert.equal(`#AUDIT#${event_id?.S}`, SK?.S);
      count++;
    }
    assert.equal(count, 2);
    const { events } = await limiter.auditEvents({ entityId: "a" });
    assert.equal(new Set(events.map(({ eventId }) => eventId)).size, 2);
  });

  test("W35: a change that DynamoDB cannot hold changes nothing, and leaves no event", async () => {
    const scene = await table.newScene();
    const { limiter } = await scene.process({ onUnavailable: "allow" });
    const vast = { id: "a", metadata: { note: "n".repeat(410_000) } };
    await assert.rejects(limiter.createEntity(vast), { code: "store_refused" });
    await assert.rejects(limiter.getEntity("a"), NotFoundError);
    assert.deepEqual((await limiter.auditEvents()).events, []);
  });

  test("W39: usage is told by hour, day and month, which begin together, and summed up", async () => {
    const scene = await table.newScene();
    const { limiter } = await scene.process();
    await limiter.setSystemDefaults([Limit.perMinute("rpm", 100)]);
    const midnight = Date.UTC(2026, 2, 1);
    for (const [id, hour, rpm] of [
      ["a", 0, 3],
      ["b", 0, 50],
      ["a", 5, 4],
    ] as const) {
      scene.clock.set(midnight + hour * HOUR_MS);
      await take(limiter, id, { rpm });
    }
    const counted = async (query: Parameters<RateLimiter["usage"]>[0]) =>
      (await limiter.usage(query)).map(({ entityId, windowStartMs, counters, requests }) => [
        ...[entityId, (windowStartMs - midnight) / HOUR_MS, counters.rpm, requests],
      ]);
    assert.deepEqual(await counted({ entityId: "a", window: "hourly" }), [
      ["a", 0, 3, 1],
      ["a", 5, 4, 1],
    ]);
    assert.deepEqual(await counted({ resource: "api", window: "hourly", toMs: midnight + HOUR_MS }), [
      ["a", 0, 3, 1],
      ["b", 0, 50, 1],
    ]);
    assert.deepEqual(await counted({ entityId: "a", window: "daily" }), [["a", 0, 7, 2]]);
    assert.deepEqual(await counted({ entityId: "a", resource: "api", window: "monthly" }), [["a", 0, 7, 2]]);
    assert.equal((await counted({ window: "hourly" })).length, 3);
    const { total, snapshotCount, requests } = await limiter.usageSummary({ resource: "api", window: "hourly" });
    assert.deepEqual([total, snapshotCount, requests], [{ rpm: 57 }, 3, 3]);
  });

  deepTest("W39: usage of more than a hundred entities is told whole, from an index that has keys only", async () => {
    const scene = await table.newScene();
    const { limiter } = await scene.process();
    await limiter.setSystemDefaults([Limit.perMinute("rpm", 100)]);
    await Promise.all(Array.from({ length: 230 }, (_, i) => take(limiter, `e-${i}`, { rpm: 1 })));
    const { total, snapshotCount } = await limiter.usageSummary({ resource: "api", window: "hourly" });
    assert.deepEqual([total, snapshotCount], [{ rpm: 230 }, 230]);
    let listed = 0;
    for await (const { counters } of limiter.usage({ resource: "api", window: "hourly", limit: 60 })) {
      listed += counters.rpm ?? 0;
    }
    assert.equal(listed, 230);
  });

  test("W20, W34: nothing is made that was not asked for: no namespace, no table, no entity, no bucket", async () => {
    const { way, id } = await table.newNamespace();
    const scene = await table.newScene();
    const { stack: _, ...connection } = way;
    const missing = { ...connection, store: `dynamodb:${way.stack}`, namespace: "nobody-made-this", timeoutMs: 10_000 };
    await assert.rejects(RateLimiter.open(missing), NotFoundError);
    await assert.rejects(openDynamo({ ...way, stack: `${way.stack}-other` }), NotFoundError);
    const { limiter } = await scene.process();
    const before = await keysIn(scene);
    await assert.rejects(limiter.getEntity("a"), NotFoundError);
    await assert.rejects(limiter.createEntity({ id: "a", parentId: "nobody" }), NotFoundError);
    await assert.rejects(take(limiter, "a", { rpm: 1 }), { code: "limits_missing" });
    assert.deepEqual(await limiter.getLimits("a"), []);
    assert.equal(await limiter.deleteLimits("a"), false);
    assert.deepEqual((await limiter.resourceCapacity("api", "rpm")).entities, []);
    assert.deepEqual(await keysIn(scene), before);
    assert.deepEqual(await keysIn({ records: scene.records, namespaceId: id }), []);
  });
});

/** The item of somebody with another name; each has its own in many attributes. */
function renamed(item: Attributes, from: string, to: string): Attributes {
  const part = new RegExp(`(?<=^|[#/])${from}(?=$|[#/])`, "g");
  return Object.fromEntries(
    Object.entries(item).map(([name, value]) => [
      name,
      value.S === undefined ? value : { S: value.S.replace(part, to) },
    ]),
  );
}

/** The keys of everything that is in a namespace, by its index. */
async function keysIn({ records, namespaceId }: Pick<Scene, "records" | "namespaceId">): Promise<readonly string[]> {
  const keys: string[] = [];
  const items = records.query({ index: NAMESPACE_INDEX, partition: namespaceId, keysOnly: true });
  for await (const { PK, SK } of items) keys.push(`${PK?.S} ${SK?.S}`);
  return keys.toSorted();
}
