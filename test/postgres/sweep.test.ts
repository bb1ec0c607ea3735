import assert from "node:assert/strict";
import { after, test } from "node:test";
import pg from "pg";
import type { PostgresClient } from "../../src/adapters/postgres/connection.ts";
import { bucketKey } from "../../src/domain/bucket/bucket-key.ts";
import { DEFAULT_NAMESPACE } from "../../src/domain/config/namespace.ts";
import { Limit } from "../../src/domain/limits/limit.ts";
import { limitSet } from "../../src/domain/limits/limit-set.ts";
import { RateLimiter } from "../../src/entry/index.ts";
import { openPostgres } from "../../src/entry/postgres.ts";
import type { Claim } from "../../src/ports/bucket-store.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { describePostgres } from "./postgres.ts";
import { connectionOn } from "./record-kit.ts";

const T0 = Date.UTC(2026, 2, 15, 12);
const HOUR_MS = 3_600_000;

function claim(entityId: string, tokens: number): Claim {
  const set = limitSet([Limit.perMinute("rpm", 1_000)]);
  const take = [{ limit: "rpm", milli: tokens * 1_000 }];
  return { bucket: bucketKey(entityId, "api"), set, origin: { asOfMs: T0, generation: null }, take, bypass: false };
}

await describePostgres("the sweep on PostgreSQL", ({ url, newSchema }) => {
  const pool = new pg.Pool({ connectionString: url, max: 4 });
  after(() => pool.end());

  const opened = async () => {
    const schema = newSchema();
    const clock = new SimulatedClock(T0);
    const store = await openPostgres({ client: pool, schema, clock, adminTimeoutMs: 60_000 });
    const { buckets } = store.scope(DEFAULT_NAMESPACE);
    const take = (entityIds: readonly string[]) =>
      Promise.all(
        entityIds.map((id) =>
          buckets.take([claim(id, 1)], { nowMs: clock.now(), timeoutMs: 60_000, generation: undefined, atomic: true }),
        ),
      );
    const count = async (table: string) => {
      const [row] = await connectionOn(pool, schema).query(`SELECT count(*)::int AS found FROM @.${table}`, []);
      return row?.found;
    };
    return { store, clock, take, count, schema };
  };

  /** More than one step looks at. */
  const CROWD = Array.from({ length: 170 }, (_, i) => `user-${String(i).padStart(4, "0")}`);

  test("where nothing is taken, a step is made every minute", async () => {
    const { store, clock, take, count } = await opened();
    // Too few for a step of their own.
    await take(CROWD.slice(0, 20));
    await clock.advance(59_999);
    clock.set(T0 + 3 * HOUR_MS);
    assert.equal(await count("bucket"), 20);
    // The first minute was not quiet, the next one is.
    await clock.advance(60_001);
    await store.close();
    assert.equal(await count("bucket"), 0);
  });

  test("a step walks along the keys from its place, also where the server has no statistics yet", async () => {
    const schema = newSchema();
    const clock = new SimulatedClock(T0);
    const sent: { readonly text: string; readonly values: unknown[] }[] = [];
    const query = (text: string, values: unknown[]) => {
      sent.push({ text, values });
      return pool.query(text, values);
    };
    const store = await openPostgres({ client: { query } as PostgresClient, schema, clock, adminTimeoutMs: 60_000 });
    const { buckets } = store.scope(DEFAULT_NAMESPACE);
    const ids = Array.from({ length: 2_000 }, (_, i) => `user-${i}`);
    const context = { nowMs: T0, timeoutMs: 60_000, generation: undefined, atomic: true } as const;
    await Promise.all(ids.map((id) => buckets.take([claim(id, 1)], context)));
    await store.sweep?.();
    const { text, values } =
      sent.findLast((one) => one.text.includes("epoch_ms <")) ?? assert.fail("nothing was swept");
    const { rows } = await pool.query(`EXPLAIN ${text}`, values);
    const plan = rows.map((row) => String(row["QUERY PLAN"])).join("\n");
    assert.match(plan, /Index Scan using bucket_pkey/);
    assert.doesNotMatch(plan, /Sort|Bitmap/);
    await store.close();
  });

  test("a process that takes nothing removes nothing, however long it watches", async () => {
    const { store, clock, take, count, schema } = await opened();
    await take(CROWD.slice(0, 20));
    await store.close();
    clock.set(T0 + 3 * HOUR_MS);
    const watching = await openPostgres({ client: pool, schema, clock, adminTimeoutMs: 60_000 });
    watching.scope(DEFAULT_NAMESPACE);
    await clock.advance(10 * 60_000);
    await watching.close();
    assert.equal(await count("bucket"), 20);
  });

  test("a sweep to the end leaves nothing that is idle or old, and everything else", async () => {
    const { store, clock, take, count } = await opened();
    await take(CROWD);
    clock.set(T0 + 100 * 24 * HOUR_MS);
    await take(["fresh"]);
    // Some may have gone by the way.
    await store.sweep?.();
    assert.equal(await count("bucket"), 1);
    // The hours of the buckets, each with its requests and tokens, are kept for as long as usage is.
    assert.equal(await count("usage"), 2 * CROWD.length);
    clock.set(T0 + 401 * 24 * HOUR_MS);
    assert.deepEqual(await store.sweep?.(), { buckets: 1, rows: 2 * CROWD.length });
    assert.deepEqual(await store.sweep?.(), { buckets: 0, rows: 0 });
    // The lanes of those who take are theirs, wherever their clock is: their numbers count for what was lost.
    assert.ok(Number(await count("lane")) > 0);
    await store.close();
  });

  test("a bucket that an end or a change leaves empty stays until it is full by what counts since", async () => {
    const { store, clock, count } = await opened();
    const limiter = await RateLimiter.open({ store, clock });
    const [slow, fast] = [Limit.perDay("r", 24), Limit.perMinute("r", 24)];
    // One has an override, the other is changed.
    await limiter.setResourceDefaults("ending", [slow]);
    await limiter.setResourceDefaults("ending", [fast], { untilMs: T0 + HOUR_MS });
    await limiter.setResourceDefaults("changed", [fast]);
    clock.set(T0 + HOUR_MS - 1);
    const asking = (resource: string, r: number) => ({ entityId: "a", resource, consume: { r } });
    for (const resource of ["ending", "changed"]) assert.ok((await limiter.tryAcquire(asking(resource, 24))).ok);
    await limiter.setResourceDefaults("changed", [slow]);
    clock.set(T0 + 4 * HOUR_MS);
    assert.deepEqual(await store.sweep?.(), { buckets: 0, rows: 0 });
    for (const resource of ["ending", "changed"]) {
      assert.equal((await limiter.tryAcquire(asking(resource, 4))).ok, false, "three hours, one each");
      assert.ok((await limiter.tryAcquire(asking(resource, 3))).ok);
    }
    // Full for an hour by the slow limit, and by both before it.
    clock.set(T0 + 30 * HOUR_MS);
    assert.equal((await store.sweep?.())?.buckets, 2);
    assert.equal(await count("bucket"), 0);
    await limiter.close();
    await store.close();
  });

  test("a hold that ended by itself on a bucket that is swept is in the usage, once", async () => {
    const { store, clock, take, count } = await opened();
    const { buckets, usage } = store.scope(DEFAULT_NAMESPACE);
    const set = limitSet([Limit.concurrent("parallel", 5, { holdMs: 20_000 })]);
    for (const entityId of ["a", "b"]) {
      const held = { ...claim(entityId, 1), set, take: [{ limit: "parallel", milli: 3_000 }] };
      await buckets.take([held], { nowMs: T0, timeoutMs: 60_000, generation: undefined, atomic: true });
    }
    clock.set(T0 + 2 * HOUR_MS);
    await take(["fresh"]);
    await store.sweep?.();
    await store.sweep?.();
    assert.equal(await count("bucket"), 1);
    const asked = { entityId: "b", window: "monthly", fromMs: 0, toMs: T0 + 2 * HOUR_MS } as const;
    const { items } = await usage.query(asked, { limit: 9 });
    assert.deepEqual(
      items.map(({ requests, counters, heldMs }) => ({ requests, counters, heldMs })),
      [{ requests: 1, counters: { parallel: 3 }, heldMs: { parallel: 60_000 } }],
    );
    await store.close();
  });
});
