import assert from "node:assert/strict";
import { test } from "node:test";
import { bucketKey } from "../../src/domain/bucket/bucket-key.ts";
import type { AuditEvent } from "../../src/domain/config/audit.ts";
import { Limit } from "../../src/domain/limits/limit.ts";
import { limitSet } from "../../src/domain/limits/limit-set.ts";
import { openPostgres } from "../../src/entry/postgres.ts";
import type { BucketStore } from "../../src/ports/bucket-store.ts";
import { SeededRandom } from "../../src/testing/random.ts";
import { seeds } from "../depth.ts";
import { madeAnew } from "../straight/made-anew.ts";
import { bucketsOn, sameAsMemory } from "../straight/same-as-memory.ts";
import { unseenEnd } from "../straight/unseen-end.ts";
import { batchesOn, openSchema } from "./kit.ts";
import { describePostgres } from "./postgres.ts";

await describePostgres("takes on PostgreSQL", ({ url, newSchema }) => {
  for (const seed of seeds(3, 10)) {
    test(`random calls are answered as by memory, seed ${seed}`, async () => {
      const connection = await openSchema(url, newSchema(), { poolMax: 4, timeoutMs: 30_000 });
      const random = new SeededRandom(seed);
      const processes = [1, 2].map(() => bucketsOn(batchesOn(connection), random, { coalesce: true }));
      await sameAsMemory(random, 300, processes, seed % 2 === 0 ? "one" : "several");
      await connection.close();
    });
  }

  test("what a process remembers of a forgotten bucket does not fill the one that was made after it", async () => {
    const connection = await openSchema(url, newSchema(), { poolMax: 4, timeoutMs: 30_000 });
    const store = batchesOn(connection);
    const [first, second] = [1, 2].map((seed) => bucketsOn(store, new SeededRandom(seed), { coalesce: true }));
    await madeAnew(store, [first as BucketStore, second as BucketStore]);
    await connection.close();
  });

  test("a lease finds the end of an override that another process has brought to its bucket", async () => {
    const connection = await openSchema(url, newSchema(), { poolMax: 4, timeoutMs: 30_000 });
    const random = new SeededRandom(1);
    await unseenEnd((onRead) => bucketsOn(batchesOn(connection), random, { coalesce: true, onRead }));
    await connection.close();
  });

  test("an operation is audited with whatever its principal and details hold", async () => {
    const store = await openPostgres({ url: `${url}?schema=${newSchema()}`, adminTimeoutMs: 30_000 });
    const scope = store.scope("default");
    const details = { why: "NUL \u0000 and half a pair \ud83d" };
    const event: AuditEvent = {
      eventId: "e-1",
      atMs: 5,
      action: "bucket_reset",
      entityId: "a",
      principal: "p\u0000",
      details,
    };
    const of = { bucket: bucketKey("a", "api"), set: limitSet([Limit.perMinute("rpm", 10)]) };
    const origin = { asOfMs: 0, generation: 1 };
    const reply = await scope.buckets.reset({ ...of, origin, nowMs: 5, idempotencyKey: "k", event }, undefined);
    assert.equal(reply.kind, "done");
    const { items } = await scope.audit.list({ entityId: "a" }, { limit: 10 });
    assert.deepEqual(items, [event]);
    await store.close();
  });
});
