import assert from "node:assert/strict";
import { test } from "node:test";
import type { Attributes } from "../../src/adapters/dynamodb/codec.ts";
import { entityKey, itemPlace, itemTableKey, usageIndexKeys, usageKey } from "../../src/adapters/dynamodb/schema.ts";
import { bucketKey } from "../../src/domain/bucket/bucket-key.ts";
import { Limit } from "../../src/domain/limits/limit.ts";
import { neverCharged } from "../../src/engine/limiter/never-charged.ts";
import { claim, T0 } from "../kit/contract-kit.ts";
import { describeDynamo } from "./dynamodb-local.ts";
import { type Ground, N, newGround, S } from "./store-kit.ts";

const rpm = [Limit.perMinute("rpm", 10)];

await describeDynamo("a table that the original works on, too", (dynamodb) => {
  test("limits of an entity are brought to its live buckets, not only announced (rule 9)", async (t) => {
    const ground = await newGround(dynamodb, t, { shared: true });
    const { place } = ground;
    await place.take([claim("a", rpm, { rpm: 1 })], T0);
    await place.set({ level: "entity", entityId: "a", resource: "api" }, [Limit.perMinute("rpm", 40)]);
    assert.deepEqual((await bucketOf(ground, 0)).b_rpm_cp, N(40_000));
    await place.set({ level: "entityDefault", entityId: "a" }, [Limit.perMinute("rpm", 50)]);
    assert.deepEqual((await bucketOf(ground, 0)).b_rpm_cp, N(40_000));
    await place.scope.config.delete(
      { level: "entity", entityId: "a", resource: "api" },
      place.event("limits_deleted", "a"),
      "all",
    );
    assert.deepEqual((await bucketOf(ground, 0)).b_rpm_cp, N(50_000));
  });

  test("a limit that counts something else than its name is refused: the original would not charge it", async (t) => {
    const { place } = await newGround(dynamodb, t, { shared: true });
    const month = [Limit.perMinute("month", 10, { counts: "tpm" })];
    const scope = { level: "entity", entityId: "a", resource: "api" } as const;
    await assert.rejects(async () => place.set(scope, month), { code: "shared_table", message: /"month" counts tpm/ });
    assert.equal(await place.scope.config.get(scope), undefined);
    await assert.rejects(async () => place.take([claim("a", month, { month: 1 })], T0), { code: "shared_table" });
    await place.set(scope, [Limit.perMinute("requests", 10)]);
    assert.equal(await place.grants(claim("a", [Limit.perMinute("requests", 10)], { requests: 1 }), T0), true);
  });

  test("limits are brought to a live bucket also by a process that has not met it (rule 9)", async (t) => {
    const ground = await newGround(dynamodb, t, { shared: true });
    await ground.place.take([claim("a", rpm, { rpm: 1 })], T0);
    const { place } = await ground.another();
    await place.set({ level: "entity", entityId: "a", resource: "api" }, [Limit.perMinute("rpm", 40)]);
    assert.deepEqual((await bucketOf(ground, 0)).b_rpm_cp, N(40_000));
  });

  test("a bucket that is made says who owns it, as it is at that moment (rule 18)", async (t) => {
    const ground = await newGround(dynamodb, t, { shared: true });
    const { place, records, namespaceId, wire } = ground;
    await place.create({ id: "one" });
    await place.create({ id: "two" });
    await place.create({ id: "a", parentId: "one", cascade: true });
    const other = await ground.another();
    let isMoved = false;
    wire.fault = async ({ operation, send }) => {
      // Read already, and not written yet: somebody moves it.
      if (operation === "TransactWriteItems" && !isMoved) {
        isMoved = true;
        const change = { patch: { parentId: "two" }, version: undefined, nowMs: T0 };
        await other.place.scope.entities.update("a", change, place.event("entity_updated", "a"));
      }
      return send();
    };
    const [answer] = await place.take([claim("a", rpm, { rpm: 1 })], T0);
    assert.equal(answer?.kind, "taken");
    assert.ok(isMoved);
    const meta = await records.get(entityKey(namespaceId, "a"));
    const { cascade, parent_id, pgen, pinc } = await bucketOf(ground, 0);
    assert.deepEqual([cascade, parent_id, pgen, pinc], [{ BOOL: true }, S("two"), meta?.pgen, meta?.pinc]);
    assert.equal(answer.kind === "taken" && (await place.level("a", "rpm", T0)), 9_000);
  });

  test("a bucket of nobody in particular is made as such, and one that is there already is not made (rule 18)", async (t) => {
    const { place, wire, ...ground } = await newGround(dynamodb, t, { shared: true });
    const { place: other } = await ground.another();
    wire.fault = async ({ operation, send }) => {
      if (operation === "TransactWriteItems") await other.take([claim("a", rpm, { rpm: 4 })], T0);
      return send();
    };
    const [answer] = await place.take([claim("a", rpm, { rpm: 1 })], T0);
    assert.equal(answer?.kind, "taken");
    assert.equal(await other.level("a", "rpm", T0), 5_000);
    const { cascade, parent_id, pgen } = await bucketOf({ ...ground, place, wire }, 0);
    assert.deepEqual([cascade, parent_id, pgen], [{ BOOL: false }, undefined, undefined]);
  });

  test("usage that nobody aggregates is an error, not nothing", async (t) => {
    const { place, put, namespaceId } = await newGround(dynamodb, t, { shared: true });
    const ever = { window: "hourly", fromMs: 0, toMs: Number.MAX_SAFE_INTEGER } as const;
    const asked = (of: { entityId?: string; resource?: string }) =>
      Promise.resolve(place.scope.usage.query({ ...ever, ...of }, { limit: 10 }));
    const ways = [{}, { entityId: "a" }, { resource: "api" }, { entityId: "a", resource: "api" }];
    // Nothing was used, so nothing is right.
    for (const scope of ways) assert.deepEqual(await asked(scope), { items: [] });
    await place.take([claim("a", rpm, { rpm: 1 })], T0);
    for (const scope of ways) {
      await assert.rejects(asked(scope), {
        code: "usage_not_aggregated",
        httpStatus: 503,
        message: /api.*sharedTable/s,
      });
    }
    // Then nobody knows to what nothing was ever charged, and `explain` leaves it out.
    assert.deepEqual(await neverCharged(place.scope, bucketKey("a", "api"), ["rpm"]), new Set());
    // Of somebody, and on something, that was never used.
    for (const scope of [{ entityId: "b" }, { resource: "other" }, { entityId: "a", resource: "other" }]) {
      assert.deepEqual(await asked(scope), { items: [] });
    }
    // Somebody aggregates: what is not there yet is late, or another time's.
    const usage = { entityId: "z", resource: "api", window: "hourly", windowStartMs: T0 } as const;
    const index = Object.entries(usageIndexKeys(namespaceId, usage)).map(([name, value]) => [name, S(value)] as const);
    await put(usageKey(namespaceId, usage), { ...Object.fromEntries(index), window: S("hourly") });
    for (const scope of [{ entityId: "a" }, { entityId: "a", resource: "api" }]) {
      assert.deepEqual(await asked(scope), { items: [] });
    }
  });

  test("on a table of our own nothing of that is read or written", async (t) => {
    const { place, wire, ...ground } = await newGround(dynamodb, t);
    await place.take([claim("b", rpm, { rpm: 1 })], T0);
    const calls = await wire.during(() => place.take([claim("a", rpm, { rpm: 1 })], T0));
    assert.deepEqual(calls, ["BatchGetItem", "PutItem"]);
    assert.equal("cascade" in (await bucketOf({ ...ground, place, wire }, 0)), false);
  });

  test("a move tells the buckets who the parent is, but not over what a later one told (rule 19)", async (t) => {
    const ground = await newGround(dynamodb, t, { shared: true });
    const { place, put, records, namespaceId } = ground;
    await place.create({ id: "root" });
    await place.create({ id: "a", cascade: true });
    const meta = await records.get(entityKey(namespaceId, "a"));
    const of = async (shard: number, more: Attributes) => {
      const key = { bucket: bucketKey("a", "api"), shard };
      const index = Object.entries(itemPlace(namespaceId, key)).map(([name, value]) => [name, S(value)] as const);
      await put(itemTableKey(namespaceId, key), {
        ...Object.fromEntries(index),
        ...{ rf: N(T0), shard_count: N(4), b_rpm_tk: N(1000), b_rpm_cp: N(10_000), b_rpm_ra: N(10_000) },
        ...{ b_rpm_rp: N(60_000), b_rpm_tc: N(0), cascade: { BOOL: false } },
        ...more,
      });
    };
    await of(0, {});
    await of(1, { pgen: N(T0), pinc: meta?.pinc ?? S("") });
    await of(2, { pgen: N(T0 + 9), pinc: meta?.pinc ?? S("") });
    await of(3, { pgen: N(T0), pinc: S("another") });
    const change = { patch: { parentId: "root" }, version: undefined, nowMs: T0 };
    await place.scope.entities.update("a", change, place.event("entity_updated", "a"));
    for (const [shard, parent] of [
      [0, "root"],
      [1, "root"],
      [2, undefined],
      [3, undefined],
    ] as const) {
      const { parent_id, pgen, cascade } = await bucketOf(ground, shard);
      assert.equal(parent_id?.S, parent, `shard ${shard}`);
      if (parent !== undefined) assert.deepEqual([pgen, cascade], [N(T0 + 1), { BOOL: true }]);
    }
  });
});

async function bucketOf({ records, namespaceId }: Ground, shard: number): Promise<Attributes> {
  const item = await records.get(itemTableKey(namespaceId, { bucket: bucketKey("a", "api"), shard }));
  assert.ok(item !== undefined);
  return item;
}
