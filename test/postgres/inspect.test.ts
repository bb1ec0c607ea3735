import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import pg from "pg";
import { inspectSchema, schemasOfOurs } from "../../src/adapters/postgres/inspect.ts";
import { migrate } from "../../src/adapters/postgres/migrations.ts";
import { here } from "../cli/in-process.ts";
import { describeServers, newSchema } from "./postgres.ts";
import { connectionOn } from "./record-kit.ts";

const MINUTE_MS = 60_000;

await describeServers("what doctor sees of a server", (start) => {
  const schema = newSchema();
  let url = "";
  let pool: pg.Pool;
  before(async () => {
    ({ url } = await start(["fsync=off", "full_page_writes=off", "wal_writer_delay=500ms", "max_connections=20"]));
    pool = new pg.Pool({ connectionString: url, max: 3 });
  });
  after(() => pool.end());

  test("settings, connections and clock of a server without tables", async () => {
    const found = await inspectSchema(connectionOn(pool, schema), MINUTE_MS);
    assert.deepEqual([found.fsync, found.fullPageWrites, found.lossMaxMs], [false, false, 1_500]);
    assert.deepEqual([found.isStandby, found.isolation, found.standbys], [false, "read committed", []]);
    assert.deepEqual(
      [found.hasTables, found.rows, found.isEncrypted, found.user],
      [false, undefined, false, "postgres"],
    );
    assert.equal(found.connectionsMax, 17, "three of twenty are kept for superusers");
    assert.ok(found.connectionsLeft <= 16);
    assert.match(found.serverVersion, /^\d+\.\d+/);
  });

  test("a transaction that is left open is told of with who, in what state and since when", async () => {
    const stranger = new pg.Client({ connectionString: url, application_name: "report" });
    await stranger.connect();
    await stranger.query("BEGIN");
    await stranger.query("SELECT 1");
    const { oldest } = await inspectSchema(connectionOn(pool, schema), 0);
    assert.deepEqual([oldest?.user, oldest?.application, oldest?.state], ["postgres", "report", "idle in transaction"]);
    assert.ok((oldest?.ageMs ?? -1) >= 0);
    assert.equal((await inspectSchema(connectionOn(pool, schema), 100 * MINUTE_MS)).oldest, undefined);
    await stranger.query(`SELECT pg_terminate_backend(${oldest?.pid})`).catch(() => {});
    await stranger.end().catch(() => {});
  });

  test("a user that may see no other sessions is told so, and limits of its connections count", async (t) => {
    await pool.query(`CREATE ROLE poor LOGIN CONNECTION LIMIT 2`);
    const own = new pg.Pool({ connectionString: url.replace("postgres@", "poor@"), max: 1 });
    t.after(() => own.end());
    const found = await inspectSchema(connectionOn(own, schema), MINUTE_MS);
    assert.ok(found.hiddenSessions >= 1);
    assert.deepEqual([found.connectionsLeft, found.user], [1, "poor"]);
  });

  test("schemas with tables of ours are found, and those of others are not", async () => {
    await migrate(connectionOn(pool, schema));
    await pool.query("CREATE SCHEMA others");
    await pool.query("CREATE TABLE others.meta (id int)");
    assert.deepEqual(await schemasOfOurs(connectionOn(pool, schema)), [schema]);
    assert.equal((await inspectSchema(connectionOn(pool, schema), MINUTE_MS)).hasTables, true);
  });

  test("doctor fails a server that does not write to its disk, and one whose isolation is another, by name", async () => {
    const doctor = async (store: string) => {
      const ran = await here(["doctor", "--json", "--store", store, "--timeout", "30s"]);
      const { checks } = JSON.parse(ran.stdout) as { checks: { name: string; ok: boolean | null; remedy?: string }[] };
      const failed = checks.filter(({ ok }) => ok !== true).map(({ name }) => name);
      return { code: ran.code, names: checks.map(({ name }) => name), failed };
    };
    const store = `${url}?schema=${schema}`;
    assert.equal((await here(["init", "--store", store])).code, 0);
    const found = await doctor(store);
    assert.deepEqual([found.code, found.failed], [1, ["durability"]]);
    assert.deepEqual(found.names, [
      ...["store", "namespace", "version", "clock", "permissions"],
      ...["server", "isolation", "durability", "tls", "connections", "transactions", "rows"],
    ]);
    await pool.query("CREATE ROLE strict LOGIN SUPERUSER");
    await pool.query("ALTER ROLE strict SET default_transaction_isolation = 'repeatable read'");
    assert.deepEqual((await doctor(store.replace("postgres@", "strict@"))).failed, ["isolation", "durability"]);
    // Nobody is there: everything that depends on it is skipped.
    const nobody = await doctor("postgres://127.0.0.1:1/app");
    assert.deepEqual([nobody.code, nobody.failed], [1, nobody.names]);
  });
});
