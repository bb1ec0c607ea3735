import assert from "node:assert/strict";
import { test } from "node:test";
import pg from "pg";
import { Limit, RateLimiter } from "../../src/entry/index.ts";
import { openPostgres } from "../../src/entry/postgres.ts";
import { describePostgres } from "./postgres.ts";

await describePostgres("rows that takes on PostgreSQL look at", ({ url, newSchema }) => {
  test("a connection that planned its takes on an empty table looks up single rows once there are thousands", async (t) => {
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    t.after(() => client.end());
    const schema = newSchema();
    const limiter = await RateLimiter.open({ store: await openPostgres({ client, schema }), timeoutMs: 60_000 });
    // Until somebody analyzes the table, plans go by what they were made with.
    await client.query(`ALTER TABLE ${schema}.bucket SET (autovacuum_enabled = false)`);
    await limiter.setResourceDefaults("api", [Limit.perMinute("rpm", 1_000_000)]);
    const take = () => limiter.tryAcquire({ entityId: "first", resource: "api", consume: { rpm: 1 } });
    // The sixth and later ones go by a plan that is kept.
    for (let i = 0; i < 10; i++) await take();
    await client.query(
      `INSERT INTO ${schema}.bucket SELECT (jsonb_populate_record(b, jsonb_build_object('entity', 'key-' || i))).*
       FROM ${schema}.bucket b, generate_series(1, 5000) i`,
    );

    const looked = async () => {
      await client.query("SELECT pg_stat_force_next_flush()");
      const { rows } = await client.query(
        "SELECT seq_tup_read + idx_tup_fetch AS rows FROM pg_stat_user_tables WHERE schemaname = $1 AND relname = 'bucket'",
        [schema],
      );
      return Number(rows[0].rows);
    };
    const before = await looked();
    for (let i = 0; i < 10; i++) await take();
    const rowsPerTake = ((await looked()) - before) / 10;
    // One to lock it, one to write it.
    assert.ok(rowsPerTake >= 1 && rowsPerTake <= 3, `${rowsPerTake} rows a take`);
    await limiter.close();
  });
});
