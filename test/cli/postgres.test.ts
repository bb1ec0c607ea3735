import assert from "node:assert/strict";
import { after, before, type TestContext, test } from "node:test";
import pg from "pg";
import { addressOf, nameOf } from "../../src/adapters/postgres/address.ts";
import { Limit, RateLimiter } from "../../src/entry/index.ts";
import { createService } from "../../src/entry/server.ts";
import { deepTest } from "../deep-test.ts";
import { atDepth } from "../depth.ts";
import { describeServers, newSchema } from "../postgres/postgres.ts";
import { tokenOf } from "../server/service-kit.ts";
import { here } from "./in-process.ts";
import { leaseStory } from "./lease-story.ts";
import { limitsStory } from "./limits-story.ts";
import { operatorStory, refusalStory, usageStory } from "./story.ts";

await describeServers("the command line on PostgreSQL", (start) => {
  let url = "";
  let admin: pg.Pool;
  before(async () => {
    ({ url } = await start(["max_connections=40"]));
    admin = new pg.Pool({ connectionString: url, max: 2 });
  });
  after(() => admin.end());

  /** The address of a schema that is not there yet, and how commands reach it. */
  function place(t: TestContext) {
    const schema = newSchema();
    t.after(() => admin.query(`DROP SCHEMA IF EXISTS ${schema} CASCADE`));
    const store = `${url}?schema=${schema}`;
    return { schema, store, name: nameOf(addressOf(store)), where: ["--store", store, "--timeout", "30s"] };
  }

  test("an operator's daily work on a schema", async (t) => {
    const { name, where } = place(t);
    await operatorStory(where, name);
  });

  deepTest("declared limits on a schema", async (t) => limitsStory(t, place(t).where));
  deepTest("usage on a schema", async (t) => usageStory(place(t).where));
  deepTest("refusals on a schema", async (t) => refusalStory(place(t).where));

  deepTest("leases of a service on a schema, over HTTP and on the schema itself", async (t) => {
    const { store, where } = place(t);
    const { token, entry } = tokenOf("ops");
    const service = await createService({ store, tokens: [entry], log: () => {} });
    const { url: at, close } = await service.listen({ port: 0 });
    t.after(close);
    await leaseStory(where, { url: at, token });
  });

  const json = async (args: readonly string[], code: number) => {
    const ran = await here([...args, "--json"]);
    assert.equal(ran.code, code, `${args.join(" ")}: ${ran.stdout}${ran.stderr}`);
    return JSON.parse(ran.stdout || ran.stderr);
  };

  test("the store is named by DATABASE_URL only where the word postgres asks for it", async (t) => {
    const { store, name } = place(t);
    const env = { DATABASE_URL: store };
    const made = await here(["init", "--json"], { env: { ...env, ZAEL_STORE: "postgres" } });
    assert.deepEqual(JSON.parse(made.stdout), { store: name, created: true });
    assert.equal((await here(["entity", "list", "--store", "postgres"], { env })).code, 0);
    const unasked = await here(["entity", "list", "--json", "--store", "sqlite:nowhere/at.all"], { env });
    assert.equal(JSON.parse(unasked.stderr).error.code, "store_not_found");
  });

  test("a schema that is not there is answered with one that is, and nothing is made", async (t) => {
    const { schema, store, where } = place(t);
    await json(["init", ...where], 0);
    const { error } = await json(["entity", "list", "--store", `${store}x`], 4);
    assert.equal(error.code, "store_not_found");
    assert.match(
      error.message,
      new RegExp(`Did you mean \\?schema=${schema}\\? Create them with \`zae-limiter init\``),
    );
    assert.doesNotMatch(error.message, /create: false/);
    const { rows } = await admin.query("SELECT 1 FROM pg_namespace WHERE nspname = $1", [`${schema}x`]);
    assert.deepEqual(rows, []);
  });

  test("tables of another program and of a newer version are refused by init, doctor and everything else", async (t) => {
    const { schema, where } = place(t);
    await admin.query(`CREATE SCHEMA ${schema}`);
    await admin.query(`CREATE TABLE ${schema}.invoices (id int)`);
    for (const line of ["entity list", "init", "init --dry-run"]) {
      const { error } = await json([...line.split(" "), ...where], 3);
      assert.equal(error.code, "store_invalid", line);
      assert.match(error.message, /tables of another program. Name another one with \?schema=NAME/);
    }
    assert.equal((await json(["doctor", ...where], 1)).checks[0].ok, false);
    await admin.query(`DROP TABLE ${schema}.invoices`);
    await json(["init", ...where], 0);
    await admin.query(`UPDATE ${schema}.meta SET version = 99, least_client = 99`);
    for (const line of ["entity list", "init"]) {
      assert.equal((await json([...line.split(" "), ...where], 3)).error.code, "schema_newer");
    }
    const { checks } = await json(["doctor", ...where], 1);
    assert.deepEqual(
      checks.filter(({ ok }: { ok: boolean | null }) => ok !== true).map(({ name }: { name: string }) => name),
      ["namespace", "version"],
    );
    // A newer one that still allows this package is used.
    await admin.query(`UPDATE ${schema}.meta SET least_client = 1`);
    assert.deepEqual((await json(["entity", "list", ...where], 0)).items, []);
    assert.equal((await json(["version", ...where], 0)).schema, "99");
  });

  test("what reads writes nothing: no row of any table, no table, no schema", async (t) => {
    const { schema, where } = place(t);
    const at = (line: string) => here([...line.split(" "), ...where]);
    for (const line of [
      "init",
      "resource set-defaults gpt-4 -l rpm:100",
      "entity create key-1",
      "acquire key-1 gpt-4 -c rpm=1",
    ]) {
      assert.equal((await at(line)).code, 0, line);
    }
    const written = async () => {
      const { rows } = await admin.query(
        `SELECT string_agg(format('SELECT %L AS name, md5(string_agg(t::text, chr(10) ORDER BY t::text)) AS rows FROM %I.%I t',
           tablename, schemaname, tablename), ' UNION ALL ') AS text FROM pg_tables WHERE schemaname = $1`,
        [schema],
      );
      return (await admin.query(`SELECT * FROM (${rows[0].text}) all_tables ORDER BY name`)).rows;
    };
    const before = await written();
    const lines = [
      ...["doctor", "version", "entity list", "entity show key-1", "entity list-limits key-1", "resource list"],
      ...["resource capacity gpt-4 rpm", "access show -e key-1", "namespace list", "available key-1 gpt-4"],
      ...["explain key-1 gpt-4 -c rpm=5", "bucket show key-1 gpt-4", "bucket list -r gpt-4", "lease list"],
      ...["watch --once --interval 10ms", "usage list", "usage export", "refusals list", "audit list", "plan list"],
      ...["limits export", "entity create key-2 --dry-run", "acquire key-1 gpt-4 -c rpm=1 --dry-run", "init --dry-run"],
    ];
    for (const line of lines.filter((_, i) => i % atDepth(3, 1) === 0)) {
      const { code, stderr } = await at(line);
      assert.equal(code, 0, `${line}: ${stderr}`);
      assert.deepEqual(await written(), before, line);
    }
  });

  test("sweep removes what is idle or old to the end, and keeps what it is told to keep", async (t) => {
    const { schema, where, store } = place(t);
    assert.equal((await json(["sweep", ...where], 4)).error.code, "store_not_found");
    await json(["init", ...where], 0);
    // By a clock of two years ago; the command goes by the server's.
    const longAgo = Date.now() - 2 * 365 * 86_400_000;
    const limiter = await RateLimiter.open({ store, clock: { now: () => longAgo } });
    await limiter.setSystemDefaults([Limit.perMinute("rpm", 5)]);
    for (const entityId of ["a", "b"]) await limiter.acquire({ entityId, resource: "api", consume: { rpm: 1 } });
    await limiter.close();
    const kept = await json(["sweep", "--usage-keep", "3650d", "--audit-keep", "3650d", ...where], 0);
    assert.deepEqual(kept, { buckets: 2, rows: 0 });
    assert.equal((await admin.query(`SELECT count(*)::int AS n FROM ${schema}.audit`)).rows[0].n, 1);
    const swept = await json(["sweep", ...where], 0);
    // Of each bucket requests and tokens of one hour, what was granted on the resource at all, and the event of the change.
    assert.deepEqual(swept, { buckets: 0, rows: 6 });
    assert.deepEqual(await json(["sweep", ...where], 0), { buckets: 0, rows: 0 });
    const { stdout } = await here(["sweep", ...where]);
    assert.equal(stdout, "Removed 0 idle buckets and 0 old rows.\n");
  });

  test("init --grants prints what psql takes, for the roles that are named, and asks no server", async (t) => {
    const { schema, store, where } = place(t);
    await json(["init", ...where], 0);
    const offline = `postgres://nobody:hunter2@127.0.0.1:1/app?schema=${schema}`;
    const { stdout, stderr } = await here(["init", "--grants", "--store", offline]);
    assert.equal(stderr, "");
    assert.doesNotMatch(stdout, /hunter2|nobody/);
    for (const role of ["acquire", "admin", "read"])
      assert.match(stdout, new RegExp(`-- +CREATE ROLE "zae_limiter_${role}" LOGIN;[^]*TO "zae_limiter_${role}";`));
    const roles = { acquire: `web_${schema}`, admin: `ops_${schema}`, read: `see_${schema}` };
    for (const role of Object.values(roles)) {
      await admin.query(`CREATE ROLE ${role} LOGIN`);
      t.after(async () => {
        await admin.query(`DROP OWNED BY ${role}`);
        await admin.query(`DROP ROLE ${role}`);
      });
    }
    const named = ["--acquire-role", roles.acquire, "--admin-role", roles.admin, "--read-role", roles.read];
    const { stdout: text } = await here(["init", "--grants", ...named, ...where]);
    // As psql would: the whole text, comments and all.
    await admin.query(text);
    const as = (role: string) => ["--store", store.replace("postgres@", `${role}@`), "--timeout", "30s"];
    await json(["resource", "set-defaults", "gpt-4", "-l", "rpm:1/day:100", ...as(roles.admin)], 0);
    await json(["entity", "create", "key-1", ...as(roles.admin)], 0);
    await json(["acquire", "key-1", "gpt-4", "-c", "rpm=1", ...as(roles.acquire)], 0);
    assert.equal((await json(["available", "key-1", "gpt-4", ...as(roles.read)], 0)).items[0].available, 99);
    // What nothing was charged to is read from usage; who may not read that is told the rest.
    const never = async (role: string) => {
      const { levels } = await json(["explain", "key-2", "gpt-4", ...as(role)], 0);
      return levels[0].limits.map(({ neverCharged }: { neverCharged?: true }) => neverCharged);
    };
    assert.deepEqual([await never(roles.read), await never(roles.acquire)], [[true], [undefined]]);
    for (const [args, role, right] of [
      [["entity", "create", "key-2"], roles.acquire, /commit_1.* of its roles, admin has it\./],
      [["entity", "create", "key-2"], roles.read, /commit_1.* admin has it\./],
      [["acquire", "key-1", "gpt-4", "-c", "rpm=1"], roles.read, /take_2.* acquire and admin have it\./],
      [["audit", "list"], roles.acquire, /audit.* admin and read have it\./],
    ] as const) {
      const { error } = await json([...args, ...as(role)], 3);
      assert.equal(error.code, "access_denied", error.message);
      assert.match(error.message, right);
      assert.match(error.message, /init --grants/);
    }
    const permissions = async (role: string, code: number) => {
      const { checks } = await json(["doctor", ...as(role)], code);
      return checks.find(({ name }: { name: string }) => name === "permissions");
    };
    assert.match((await permissions("postgres", 0)).detail, /upgrade the tables/);
    assert.match((await permissions(roles.admin, 0)).detail, /everything but upgrade/);
    assert.match((await permissions(roles.acquire, 0)).detail, /may not change limits/);
    assert.match((await permissions(roles.read, 0)).detail, /may not acquire/);
    await admin.query(`REVOKE EXECUTE ON FUNCTION ${schema}.sweep_1(json) FROM ${roles.acquire}`);
    const lacking = await permissions(roles.acquire, 1);
    assert.deepEqual([lacking.ok, /EXECUTE sweep_1\(json\)/.test(lacking.detail)], [false, true], lacking.detail);
    await admin.query(`REVOKE USAGE ON SCHEMA ${schema} FROM ${roles.read}`);
    const shut = await permissions(roles.read, 1);
    assert.match(shut.detail, new RegExp(`USAGE ON SCHEMA ${schema}`));
  });

  test("whoever may not make a schema is told what to grant", async (t) => {
    const { schema, store } = place(t);
    await admin.query(`CREATE ROLE poor_${schema} LOGIN`);
    t.after(() => admin.query(`DROP ROLE poor_${schema}`));
    const { error } = await json(["init", "--store", store.replace("postgres@", `poor_${schema}@`)], 3);
    assert.equal(error.code, "access_denied");
    assert.match(error.message, /may not make or upgrade the tables.*\(42501: .*GRANT CREATE ON DATABASE/);
    await admin.query(`CREATE SCHEMA ${schema}`);
    await admin.query(`GRANT USAGE ON SCHEMA ${schema} TO poor_${schema}`);
    const owned = await json(["init", "--store", store.replace("postgres@", `poor_${schema}@`)], 3);
    assert.match(owned.error.message, new RegExp(`as the owner of the schema ${schema}`));
    await admin.query(`DROP SCHEMA ${schema}`);
  });
});
