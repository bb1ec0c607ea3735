import assert from "node:assert/strict";
import { test } from "node:test";
import type { RedisConnection } from "../../src/adapters/redis/connection.ts";
import { namespaceKeys } from "../../src/adapters/redis/keys.ts";
import { bucketKey } from "../../src/domain/bucket/bucket-key.ts";
import type { StraightRow } from "../../src/ports/batch-store.ts";
import { batchesOn } from "./batches-kit.ts";
import { connectionTo, newPrefix } from "./kit.ts";
import { describeRedis } from "./redis-server.ts";

const T0 = Date.UTC(2026, 2, 15, 12);
const KEY = bucketKey("a", "api");

const ROW: StraightRow = {
  ...{ signature: "s", limitsText: "[]", epochMs: T0, renewAtMs: T0 + 3_600_000, validUntilMs: null, writtenMs: null },
  ...{ asOfMs: T0, generation: 1, metNumber: 1, hourMs: T0, requests: 3 },
  levels: [
    {
      ...{ name: "rpm", capacityMilli: 9_000, refillAmountMilli: 9_000, refillPeriodMs: 60_000, soft: false },
      ...{ windowMs: 0, tokensMilli: 4_000, remainder: 0, countedMilli: 5_000, windowStartMs: null },
      ...{ topUpMilli: 0, resets: 0 },
    },
  ],
};

/** The connection, with something that happens before a script of this name runs for the first time. */
function before(connection: RedisConnection, name: string, happens: () => Promise<unknown>): RedisConnection {
  let isOver = false;
  return {
    name: connection.name,
    run: async (script, ...given) => {
      const isMeant = script.name === name && !isOver;
      isOver ||= isMeant;
      if (isMeant) await happens();
      return connection.run(script, ...given);
    },
    send: (...given) => connection.send(...given),
    close: () => connection.close(),
  };
}

await describeRedis("rows of buckets on Redis", ({ url, ask }) => {
  const opened = () => {
    const prefix = newPrefix();
    const connection = connectionTo(url, prefix);
    const at = namespaceKeys(prefix, "default");
    const hour = at.usage(KEY.entityId, KEY.resource, T0);
    const usage = async () => {
      const [text] = await connection.send([["GET", hour]]);
      return text === null ? undefined : (JSON.parse(Buffer.from(text as Uint8Array).toString("utf8")) as unknown);
    };
    return {
      connection,
      at,
      hour,
      usage,
      store: batchesOn(connection, prefix),
      on: (by: RedisConnection) => batchesOn(by, prefix),
    };
  };
  const versionOf = async (store: ReturnType<typeof batchesOn>) =>
    (await store.read("default", [KEY]))[0]?.version ?? 0;

  test("a bucket that changes while it is about to be forgotten stays, and its usage is not counted twice", async () => {
    const { connection, store, on, usage } = opened();
    await store.putBuckets("default", [{ key: KEY, row: ROW, marks: null }]);
    const version = await versionOf(store);
    const late = on(before(connection, "swap", () => store.mark("default", KEY, { seen: null, next: "{}" })));
    assert.equal(await late.forget("default", [{ key: KEY, version, left: [] }]), 0);
    assert.equal(await usage(), undefined);
    assert.equal((await store.read("default", [KEY]))[0]?.marks, "{}");
  });

  test("what others count in an hour while a bucket leaves its own there is added up", async () => {
    const { connection, store, on, usage, hour } = opened();
    await store.putBuckets("default", [{ key: KEY, row: ROW, marks: null }]);
    const version = await versionOf(store);
    const others = JSON.stringify({ rpm: "9007199254740993", tpm: "-5" });
    const late = on(before(connection, "swap", () => connection.send([["SET", hour, others]])));
    assert.equal(await late.forget("default", [{ key: KEY, version, left: [] }]), 1);
    assert.deepEqual(await usage(), { rpm: "9007199254745993", tpm: "-5", "#requests": "3" });
    assert.deepEqual(await store.read("default", [KEY]), [undefined]);
  });

  test("a purchase that is overtaken by another write of the row is told so, and nothing of it is there", async () => {
    const { connection, store, on, at } = opened();
    await store.putBuckets("default", [{ key: KEY, row: ROW, marks: null }]);
    const version = await versionOf(store);
    const late = on(before(connection, "swap", () => store.mark("default", KEY, { seen: null, next: "{}" })));
    const operation = {
      ...{ namespaceId: "default", bucket: KEY, idempotencyKey: "k", forgottenMs: 0, nowMs: T0, amountsText: "[]" },
      event: { eventId: "e", atMs: T0, action: "bucket_reset", entityId: "a", details: {} } as const,
      brought: { version, row: { ...ROW, requests: 9 }, left: [] },
    };
    assert.deepEqual(await late.operate(operation), { kind: "moved" });
    assert.equal(await store.operated(operation), undefined);
    assert.deepEqual(await connection.send([["EXISTS", at.audit(1)]]), [0]);
    const again = { ...operation, brought: { ...operation.brought, version: await versionOf(store) } };
    assert.deepEqual(await store.operate(again), { kind: "done" });
    assert.deepEqual(await store.operate(again), { kind: "known", amountsText: "[]" });
  });

  test("counts beside the row are exact, however many of a batch there are and however large they are", async () => {
    const { store, usage } = opened();
    await store.putBuckets("default", [{ key: KEY, row: ROW, marks: null }]);
    const milli = 999_999_999_999_999;
    for (const [seq, sign] of [1, -1, -1].entries()) {
      const claim = {
        ...{ bucket: 0, signature: "s", changeNumber: -1, origin: undefined, amounts: [null], isSummable: false },
        ...{ bypass: false, leavePercent: 0, shadows: [], pins: undefined, judgedMs: null, lost: undefined },
        strays: [{ limit: "tpm", milli: sign * milli }],
      };
      const request = {
        kind: "debit",
        nowMs: T0,
        generation: 0,
        isNoted: false,
        claims: [claim],
        draft: undefined,
      } as const;
      const reply = await store.apply(
        {
          ...{ namespaceId: "default", lane: "l", seq, isRepeat: false, countsUsage: true, aheadMaxMs: undefined },
          ...{
            goesBy: [],
            buckets: [{ key: KEY, brought: undefined }],
            requests: Array.from({ length: 64 }, () => request),
          },
        },
        5_000,
      );
      assert.equal(reply.kind, "done");
      const sum = BigInt([64, 0, -64][seq] as number) * BigInt(milli);
      assert.deepEqual(await usage(), { tpm: String(sum) });
    }
  });

  test("a bucket in no form that is known is told, and taken from by nobody", async () => {
    const { connection, store, at } = opened();
    await connection.send([["SET", at.bucket(KEY), "hello, this is the value of somebody else, and of no bucket"]]);
    const claim = {
      ...{ bucket: 0, signature: "s", changeNumber: -1, origin: undefined, amounts: [1_000], isSummable: true },
      ...{ bypass: false, leavePercent: 0, shadows: [], pins: undefined, judgedMs: null, strays: [], lost: undefined },
    };
    const request = {
      kind: "take",
      nowMs: T0,
      generation: 0,
      isNoted: false,
      claims: [claim],
      draft: undefined,
    } as const;
    const batch = {
      ...{ namespaceId: "default", lane: "l", seq: 1, isRepeat: false, countsUsage: true, aheadMaxMs: undefined },
      ...{ goesBy: [], buckets: [{ key: KEY, brought: undefined }], requests: [request] },
    };
    await assert.rejects(store.apply(batch, 5_000), /is in no form that is known/);
    const damaged = { ...ROW, levels: ROW.levels.map((level) => ({ ...level, tokensMilli: Number.NaN })) };
    await store.putBuckets("default", [{ key: KEY, row: damaged, marks: null }]);
    const reply = await store.apply({ ...batch, seq: 2 }, 5_000);
    assert.equal(reply.kind === "done" && reply.replies[0]?.kind, "short");
  });

  test("a batch that too few replicas have confirmed is not known to be applied", async () => {
    const prefix = newPrefix();
    const store = batchesOn(connectionTo(url, prefix), prefix, { replicas: { count: 1, timeoutMs: 10 } });
    const batch = {
      ...{ namespaceId: "default", lane: "l", seq: 1, isRepeat: true, countsUsage: true, aheadMaxMs: undefined },
      ...{ goesBy: [], buckets: [{ key: KEY, brought: undefined }], requests: [] },
    };
    const sets = async () => Number(/cmdstat_mset:calls=(\d+)/.exec(await ask("INFO", "commandstats"))?.[1] ?? 0);
    const first = await sets();
    for (const written of [1, 2]) {
      const reply = await store.apply(batch, 5_000);
      assert.equal(reply.kind === "unavailable" && reply.applied, "unknown");
      // A repeat writes again, for a replica to confirm: what it finds done may have come by another connection.
      assert.equal((await sets()) - first, written);
    }
  });
});
