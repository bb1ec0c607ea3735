import assert from "node:assert/strict";
import { test } from "node:test";
import pg from "pg";
import { ValidationError, VersionError } from "../../src/domain/names/errors.ts";
import { Limit, RateLimiter } from "../../src/entry/index.ts";
import { describePostgres } from "./postgres.ts";

const clock = { now: () => Date.UTC(2026, 2, 15, 12) };

/** A client that must not be asked. */
const client = { query: async () => Promise.reject(new Error("This client must not be asked.")) };

await describePostgres("RateLimiter.open on PostgreSQL", ({ url, newSchema }) => {
  test("by address, by DATABASE_URL and by a client of the caller's it is the same store", async (t) => {
    const schema = newSchema();
    const pool = new pg.Pool({ connectionString: url, max: 2 });
    t.after(async () => {
      await pool.query(`DROP SCHEMA ${schema} CASCADE`);
      await pool.end();
    });
    const given = process.env.DATABASE_URL;
    process.env.DATABASE_URL = `${url}?schema=${schema}`;
    t.after(() => {
      if (given === undefined) delete process.env.DATABASE_URL;
      else process.env.DATABASE_URL = given;
    });
    const limiters = [
      await RateLimiter.open({ store: `${url}?schema=${schema}`, clock, poolMax: 2 }),
      await RateLimiter.open({ store: "postgres", clock, poolMax: 2 }),
      await RateLimiter.open({ store: "postgres", client: pool, schema, clock }),
    ];
    await limiters[0]?.setSystemDefaults([Limit.perMinute("rpm", 3)]);
    for (const limiter of limiters) {
      const taken = await limiter.tryAcquire({ entityId: "a", resource: "api", consume: { rpm: 1 } });
      assert.equal(taken.ok, true);
    }
    for (const limiter of limiters) {
      const refused = await limiter.tryAcquire({ entityId: "a", resource: "api", consume: { rpm: 1 } });
      assert.equal(refused.ok, false);
      await limiter.close();
    }
    assert.equal((await pool.query("SELECT 1 AS one")).rows[0].one, 1, "the caller's pool is not closed");
  });

  test("a schema of version 1 is upgraded and keeps what it has; with create: false it is refused until then", async (t) => {
    const schema = newSchema();
    const pool = new pg.Pool({ connectionString: url, max: 2 });
    t.after(async () => {
      await pool.query(`DROP SCHEMA ${schema} CASCADE`);
      await pool.end();
    });
    const open = (create: boolean) => RateLimiter.open({ store: `${url}?schema=${schema}`, clock, poolMax: 2, create });
    const take = (limiter: RateLimiter) => limiter.acquire({ entityId: "a", resource: "api", consume: { rpm: 1 } });
    const before = await open(true);
    await before.setSystemDefaults([Limit.perMinute("rpm", 3)]);
    await take(before);
    await before.close();
    // Without what versions 2 to 4 have brought to these tables, and functions that came later.
    await pool.query(
      `ALTER TABLE ${schema}.bucket DROP COLUMN marks; CREATE INDEX lane_at ON ${schema}.lane (at_ms);
       ALTER TABLE ${schema}.lane RESET (fillfactor, toast_tuple_target); DROP FUNCTION ${schema}.levels_after_1;
       DROP FUNCTION ${schema}.read_2; DROP FUNCTION ${schema}.take_made_2;
       DROP TABLE ${schema}.change;
       UPDATE ${schema}.meta SET version = 1, least_client = 1`,
    );

    await assert.rejects(open(false), (error) => error instanceof VersionError && error.code === "schema_older");
    const after = await open(true);
    t.after(() => after.close());
    await take(after);
    const [left] = await after.available({ entityId: "a", resource: "api" });
    assert.equal(left?.available, 1);
    await (await open(false)).close();
    const { rows } = await pool.query(`SELECT version, least_client FROM ${schema}.meta`);
    assert.deepEqual(rows, [{ version: 7, least_client: 5 }]);
    const indexes = await pool.query("SELECT indexname FROM pg_indexes WHERE schemaname = $1 AND tablename = 'lane'", [
      schema,
    ]);
    assert.deepEqual(indexes.rows, [{ indexname: "lane_pkey" }]);
  });

  test("a schema of version 5 gets the functions that came later", async (t) => {
    const schema = newSchema();
    const pool = new pg.Pool({ connectionString: url, max: 2 });
    t.after(async () => {
      await pool.query(`DROP SCHEMA ${schema} CASCADE`);
      await pool.end();
    });
    const store = `${url}?schema=${schema}`;
    await (await RateLimiter.open({ store, clock })).close();
    await pool.query(
      `DROP FUNCTION ${schema}.read_2; DROP FUNCTION ${schema}.take_made_2; UPDATE ${schema}.meta SET version = 5`,
    );
    const limiter = await RateLimiter.open({ store, clock });
    t.after(() => limiter.close());
    await limiter.setSystemDefaults([Limit.perMinute("rpm", 3)]);
    // The second take of a new id on a lane is summed.
    for (const entityId of ["a", "b", "c"]) await limiter.acquire({ entityId, resource: "api", consume: { rpm: 1 } });
  });
});

const refused = (code: string, text: RegExp) => (error: unknown) =>
  error instanceof ValidationError && error.code === code && text.test(error.message);

test("a schema or a pool that would be passed over in silence is refused", async () => {
  const open = (options: object) => () => RateLimiter.open(options);
  const both = { store: "postgres://127.0.0.1:1/app", client };
  await assert.rejects(open(both), refused("option_invalid", /url and client are both given/));
  await assert.rejects(
    open({ store: "postgres", client, poolMax: 3 }),
    refused("option_invalid", /poolMax and client/),
  );
  const address = { store: "postgres://127.0.0.1:1/app", schema: "limits" };
  await assert.rejects(open(address), refused("option_invalid", /write it there: postgres:\/\/…\?schema=NAME/));
  await assert.rejects(open({ store: "postgres", client: {} }), refused("option_invalid", /query\(text, values\)/));
  await assert.rejects(open({ store: "postgres", client, schema: "Limits" }), refused("option_invalid", /lower-case/));
  for (const store of ["memory", "sqlite:nowhere/at.all"]) {
    await assert.rejects(open({ store, client }), refused("option_invalid", /client is for PostgreSQL and DynamoDB/));
    await assert.rejects(open({ store, schema: "limits" }), refused("option_invalid", /schema is for PostgreSQL/));
  }
  // Without a store it would be the file of this folder, or whatever the environment names.
  const named = process.env.ZAEL_STORE;
  delete process.env.ZAEL_STORE;
  await assert.rejects(
    open({ client }),
    refused("option_invalid", /the store is "sqlite:\.\.\."; leave it out, or name/),
  );
  if (named !== undefined) process.env.ZAEL_STORE = named;
});
