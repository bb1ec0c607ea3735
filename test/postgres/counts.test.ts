import assert from "node:assert/strict";
import { after, test } from "node:test";
import pg from "pg";
import type { PostgresClient } from "../../src/adapters/postgres/connection.ts";
import { Limit, RateLimiter } from "../../src/entry/index.ts";
import { openPostgres } from "../../src/entry/postgres.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { describePostgres, describeServers, newSchema } from "./postgres.ts";

const T0 = Date.UTC(2026, 2, 15, 12);
const HOUR_MS = 3_600_000;

await describePostgres("what takes cost on PostgreSQL", ({ url, newSchema }) => {
  const pool = new pg.Pool({ connectionString: url, max: 4 });
  const pools = [pool];
  after(() => Promise.all(pools.map((one) => one.end())));

  const opened = async () => {
    const schema = newSchema();
    const clock = new SimulatedClock(T0);
    const texts: string[] = [];
    const own = new pg.Pool({ connectionString: url, max: 4 });
    pools.push(own);
    const client: PostgresClient = {
      query: (text, values) => {
        texts.push(text);
        return own.query(text, values);
      },
    };
    const store = await openPostgres({ client, schema, clock, adminTimeoutMs: 60_000 });
    // Refusals are asked for anew, and configuration is remembered.
    const options = { timeoutMs: 60_000, denyMemoryMs: 0, configTtlMs: 10 * HOUR_MS };
    const limiter = await RateLimiter.open({ store, clock, ...options });
    await limiter.setSystemDefaults([Limit.perMinute("rpm", 100)]);
    await limiter.createEntity({ id: "org" });
    await limiter.createEntity({ id: "key", parentId: "org", cascade: true });
    const take = (rpm: number) => limiter.tryAcquire({ entityId: "key", resource: "api", consume: { rpm } });
    const rows = async (table: string) =>
      (await pool.query(`SELECT xmin::text AS written, t.* FROM "${schema}".${table} t ORDER BY 2, 3, 4`)).rows;
    const sent = async (work: () => Promise<unknown>) => {
      texts.length = 0;
      await work();
      return texts.length;
    };
    const ended = async () => {
      await limiter.close();
      await own.end();
      pools.splice(pools.indexOf(own), 1);
    };
    return { schema, clock, limiter, take, rows, sent, ended };
  };

  test("who was refused is there for other processes to read after ten seconds", async () => {
    const { schema, clock, take, ended } = await opened();
    await take(100);
    assert.equal((await take(1)).ok, false);
    const other = await RateLimiter.open({ store: await openPostgres({ client: pool, schema, clock }), clock });
    await clock.advance(10_000);
    // The write that has begun may take a while; another one does not begin, as the clock stands.
    let found = await other.refusals({ window: "hourly" });
    for (let i = 0; i < 200 && found.length === 0; i++) {
      await new Promise((resolve) => setTimeout(resolve, 25));
      found = await other.refusals({ window: "hourly" });
    }
    assert.deepEqual(
      found.map(({ entityId, limit, count }) => [entityId, limit, count]),
      [["key", "rpm", 1]],
    );
    let logged = await other.refusalLog({ entityId: "key" });
    for (let i = 0; i < 200 && logged.length === 0; i++) {
      await new Promise((resolve) => setTimeout(resolve, 25));
      logged = await other.refusalLog({ entityId: "key" });
    }
    assert.deepEqual(
      logged.map(({ limit, requested, available }) => [limit, requested, available]),
      [["rpm", 1, 0]],
    );
    await other.close();
    await ended();
  });

  test("an acquire of two levels is one statement, also the first on its buckets, and two at a boundary", async () => {
    const { clock, take, sent } = await opened();
    await take(0);
    assert.equal(await sent(() => take(1)), 1);
    assert.equal(await sent(() => take(1)), 1);
    // Within the hour of the row, and its epoch: what this process knows of the row brings it.
    await clock.advance(1_000);
    assert.equal(await sent(() => take(1)), 1);
    await clock.advance(HOUR_MS);
    assert.ok((await sent(() => take(1))) <= 2);
  });

  test("slots cost one statement to take, whichever slice they go into, one to renew and one to give back", async () => {
    const { clock, limiter, sent } = await opened();
    const slots = Limit.concurrent("parallel", 50, { holdMs: 60_000 });
    await limiter.setSystemDefaults([Limit.perMinute("rpm", 100), slots]);
    const request = { entityId: "key", resource: "api", consume: { rpm: 1, parallel: 1 } };
    await limiter.acquire(request);
    for (let i = 0; i < 8; i++) {
      // A slice is 15 s: each is opened, and later ended, by the take that needs it.
      await clock.advance(16_000);
      assert.equal(await sent(() => limiter.acquire(request)), 1, `after ${16 * (i + 1)} s`);
    }
    const [free] = (await limiter.available(request)).filter(({ limit }) => limit === "parallel");
    assert.equal(free?.available, 45, "five of nine are held still");
    const lease = await limiter.acquire(request);
    await clock.advance(20_000);
    // One bucket a level: what is renewed together leaves in one batch.
    assert.ok((await sent(() => lease.renew())) <= 2);
    assert.ok((await sent(() => lease.settle())) <= 2);
    const full = await limiter.acquire({ ...request, consume: { rpm: 0, parallel: 46 } });
    assert.equal(await sent(async () => assert.equal((await limiter.tryAcquire(request)).ok, false)), 1);
    await full.rollback();
  });

  test("a refusal writes nothing", async () => {
    const { take, rows } = await opened();
    await take(95);
    const tables = ["bucket", "lane", "usage", "lease", "audit"];
    const before = await Promise.all(tables.map(rows));
    assert.equal((await take(10)).ok, false);
    assert.deepEqual(await Promise.all(tables.map(rows)), before);
  });

  test("refusals for slots write a bucket at most once a slice, whichever of several processes is refused", async () => {
    const { schema, clock, limiter, rows } = await opened();
    await limiter.setSystemDefaults([Limit.concurrent("parallel", 1, { holdMs: 60_000 })]);
    const request = { entityId: "org", resource: "api", consume: { parallel: 1 } };
    await limiter.acquire(request);
    const processes = [limiter];
    for (let i = 0; i < 2; i++) {
      const store = await openPostgres({ client: pool, schema, clock, adminTimeoutMs: 60_000 });
      processes.push(await RateLimiter.open({ store, clock, timeoutMs: 60_000, denyMemoryMs: 0 }));
    }
    const written = async () => (await rows("bucket")).map((row) => row.written);
    const perSlice: number[] = [];
    for (let slice = 0; slice < 4; slice++) {
      const seen = new Set<string>();
      seen.add(String(await written()));
      for (let i = 0; i < 9; i++) {
        assert.equal((await (processes[i % 3] as RateLimiter).tryAcquire(request)).ok, false);
        seen.add(String(await written()));
      }
      perSlice.push(seen.size - 1);
      await clock.advance(15_000);
    }
    // The slice of the take is there already. A refusal at the beginning of each other one opens it, so that the next take need not.
    assert.deepEqual(perSlice, [0, 1, 1, 1]);
    for (const one of processes.slice(1)) await one.close();
  });
});

// Of its own: an old row is cleared away only when no transaction of the whole server is older, whichever database it is in.
await describeServers("rows of PostgreSQL that change", (start) => {
  test("nearly every write of a bucket stays on its page: none that is indexed changes", async (t) => {
    const { url } = await start(["fsync=off", "autovacuum=off"]);
    const { Pool } = pg;
    const [pool, own] = [new Pool({ connectionString: url }), new Pool({ connectionString: url, max: 4 })];
    t.after(() => pool.end());
    const [schema, clock] = [newSchema(), new SimulatedClock(T0)];
    const store = await openPostgres({ client: own, schema, clock, adminTimeoutMs: 60_000 });
    const limiter = await RateLimiter.open({ store, clock, timeoutMs: 60_000 });
    await limiter.setSystemDefaults([Limit.perMinute("rpm", 100)]);
    await limiter.createEntity({ id: "org" });
    await limiter.createEntity({ id: "key", parentId: "org", cascade: true });
    for (let i = 0; i < 300; i++) {
      await clock.advance(1_000);
      await limiter.tryAcquire({ entityId: "key", resource: "api", consume: { rpm: 1 } });
    }
    // What a connection has counted, it tells when it ends.
    await limiter.close();
    await own.end();
    const counts = async () => {
      const { rows } = await pool.query(
        "SELECT n_tup_upd::int AS updated, n_tup_hot_upd::int AS hot FROM pg_stat_user_tables WHERE schemaname = $1 AND relname = 'bucket'",
        [schema],
      );
      return rows[0] as { readonly updated: number; readonly hot: number };
    };
    let { updated, hot } = await counts();
    for (let tries = 0; tries < 20_000 && updated < 500; tries++) ({ updated, hot } = await counts());
    assert.ok(updated >= 500, `${updated} updates`);
    assert.ok(hot >= 0.95 * updated, `${hot} of ${updated}`);
  });
});
