import type { RecordKind } from "../../ports/record-store.ts";
import {
  createTable,
  KINDS_OF_TAKERS,
  primaryKey,
  RECORD_TABLES,
  type RecordTable,
  readableJson,
  TABLE_SINCE,
  TABLES_IN_NAMESPACE,
} from "./record-tables.ts";
import { CHANGES_KEPT, functionsOf, type SchemaPart } from "./schema-part.ts";
import { sqlText } from "./sql-texts.ts";

/** `branch` for each kind, as the branches of a CASE on `r->>'kind'`; `r` is the JSON of a key or a put. */
function forEachKind(branch: (of: RecordTable) => string): string {
  const branches = Object.entries(RECORD_TABLES).map(([kind, of]) => `WHEN '${kind}' THEN\n      ${branch(of)}`);
  return `CASE r->>'kind'\n      ${branches.join("\n      ")}\n    END CASE;`;
}

/** The row of the key `k`, in the namespace `ns`. */
function isKey({ isInNamespace, key }: RecordTable): string {
  const parts = key.map(({ name, type }, i) => `t.${name} = (k->>${i})::${type}`);
  return [...(isInNamespace ? ["t.namespace = ns"] : []), ...parts].join(" AND ");
}

// Namespaces change under the exclusive lock of theirs, which is held shared here: their rows need no lock of their own.
const lockVersion = (of: RecordTable): string =>
  `SELECT t.version INTO v FROM @.${of.table} t WHERE ${isKey(of)}${of.isInNamespace ? " FOR UPDATE" : ""};`;

const deleteRow = (of: RecordTable): string => `DELETE FROM @.${of.table} t WHERE ${isKey(of)};`;

function putRow(of: RecordTable): string {
  const { table, isInNamespace, key, by } = of;
  const columns = [...by.map(({ name }) => name), "version", "body"];
  const values = [
    ...(isInNamespace ? ["ns"] : []),
    ...key.map(({ type }, i) => `(k->>${i})::${type}`),
    ...by.map(({ field, type }) => `(r->'by'->>'${field}')::${type}`),
    ...[`nextval('"@schema".stamp')`, "(r->>'body')::json"],
  ];
  return `INSERT INTO @.${table} AS t (${primaryKey(of)}, ${columns.join(", ")})
      VALUES (${values.join(", ")})
      ON CONFLICT (${primaryKey(of)}) DO UPDATE SET ${columns.map((name) => `${name} = excluded.${name}`).join(", ")}
      WHERE r->>'expect' IS NULL OR t.version = (r->>'expect')::bigint;`;
}

/** A step of the purge of a namespace: it deletes at most as many rows as are left to delete. */
const deleteSome = (table: string): string =>
  `DELETE FROM @.${table} WHERE ctid = ANY (ARRAY(SELECT t.ctid FROM @.${table} t WHERE t.namespace = one LIMIT left_over));
      GET DIAGNOSTICS made = ROW_COUNT; left_over := left_over - made; deleted := deleted + made;`;

/** The records of one kind among those that are asked for; each is looked up by its key, however many the table has. */
const foundOf = ([kind, of]: readonly [string, RecordTable]): string => {
  const parts = of.key.map(({ type }, i) => ({ name: `k${i}`, type }));
  const columns = parts.map(({ type }, i) => `asked[at + ${i + 1}]::${type}[]`);
  const isKey = of.key.map(({ name }, i) => `t.${name} = k.k${i}`);
  const isRow = [...(of.isInNamespace ? ["t.namespace = ns"] : []), ...isKey].join(" AND ");
  return `
    WHEN '${kind}' THEN
      SELECT string_agg(',["${kind}",' || k.i || ',' || f.version || ',' || f.body::text || ']', '') INTO part
      FROM unnest(${columns.join(", ")}) WITH ORDINALITY k (${parts.map(({ name }) => name).join(", ")}, i)
      CROSS JOIN LATERAL (SELECT t.version, t.body FROM @.${of.table} t WHERE ${isRow} LIMIT 1) f;
      at := at + ${1 + of.key.length};`;
};

/** Hours that are over go namespace by namespace, along the keys of their table. */
const deleteHours = ([table, bound]: readonly [string, "usageUntilMs" | "logUntilMs"]): string => `
  IF p->>'${bound}' IS NOT NULL THEN
    DELETE FROM @.${table} WHERE ctid = ANY (ARRAY(
      SELECT o.at FROM @.namespace n, LATERAL (
        SELECT t.ctid AS at FROM @.${table} t WHERE t.namespace = n.id AND t.hour_ms <= (p->>'${bound}')::bigint
        LIMIT most FOR UPDATE SKIP LOCKED
      ) o LIMIT most));
    GET DIAGNOSTICS made = ROW_COUNT; deleted := deleted + made;
  END IF;`;

const deleteOlder = ([table, column, bound]: readonly [string, string, string]): string => `
  DELETE FROM @.${table} WHERE ctid = ANY (ARRAY(
    SELECT t.ctid FROM @.${table} t WHERE t.${column} <= ${bound} LIMIT most FOR UPDATE SKIP LOCKED));
  GET DIAGNOSTICS made = ROW_COUNT; deleted := deleted + made;`;

/** A comment between slashes in a file of `sql/` stands for one of these texts. */
const MADE: Readonly<Record<string, string>> = {
  "lock the record of k": forEachKind(lockVersion),
  "delete the record of k": forEachKind(deleteRow),
  "put the record of k": forEachKind(putRow),
  "delete some of each table": TABLES_IN_NAMESPACE.map(deleteSome).join("\n      "),
  "find records of each kind": Object.entries(RECORD_TABLES).map(foundOf).join(""),
  "delete hours of each table": (
    [
      ["usage", "usageUntilMs"],
      ["refusal", "usageUntilMs"],
      ["caller_usage", "usageUntilMs"],
      ["refusal_log", "logUntilMs"],
    ] as const
  )
    .map(deleteHours)
    .join(""),
  "delete what is older in each table": (
    [
      ["audit", "at_ms", "(p->>'auditUntilMs')::bigint - 1"],
      ["lease", "forget_at_ms", "(p->>'nowMs')::bigint"],
      ["lease_key", "forget_at_ms", "(p->>'nowMs')::bigint"],
      ["lane", "at_ms", "floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint - 86400000"],
    ] as const
  )
    .map(deleteOlder)
    .join(""),
  "kinds of takers": KINDS_OF_TAKERS.map((kind) => `'${kind}'`).join(", "),
  "changes kept": String(CHANGES_KEPT),
};

/** In this order: a function is made before those that call it. */
const FUNCTIONS = [
  ["read_2", "text, bigint, text[]", "read"],
  ["write_1", "json", "inner"],
  ["commit_1", "json", "admin"],
  ["lease_1", "json", "acquire"],
  ["audit_event_1", "text, json", "inner"],
  ["sweep_1", "json", "acquire"],
] as const;

function functionText(name: string): string {
  return sqlText(name).replace(/\/\* (.+?) \*\//g, (_, what: string) => MADE[what] as string);
}

function tablesSince(version: number): string {
  const made = Object.entries(RECORD_TABLES).filter(([kind]) => (TABLE_SINCE[kind as RecordKind] ?? 1) === version);
  return made.map(([, table]) => createTable(table, version > 1)).join("\n");
}

/**
 * A table for each kind of record (record-tables.ts), but for later ones, and:
 * - `stamp`: numbers for the versions of records; none is used twice, so that a record made anew is another one.
 * - `audit`: in the order of `id`. `event_id` is looked for when the answer to a commit was lost.
 * - the views `usage_hourly` and `audit_log`, for people with SQL. `usage_counted` is what both they and we read: the hours that have
 *   left their buckets and those that buckets still carry.
 */
const TABLES_1 = `
CREATE SEQUENCE @.stamp AS bigint;
${tablesSince(1)}
CREATE UNIQUE INDEX namespace_name ON @.namespace (name) WHERE status = 'active';
CREATE INDEX entity_parent ON @.entity (namespace, parent, id) WHERE parent IS NOT NULL;
CREATE INDEX entity_plan ON @.entity (namespace, plan, id) WHERE plan IS NOT NULL;
CREATE INDEX config_resource ON @.config (namespace, of, resource, owner) WHERE has_limits;
CREATE INDEX lease_due ON @.lease (namespace, due_at_ms, id) WHERE due_at_ms IS NOT NULL;
CREATE INDEX lease_forget ON @.lease (forget_at_ms) WHERE forget_at_ms IS NOT NULL;
CREATE INDEX lease_key_forget ON @.lease_key (forget_at_ms);
CREATE INDEX refusal_entity ON @.refusal (namespace, entity, hour_ms);

CREATE TABLE @.audit (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, namespace text COLLATE "C" NOT NULL, entity text COLLATE "C" NOT NULL,
  at_ms bigint NOT NULL, event_id text COLLATE "C" NOT NULL, body json NOT NULL
);
CREATE INDEX audit_namespace ON @.audit (namespace, id);
CREATE INDEX audit_entity ON @.audit (namespace, entity, id);
CREATE INDEX audit_event ON @.audit (namespace, event_id);
CREATE INDEX audit_at ON @.audit (at_ms);

CREATE VIEW @.usage_counted AS
  SELECT namespace, hour_ms, entity, resource, counter, milli FROM @.usage
  UNION ALL
  SELECT b.namespace, b.hour_ms, b.entity, b.resource, c.name COLLATE "C", c.milli::numeric
  FROM @.bucket b, LATERAL unnest(b.names, b.counted) AS c (name, milli) WHERE c.milli IS NOT NULL
  UNION ALL
  SELECT namespace, hour_ms, entity, resource, '#requests' COLLATE "C", requests::numeric FROM @.bucket WHERE requests <> 0;

CREATE VIEW @.usage_hourly AS
  SELECT u.namespace AS namespace_id, to_timestamp(u.hour_ms / 1000) AS hour, u.entity, u.resource, u.counter,
    CASE u.counter WHEN '#requests' THEN sum(u.milli) ELSE sum(u.milli) / 1000 END AS amount
  FROM @.usage_counted u GROUP BY u.namespace, u.hour_ms, u.entity, u.resource, u.counter;

CREATE VIEW @.audit_log AS
  SELECT a.id, a.namespace AS namespace_id, to_timestamp(a.at_ms / 1000.0) AS at, a.event_id, e.body->>'action' AS action, a.entity,
    e.body->>'resource' AS resource, e.body->>'principal' AS principal, e.body->'details' AS details
  FROM @.audit a, LATERAL (SELECT ${readableJson("a.body")} AS body) e;
`;

/** Single refusals (domain/charge/refusal-log.ts). */
const TABLES_3 = `
${tablesSince(3)}
CREATE INDEX IF NOT EXISTS refusal_log_entity ON @.refusal_log (namespace, entity, hour_ms, writer);
`;

/** Usage of callers that no bucket counts. */
const TABLES_4 = `
${tablesSince(4)}
CREATE INDEX IF NOT EXISTS caller_usage_entity ON @.caller_usage (namespace, entity, hour_ms);
`;

/** Everything that is no take: configuration, entities, namespaces, plans, manifests, leases, audit, refusals, usage of callers. */
export const RECORD_PARTS: SchemaPart = {
  tables: [TABLES_1, "", TABLES_3, TABLES_4],
  functions: functionsOf(FUNCTIONS, functionText),
  readByTakes: [
    "namespace",
    "entity",
    "plan",
    "config",
    "limit_history",
    "lease",
    "lease_key",
    "refusal",
    "refusal_log",
    "caller_usage",
  ],
};
