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
    const take = (entityId = "first") => limiter.tryAcquire({ entityId, resource: "api", consume: { rpm: 1 } });
    // The sixth and later ones go by a plan that is kept.
    for (let i = 0; i < 10; i++) await take();
    await take("early");
    await client.query(
      `INSERT INTO ${schema}.bucket SELECT (jsonb_populate_record(b, jsonb_build_object('entity', 'key-' || i))).*
       FROM ${schema}.bucket b, generate_series(1, 5000) i WHERE b.entity = 'first'`,
    );

    const looked = async () => {
      await client.query("SELECT pg_stat_force_next_flush()");
      const { rows } = await client.query(
        `SELECT seq_tup_read + idx_tup_fetch AS rows, idx_blks_hit + idx_blks_read AS pages
         FROM pg_stat_user_tables JOIN pg_statio_user_tables USING (relid, schemaname, relname)
         WHERE schemaname = $1 AND relname = 'bucket'`,
        [schema],
      );
      return { rows: Number(rows[0].rows), pages: Number(rows[0].pages) };
    };
    const before = await looked();
    for (let i = 0; i < 10; i++) await take();
    const after = await looked();
    // One to lock it, one to write it.
    const rowsPerTake = (after.rows - before.rows) / 10;
    assert.ok(rowsPerTake >= 1 && rowsPerTake <= 3, `${rowsPerTake} rows a take`);
    // Root and leaf for each of them; an index that is walked through has more than fifty.
    const pagesPerTake = (after.pages - before.pages) / 10;
    assert.ok(pagesPerTake >= 2 && pagesPerTake <= 8, `${pagesPerTake} pages of indexes a take`);

    const taken = await looked();
    await Promise.all(Array.from({ length: 10 }, (_, i) => take(`new-${i}`)));
    const made = await looked();
    const rowsPerNew = (made.rows - taken.rows) / 10;
    assert.ok(rowsPerNew <= 3, `${rowsPerNew} rows a new id`);
    // It is looked for twice, and written to three indexes.
    const pagesPerNew = (made.pages - taken.pages) / 10;
    assert.ok(pagesPerNew >= 2 && pagesPerNew <= 20, `${pagesPerNew} pages of indexes a new id`);
    await limiter.close();
  });
});
