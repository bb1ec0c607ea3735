import assert from "node:assert/strict";
import { after, test } from "node:test";
import pg from "pg";
import { PostgresRecords } from "../../src/adapters/postgres/records.ts";
import type { AuditEvent } from "../../src/domain/config/audit.ts";
import { newEntity } from "../../src/domain/config/entity.ts";
import { DEFAULT_NAMESPACE } from "../../src/domain/config/namespace.ts";
import { FILE_RETENTION } from "../../src/domain/config/retention.ts";
import { LEASE_REMEMBERED_MS } from "../../src/domain/lease/lease-record.ts";
import { Limit } from "../../src/domain/limits/limit.ts";
import { expireAll, expireSome } from "../../src/records/usage.ts";
import { openRecords } from "../records/without-takes.ts";
import { describePostgres } from "./postgres.ts";
import { connectionOn, recordsOn } from "./record-kit.ts";

const T0 = Date.UTC(2026, 2, 15, 12);
const HOUR = 3_600_000;
const DAY = 24 * HOUR;
let events = 0;
const event = (action: AuditEvent["action"], entityId: string, more: Partial<AuditEvent> = {}): AuditEvent => ({
  ...{ eventId: `event-${++events}`, atMs: T0, action, entityId, details: {}, ...more },
});

await describePostgres("what is kept on PostgreSQL", ({ url, newSchema }) => {
  const pool = new pg.Pool({ connectionString: url, max: 4 });
  after(() => pool.end());
  const opened = async () => {
    const schema = newSchema();
    const records = await recordsOn(pool, schema);
    const store = await openRecords(records);
    const query = async (text: string, values: unknown[] = []) =>
      (await connectionOn(pool, schema).query(text, values)) as Record<string, unknown>[];
    return { schema, records, store, scope: store.scope(DEFAULT_NAMESPACE), query };
  };

  /** As takes write it: a bucket with an open hour, and an hour that has left it. */
  const BUCKET = `INSERT INTO @.bucket (namespace, entity, resource, version, signature, limits, names, epoch_ms, renew_at_ms, as_of_ms, met_ms,
      hour_ms, requests, capacity, amount, period, soft, reset_after, tokens, remainder, counted, window_start, top_up, resets)
    VALUES ('default', $1, 'api', 1, 's', '[]', '{rpm,tpm}', 0, 0, 0, 0, $2::bigint, 3, '{1,1}', '{1,1}', '{1,1}', '{f,f}', '{0,0}',
      '{1,1}', '{0,0}', '{4000,NULL}', '{NULL,NULL}', '{0,0}', '{0,0}')`;
  const USAGE = "INSERT INTO @.usage VALUES ('default', $2::bigint, $1, 'api', $3, $4::text::numeric)";

  test("usage is what has left the buckets and what they still carry, added up", async () => {
    const { scope, query } = await opened();
    await query(BUCKET, ["a", T0]);
    await query(USAGE, ["a", T0, "rpm", "1000"]);
    await query(USAGE, ["a", T0, "rpm#od", "2000"]);
    await query(USAGE, ["a", T0, "#requests", "2"]);
    await query(USAGE, ["a", T0 - DAY, "tpm", "9007199254740993000"]);
    const asked = { fromMs: T0 - DAY, toMs: T0 + DAY } as const;
    const hourly = await scope.usage.query({ window: "hourly", ...asked }, { limit: 10 });
    assert.deepEqual(
      hourly.items.map(({ windowStartMs, counters, requests, overdrafts }) => [
        windowStartMs,
        counters,
        requests,
        overdrafts,
      ]),
      [
        [T0 - DAY, { tpm: 9007199254740992 }, 0, {}],
        [T0, { rpm: 5 }, 5, { rpm: 2 }],
      ],
    );
    const monthly = await scope.usage.query(
      { window: "monthly", fromMs: Date.UTC(2026, 2, 1), toMs: T0 },
      { limit: 10 },
    );
    assert.equal(monthly.items.length, 1);
    assert.equal(monthly.items[0]?.requests, 5);
    const seen = await query(
      'SELECT counter, amount::text AS amount FROM @.usage_hourly WHERE hour = to_timestamp($1::bigint / 1000) ORDER BY counter COLLATE "C"',
      [T0],
    );
    assert.deepEqual(
      seen.map(({ counter, amount }) => [counter, Number(amount)]),
      [
        ["#requests", 5],
        ["rpm", 5],
        ["rpm#od", 2],
      ],
    );
  });

  test("usage is found whatever lies between: months without any are not walked through", async () => {
    const { scope, query } = await opened();
    for (let i = 0; i < 30; i++) await query(USAGE, ["a", T0 - i * 97 * HOUR, "rpm", "1000"]);
    let cursor: string | undefined;
    let found = 0;
    do {
      const page = await scope.usage.query(
        { window: "hourly", fromMs: 0, toMs: T0 + HOUR, entityId: "a" },
        { limit: 7, ...(cursor === undefined ? {} : { cursor }) },
      );
      found += page.items.length;
      cursor = page.cursor;
    } while (cursor !== undefined);
    assert.equal(found, 30);
  });

  test("with an entity go its buckets, usage, operations and refusals, and nobody else's", async () => {
    const { scope, query } = await opened();
    for (const id of ["a", "ab"]) {
      await scope.entities.create(newEntity({ id }, T0), event("entity_created", id));
      await query(BUCKET, [id, T0]);
      await query(USAGE, [id, T0, "rpm", "1000"]);
      await query("INSERT INTO @.operation VALUES ('default', $1, 'api', 'k', $2::bigint, '[]')", [id, T0]);
      const counts = [{ limit: "rpm", level: id, total: false, count: 1 }];
      const row = { id: "w", hourMs: T0, entityId: id, resource: "api", version: 1, mustExist: false, counts };
      await scope.refusals.write([row], T0);
    }
    await scope.entities.delete("a", event("entity_deleted", "a"));
    for (const table of ["bucket", "usage", "operation", "refusal"]) {
      assert.deepEqual(await query(`SELECT DISTINCT entity FROM @.${table}`), [{ entity: "ab" }], table);
    }
  });

  test("a purge goes on step by step until nothing of its namespace is left, and its generation never goes back", async () => {
    const { store, query } = await opened();
    const { namespaces } = store;
    await namespaces.register(
      { id: "t1", name: "tenant", status: "active", createdAtMs: T0 },
      event("namespace_registered", "$NAMESPACE:tenant"),
      DEFAULT_NAMESPACE,
    );
    await query("INSERT INTO @.usage SELECT 't1', n, 'a', 'api', 'rpm', 1 FROM generate_series(1, 1500) n");
    await query("INSERT INTO @.usage VALUES ('default', 1, 'a', 'api', 'rpm', 1)");
    const config = store.scope("t1").config;
    await config.set({ level: "system" }, { limits: [Limit.perMinute("rpm", 5)] }, event("limits_set", "$SYSTEM"));
    const before = config.generation();
    await namespaces.delete("tenant", T0, event("namespace_deleted", "$NAMESPACE:tenant"), DEFAULT_NAMESPACE);
    const progress: number[] = [];
    const reply = await namespaces.purge("t1", event("namespace_purged", "t1"), DEFAULT_NAMESPACE, (n) =>
      progress.push(n),
    );
    assert.equal(reply.kind, "purged");
    assert.deepEqual(progress, [1000, 1503]);
    for (const table of ["usage", "config", "limit_history", "audit"]) {
      const [left] = await query(`SELECT count(*)::int AS n FROM @.${table} WHERE namespace = 't1'`);
      assert.equal(left?.n, 0, table);
    }
    assert.equal((await query("SELECT 1 FROM @.usage")).length, 1);
    const [generation] = await query("SELECT value::int AS value FROM @.generation WHERE namespace = 't1'");
    assert.ok(Number(generation?.value) > (before ?? 0));
  });

  test("a sweep drops what is too old, a step at a time, and leaves the rest", async () => {
    const { records, scope, query } = await opened();
    const now = T0 + 400 * DAY;
    await query(
      "INSERT INTO @.usage SELECT 'default', n * 3600000::bigint, 'a', 'api', 'rpm', 1 FROM generate_series(1, 450) n",
    );
    await query(USAGE, ["a", now - DAY, "rpm", "1"]);
    await query(
      "INSERT INTO @.operation VALUES ('default', 'a', 'api', 'old', 1, '[]'), ('default', 'a', 'api', 'new', $1::bigint, '[]')",
      [now],
    );
    await query("INSERT INTO @.lane VALUES ('old', 1, '', 1), ('new', 1, '', $1::bigint)", [now]);
    const begin = { mark: "m", fingerprint: "f", untilMs: now };
    await scope.leases.beginKey({ key: "old", ...begin, nowMs: now - LEASE_REMEMBERED_MS - 1 });
    await scope.leases.beginKey({ key: "new", ...begin, nowMs: now });
    const set = (n: number, atMs: number) =>
      scope.config.set(
        { level: "system" },
        { limits: [Limit.perMinute("rpm", n)] },
        event("limits_set", "$SYSTEM", { atMs }),
      );
    await set(1, T0 - 1);
    await set(2, now);
    assert.equal(await expireSome(records, FILE_RETENTION, now), 200 + 1 + 1 + 1 + 1);
    assert.equal(await expireAll(records, FILE_RETENTION, now), 250);
    for (const [table, column] of [
      ["usage", "hour_ms"],
      ["operation", "key"],
      ["lane", "lane"],
      ["lease_key", "key"],
      ["audit", "at_ms"],
    ]) {
      const rows = await query(`SELECT ${column}::text AS one FROM @.${table}`);
      assert.equal(rows.length, 1, table);
      assert.ok(["new", String(now), String(now - DAY)].includes(String(rows[0]?.one)), `${table}: ${rows[0]?.one}`);
    }
  });

  test("the log can be read with SQL, also where a text has characters that the server's JSON cannot read", async () => {
    const { scope, query } = await opened();
    const details = { note: "a\u0000b \ud800 \\u0000" };
    await scope.config.set(
      { level: "system" },
      { limits: [Limit.perMinute("rpm", 5)] },
      event("limits_set", "$SYSTEM", { principal: "me", details }),
    );
    const [row] = await query("SELECT action, principal, details FROM @.audit_log");
    assert.deepEqual(row, { action: "limits_set", principal: "me", details: { note: "a\ufffdb \ufffd \\ufffd" } });
    assert.deepEqual((await scope.audit.list({}, { limit: 1 })).items[0]?.details, details);
  });

  test("a change that does not get its lock in time was certainly not made", async () => {
    const { schema, query } = await opened();
    const holder = await pool.connect();
    try {
      await holder.query("BEGIN");
      await holder.query(`SELECT pg_advisory_xact_lock("${schema}".lock_of('default'))`);
      const hasty = new PostgresRecords(connectionOn(pool, schema), 100);
      const reply = await hasty.commit({
        ...{
          scope: DEFAULT_NAMESPACE,
          guard: { kind: "generation", generation: 0 },
          puts: [],
          deletes: [],
          event: undefined,
        },
        ...{ bumps: [DEFAULT_NAMESPACE], touched: undefined, sent: "first" },
      });
      assert.equal(reply.kind === "unavailable" && reply.applied, "no");
    } finally {
      await holder.query("ROLLBACK");
      holder.release();
    }
    assert.deepEqual(await query("SELECT 1 FROM @.generation WHERE namespace = 'default'"), []);
  });
});
