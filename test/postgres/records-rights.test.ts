import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { after, before, test } from "node:test";
import pg from "pg";
import { grants } from "../../src/adapters/postgres/migrations.ts";
import { PostgresRecords } from "../../src/adapters/postgres/records.ts";
import type { AuditEvent } from "../../src/domain/config/audit.ts";
import { DEFAULT_NAMESPACE } from "../../src/domain/config/namespace.ts";
import { Limit } from "../../src/domain/limits/limit.ts";
import { LimiterError } from "../../src/domain/names/errors.ts";
import type { ScopedStore, Store } from "../../src/ports/store.ts";
import { openRecords } from "../records/without-takes.ts";
import { describePostgres } from "./postgres.ts";
import { connectionOn, recordsOn, WAIT_MS } from "./record-kit.ts";

const T0 = Date.UTC(2026, 2, 15, 12);
const event = (eventId: string): AuditEvent => ({
  ...{ eventId, atMs: T0, action: "limits_set", entityId: "$SYSTEM", details: {} },
});
const rpm = [Limit.perMinute("rpm", 5)];
const row = { id: "w", hourMs: T0, entityId: "a", resource: "api", version: 1, mustExist: false } as const;

await describePostgres("narrow roles on PostgreSQL", ({ url, newSchema }) => {
  const schema = newSchema();
  const suffix = randomBytes(4).toString("hex");
  const roles = { acquire: `acquire_${suffix}`, admin: `admin_${suffix}`, read: `read_${suffix}` };
  const owner = new pg.Pool({ connectionString: url, max: 2 });
  const pools: pg.Pool[] = [];
  const stores: Record<string, Store> = {};

  before(async () => {
    await openRecords(await recordsOn(owner, schema));
    for (const role of Object.values(roles)) await owner.query(`CREATE ROLE ${role} LOGIN`);
    for (const text of grants(schema, roles)) await owner.query(text);
    for (const role of Object.values(roles)) {
      const pool = new pg.Pool({ connectionString: url, user: role, max: 2, options: `-c role=${role}` });
      pools.push(pool);
      stores[role] = await openRecords(new PostgresRecords(connectionOn(pool, schema), WAIT_MS));
    }
  });
  after(async () => {
    for (const pool of pools) await pool.end();
    await owner.query(`DROP SCHEMA "${schema}" CASCADE`);
    await owner.query(`DROP ROLE ${Object.values(roles).join(", ")}`);
    await owner.end();
  });

  const as = (role: keyof typeof roles): ScopedStore => (stores[roles[role]] as Store).scope(DEFAULT_NAMESPACE);
  const refused = (name: string) => (error: unknown) =>
    error instanceof LimiterError && error.code === "access_denied" && error.message.includes(name);

  test("whoever takes resolves, keeps leases and counts refusals, and changes no limits", async () => {
    const { config, leases, refusals } = as("acquire");
    assert.equal((await config.resolve("a", "api")).source, "none");
    const begin = { key: "k", mark: "m", fingerprint: "f", nowMs: T0, untilMs: T0 + 1000 };
    assert.deepEqual(await leases.beginKey(begin), { kind: "begun" });
    assert.deepEqual(await leases.findDue(T0, 10), []);
    const counts = [{ limit: "rpm", level: "a", total: false, count: 1 }];
    assert.deepEqual(await refusals.write([{ ...row, counts }], T0), ["stored"]);
    await assert.rejects(
      async () => config.set({ level: "system" }, { limits: rpm }, event("e1")),
      refused("commit_1"),
    );
    await assert.rejects(async () => as("acquire").audit.list({}, { limit: 1 }), refused("audit"));
  });

  test("the function for leases writes no configuration, whatever it is called with", async () => {
    const text = JSON.stringify({
      ...{ scope: DEFAULT_NAMESPACE, guard: { kind: "versions", versions: [] }, deletes: [], event: null, bumps: [] },
      ...{ sent: "first", waitMs: "1000" },
      puts: [{ kind: "config", key: ["entity", "", ""], by: { hasLimits: true }, body: '{"limits":[]}', expect: null }],
    });
    const call = (given: string) => pools[0]?.query(`SELECT "${schema}".lease_1($1::text::json)`, [given]);
    await assert.rejects(async () => call(text), /leases, keys and counts only/);
    const bumping = JSON.stringify({ ...JSON.parse(text), puts: [], bumps: [DEFAULT_NAMESPACE] });
    await assert.rejects(async () => call(bumping), /leases, keys and counts only/);
    const purging = JSON.stringify({
      ...JSON.parse(text),
      puts: [],
      deletes: [{ kind: "someIn", namespaceId: DEFAULT_NAMESPACE, limitMax: 10 }],
    });
    await assert.rejects(async () => call(purging), /leases, keys and counts only/);
    await assert.rejects(
      async () => pools[0]?.query(`SELECT "${schema}".write_1($1::text::json)`, [text]),
      /permission denied/,
    );
  });

  test("an administrator changes limits and sees the log, and makes no tables", async () => {
    const { config, audit } = as("admin");
    assert.equal(await config.set({ level: "system" }, { limits: rpm }, event("e2")), "written");
    assert.equal((await audit.list({}, { limit: 10 })).items.length, 1);
    await assert.rejects(async () => pools[1]?.query(`CREATE TABLE "${schema}".mine (n int)`), /permission denied/);
    await assert.rejects(async () => pools[1]?.query(`DELETE FROM "${schema}".audit`), /permission denied/);
  });

  test("whoever only reads sees everything and writes nothing", async () => {
    const { config, audit, leases, usage } = as("read");
    assert.deepEqual((await config.get({ level: "system" }))?.limits, rpm);
    assert.equal((await audit.list({}, { limit: 10 })).items.length, 1);
    const march = { window: "daily", fromMs: Date.UTC(2026, 2, 1), toMs: Date.UTC(2026, 3, 1) } as const;
    assert.deepEqual((await usage.query(march, { limit: 10 })).items, []);
    const begin = { key: "other", mark: "m", fingerprint: "f", nowMs: T0, untilMs: T0 + 1000 };
    await assert.rejects(async () => leases.beginKey(begin), refused("lease_1"));
    await assert.rejects(async () => config.delete({ level: "system" }, event("e3"), "all"), refused("commit_1"));
  });

  test("a right that is left out is named", async () => {
    const [first] = grants(schema, { read: roles.read });
    await owner.query(first?.replace("GRANT", "REVOKE").replace(" TO ", " FROM ") ?? "");
    await assert.rejects(async () => as("read").config.get({ level: "system" }), refused(schema));
    await owner.query(first ?? "");
    await owner.query(`REVOKE SELECT ON "${schema}".config FROM ${roles.read}`);
    await assert.rejects(async () => as("read").config.get({ level: "system" }), refused("config"));
  });

  test("nobody else may call a function or read a table", async () => {
    const stranger = `stranger_${suffix}`;
    await owner.query(`CREATE ROLE ${stranger} LOGIN`);
    const { rows } = await owner.query(
      `SELECT p.proname FROM pg_proc p WHERE p.pronamespace = $1::regnamespace AND has_function_privilege($2, p.oid, 'EXECUTE')`,
      [schema, stranger],
    );
    await owner.query(`DROP ROLE ${stranger}`);
    assert.deepEqual(rows, []);
  });
});
