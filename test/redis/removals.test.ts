import assert from "node:assert/strict";
import { test } from "node:test";
import { openHourOf } from "../../src/adapters/redis/bucket-bytes.ts";
import type { Connection } from "../../src/adapters/redis/connection.ts";
import { namespaceKeys } from "../../src/adapters/redis/keys.ts";
import { RedisRecords } from "../../src/adapters/redis/records.ts";
import type { AuditEvent } from "../../src/domain/config/audit.ts";
import { Limit, RateLimiter } from "../../src/entry/index.ts";
import type { CommitReply, RecordCommit, RecordPut } from "../../src/ports/record-store.ts";
import { connectionTo, newPrefix } from "./kit.ts";
import { describeRedis } from "./redis-server.ts";

const HOUR_MS = 3_600_000;
const BARE = { deletes: [], puts: [], event: undefined, bumps: [], touched: [], sent: "first" } as const;
const EVENT: AuditEvent = {
  eventId: "e1",
  atMs: 5,
  action: "namespace_deleted",
  entityId: "$NAMESPACE:a",
  details: {},
};

/** The connection, which ends before the script is sent that `isCut` names by its number. */
function cutting(connection: Connection, isCut: (run: number) => boolean): Connection {
  let runs = 0;
  return new Proxy(connection, {
    get: (target, name) => {
      if (name === "run") {
        return (...args: Parameters<Connection["run"]>) =>
          isCut(++runs) ? Promise.reject(new Error("Connection is closed.")) : target.run(...args);
      }
      const value = Reflect.get(target, name, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

await describeRedis("what is removed from Redis", ({ url }) => {
  const recordsOn = (connection: Connection) => new RedisRecords(connection, 30_000, openHourOf);
  /** All keys of a namespace, without their beginning. */
  const keysIn = async (connection: Connection, prefix: string, namespaceId: string): Promise<readonly string[]> => {
    const begin = `{${prefix}:${namespaceId}}`;
    const [found] = await connection.send([["KEYS", `${begin}*`]]);
    return (found as readonly Uint8Array[]).map((key) => Buffer.from(key).toString().slice(begin.length)).toSorted();
  };

  test("an entity goes with limits, buckets, usage, refusals and every entry of an index", async () => {
    const prefix = newPrefix();
    const connection = connectionTo(url, prefix);
    const limiter = await RateLimiter.open({ store: `${url}?prefix=${prefix}`, configTtlMs: 0 });
    await limiter.createEntity({ id: "a" });
    await limiter.setLimits("a", [Limit.perDay("all", 3)], { resource: "api" });
    for (let i = 0; i < 4; i++) await limiter.tryAcquire({ entityId: "a", resource: "api", consume: { all: 1 } });
    await limiter.resetBucket({ entityId: "a", resource: "api", idempotencyKey: "k" });
    await limiter.deleteEntity("a");
    await limiter.createEntity({ id: "a" });
    assert.deepEqual(
      await limiter
        .available({ entityId: "a", resource: "api", limits: [Limit.perDay("all", 3)] })
        .then(([one]) => one?.available),
      3,
    );
    await limiter.deleteEntity("a");
    await limiter.close();
    // What stays: the log, numbers, counts that the process writes afterwards or for others, and entries that go with their time.
    const left = (await keysIn(connection, prefix, "default")).filter(
      (key) => !/^(a#|v#|w#|x[aovw]$|Xa$|an$|gc?$|n$|s$|i#|[fqy]#|[xX][fqy]$)/.test(key),
    );
    assert.deepEqual(left, []);
  });

  test("thousands of counts of an entity go in chunks, and another process goes on where one was cut off", async () => {
    const prefix = newPrefix();
    const connection = connectionTo(url, prefix);
    const records = recordsOn(connection);
    const puts = Array.from({ length: 2_500 }, (_, i): RecordPut => {
      const body = { version: 1, counts: [{ limit: "rpm", level: "a", total: false, count: 1 }] };
      return { kind: "refusal", key: [String(i * HOUR_MS), "a", "api", "w"], by: {}, body };
    });
    const guard = { kind: "versions", versions: [] } as const;
    await records.commit({ ...BARE, scope: "n1", guard, puts });
    const count = async (store: RedisRecords) => {
      const spans = [{ startMs: 0, endMs: 2_500 * HOUR_MS }];
      const of = { entityId: "a", resource: undefined, limit: undefined, after: undefined, limitMax: 10 };
      return Number((await store.sums("n1", { kind: "refusal", spans, ...of })).sums[0]?.counts.count ?? 0);
    };
    assert.equal(await count(records), 2_500);
    // The third script is a chunk.
    const cut = recordsOn(cutting(connection, (run) => run > 3));
    const deletes = [{ kind: "everythingOf", entityId: "a" }] as const;
    const reply = await cut.commit({
      ...BARE,
      scope: "n1",
      guard: { kind: "generation", generation: 0 },
      deletes,
      bumps: ["n1"],
    });
    assert.equal(reply.kind, "unavailable");
    const left = await count(records);
    assert.ok(left > 0 && left < 2_500, `${left} are left`);
    // A count of after the deletion stays.
    await records.commit({ ...BARE, scope: "n1", guard, puts: [puts[0] as RecordPut] });
    await records.commit({
      ...BARE,
      scope: "",
      guard,
      puts: [{ kind: "namespace", key: ["n1"], by: { name: "n1", status: "active" }, body: {} }],
    });
    const bounds = {
      nowMs: 0,
      usageUntilMs: undefined,
      logUntilMs: undefined,
      auditUntilMs: 0,
      operationsUntilMs: 0,
      limitMax: 200,
    };
    assert.ok((await records.expire(bounds)) >= left - 1);
    assert.equal(await count(records), 1);
    await records.drained();
  });

  test("a change of a namespace that was cut off anywhere is finished by the next who looks, and is never made twice", async () => {
    for (let cutAt = 1; cutAt <= 6; cutAt++) {
      const prefix = newPrefix();
      const connection = connectionTo(url, prefix);
      const records = recordsOn(connection);
      const commit: RecordCommit = {
        ...{ ...BARE, scope: "", guard: { kind: "generation", generation: 0 }, bumps: ["", "n1", "n2"] },
        puts: [{ kind: "namespace", key: ["n1"], by: { name: "a", status: "deleted" }, body: { status: "deleted" } }],
        event: { event: EVENT, auditIn: "n2" },
      };
      const cut = recordsOn(cutting(connection, (run) => run >= cutAt));
      const first: CommitReply = await cut.commit(commit);
      const again = await records.commit({ ...commit, sent: "again" });
      assert.equal(again.kind, "done");
      if (first.kind !== "done") assert.equal(first.kind, "unavailable");
      for (const scope of ["", "n1", "n2"])
        assert.equal((await records.get(scope, [])).generation, 1, `${scope}, cut at ${cutAt}`);
      const { records: own } = await records.get("n1", [{ kind: "namespace", key: ["n1"] }]);
      assert.deepEqual(own[0]?.body, { status: "deleted" });
      const { records: events } = await records.list("n2", { kind: "audit", of: "all" }, undefined, 10);
      assert.deepEqual(
        events.map(({ body }) => body),
        [EVENT],
      );
      await cut.drained();
    }
  });

  test("a purge removes all keys of a namespace but its numbers", async () => {
    const prefix = newPrefix();
    const connection = connectionTo(url, prefix);
    const limiter = await RateLimiter.open({ store: `${url}?prefix=${prefix}` });
    const { id } = await limiter.registerNamespace("tenant");
    const tenant = limiter.namespace("tenant");
    await tenant.setSystemDefaults([Limit.perDay("all", 3)]);
    await tenant.createEntity({ id: "a" });
    for (let i = 0; i < 5; i++) await tenant.tryAcquire({ entityId: "a", resource: "api", consume: { all: 1 } });
    await limiter.deleteNamespace("tenant");
    await limiter.purgeNamespace(id);
    await limiter.close();
    const kept = [namespaceKeys(prefix, id).generation, namespaceKeys(prefix, id).writes].map(
      (key) => key.split("}")[1],
    );
    const left = await keysIn(connection, prefix, id);
    assert.deepEqual(
      left.filter((key) => !["an", "s", ...kept].includes(key)),
      [],
    );
  });
});
