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
import { CHANGES_KEPT, FUNCTION_HEAD, type SchemaFunction, type SchemaPart } from "./schema-part.ts";

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

/**
 * A commit (ports/record-store.ts), in this order: locks, the guard, deletions, puts, generations, the event. A generation is compared
 * under the lock that every take holds shared: no take lands after a change that it has not seen. Bodies come as texts of JSON within
 * the JSON: the server reads no more of them than that they are JSON, for what they hold may be such as it refuses (\u0000).
 */
const WRITE = `
CREATE OR REPLACE FUNCTION @.write_1(p json) RETURNS text ${FUNCTION_HEAD} AS $write$
DECLARE
  ns text := p->>'scope'; g json := p->'guard'; e json := p->'event'; r json; k json; v bigint; made integer;
  one text; left_over bigint; deleted bigint := 0; generations jsonb := '{}';
BEGIN
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    RAISE EXCEPTION 'isolation_wrong: the transaction is %, this store needs read committed; set default_transaction_isolation of the role.',
      current_setting('transaction_isolation') USING ERRCODE = '0A000';
  END IF;
  IF current_setting('synchronous_commit') = 'off' THEN PERFORM set_config('synchronous_commit', 'local', true); END IF;
  PERFORM set_config('lock_timeout', p->>'waitMs', true);
  IF g->>'kind' = 'generation' THEN
    FOR one IN SELECT ns COLLATE "C" UNION SELECT json_array_elements_text(p->'bumps') ORDER BY 1 LOOP
      PERFORM pg_advisory_xact_lock(@.lock_of(one));
    END LOOP;
  ELSE
    PERFORM pg_advisory_xact_lock_shared(@.lock_of(ns));
  END IF;
  IF p->>'sent' = 'again' AND json_typeof(e) = 'object' THEN
    IF EXISTS (SELECT FROM @.audit a WHERE a.namespace = e->>'auditIn' AND a.event_id = e->>'eventId') THEN
      SELECT coalesce(jsonb_object_agg(n.namespace, n.value), '{}') INTO generations FROM @.generation n
      WHERE n.namespace IN (SELECT json_array_elements_text(p->'bumps'));
      RETURN jsonb_build_object('kind', 'done', 'generations', generations, 'deleted', 0);
    END IF;
  END IF;
  IF g->>'kind' = 'generation' THEN
    IF coalesce((SELECT n.value FROM @.generation n WHERE n.namespace = ns), 0) <> (g->>'generation')::bigint THEN
      RETURN '{"kind":"moved"}';
    END IF;
  ELSE
    FOR r IN SELECT value FROM json_array_elements(g->'versions') LOOP
    k := r->'key'; v := NULL;
    ${forEachKind(lockVersion)}
    IF coalesce(v, 0) <> (r->>'version')::bigint THEN RETURN '{"kind":"moved"}'; END IF;
    END LOOP;
  END IF;
  FOR r IN SELECT value FROM json_array_elements(p->'deletes') LOOP
    k := r->'key';
    IF r->>'kind' = 'everythingOf' THEN
      one := r->>'entityId';
      DELETE FROM @.entity t WHERE t.namespace = ns AND t.id = one;
      DELETE FROM @.config t WHERE t.namespace = ns AND t.of = 'entity' AND t.owner = one;
      DELETE FROM @.limit_history t WHERE t.namespace = ns AND t.of IN ('entity', 'stints') AND t.owner = one;
      DELETE FROM @.bucket t WHERE t.namespace = ns AND t.entity = one;
      DELETE FROM @.operation t WHERE t.namespace = ns AND t.entity = one;
      DELETE FROM @.usage t WHERE t.namespace = ns AND t.entity = one;
      DELETE FROM @.refusal t WHERE t.namespace = ns AND t.entity = one;
      DELETE FROM @.refusal_log t WHERE t.namespace = ns AND t.entity = one;
      DELETE FROM @.caller_usage t WHERE t.namespace = ns AND t.entity = one;
      CONTINUE;
    ELSIF r->>'kind' = 'someIn' THEN
      one := r->>'namespaceId';
      left_over := (r->>'limitMax')::bigint;
      DELETE FROM @.change t WHERE t.namespace = one;
      ${TABLES_IN_NAMESPACE.map(
        (
          table,
        ) => `DELETE FROM @.${table} WHERE ctid = ANY (ARRAY(SELECT t.ctid FROM @.${table} t WHERE t.namespace = one LIMIT left_over));
      GET DIAGNOSTICS made = ROW_COUNT; left_over := left_over - made; deleted := deleted + made;`,
      ).join("\n      ")}
      CONTINUE;
    END IF;
    ${forEachKind(deleteRow)}
  END LOOP;
  FOR r IN SELECT value FROM json_array_elements(p->'puts') LOOP
    k := r->'key';
    ${forEachKind(putRow)}
    GET DIAGNOSTICS made = ROW_COUNT;
    -- Another has made it since its absence was seen: to be read and decided again.
    IF made = 0 THEN RAISE EXCEPTION 'the record has another version by now' USING ERRCODE = '40001'; END IF;
  END LOOP;
  FOR one IN SELECT json_array_elements_text(p->'bumps') LOOP
    INSERT INTO @.generation AS n (namespace, value) VALUES (one, 1)
    ON CONFLICT (namespace) DO UPDATE SET value = n.value + 1 RETURNING n.value INTO v;
    generations := generations || jsonb_build_object(one, v);
    -- Packages that do not say what they touch leave none: everything.
    IF json_typeof(p->'touched') = 'array' THEN
      INSERT INTO @.change (namespace, generation, touched) VALUES (one, v, ARRAY(SELECT json_array_elements_text(p->'touched')));
    END IF;
    DELETE FROM @.change WHERE namespace = one AND generation <= v - ${CHANGES_KEPT};
  END LOOP;
  IF json_typeof(e) = 'object' THEN
    INSERT INTO @.audit (namespace, entity, at_ms, event_id, body)
    VALUES (e->>'auditIn', e->>'entityId', (e->>'atMs')::bigint, e->>'eventId', (e->>'body')::json);
  END IF;
  RETURN jsonb_build_object('kind', 'done', 'generations', generations, 'deleted', deleted);
END
$write$;
`;

const COMMIT = `
CREATE OR REPLACE FUNCTION @.commit_1(p json) RETURNS text ${FUNCTION_HEAD} AS $commit$
BEGIN
  RETURN @.write_1(p);
END
$commit$;
`;

const quoted = (kinds: readonly RecordKind[]) => kinds.map((kind) => `'${kind}'`).join(", ");

/** Commits what a process that only takes may write: leases, keys, its counts of refusals and of callers; no configuration. */
const LEASE = `
CREATE OR REPLACE FUNCTION @.lease_1(p json) RETURNS text ${FUNCTION_HEAD} AS $lease$
BEGIN
  IF p->'guard'->>'kind' <> 'versions' OR json_typeof(p->'event') = 'object' OR json_array_length(p->'bumps') > 0 OR EXISTS (
    SELECT FROM (SELECT value FROM json_array_elements(p->'puts') UNION ALL SELECT value FROM json_array_elements(p->'deletes')) w
    WHERE w.value->>'kind' NOT IN (${quoted(KINDS_OF_TAKERS)})
  ) THEN
    RAISE EXCEPTION 'lease_1 writes leases, keys and counts only' USING ERRCODE = '42501';
  END IF;
  RETURN @.write_1(p);
END
$lease$;
`;

/** For other functions: an event of a change that they make. Its body is a text of JSON, as in a commit. */
const AUDIT_EVENT = `
CREATE OR REPLACE FUNCTION @.audit_event_1(ns text, event json) RETURNS void ${FUNCTION_HEAD} AS $event$
BEGIN
  INSERT INTO @.audit (namespace, entity, at_ms, event_id, body)
  VALUES (ns, event->>'entityId', (event->>'atMs')::bigint, event->>'eventId', (event->>'body')::json);
END
$event$;
`;

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

/**
 * Reads records by key, with the generation and the changes after one that was known, all as of one instant: it is STABLE. As a statement by
 * itself, planning it would cost more than running it. `asked`: a kind, then an array for each part of its keys, as a text; then the next kind. It has
 * the rights of its caller.
 */
const READ = `
CREATE OR REPLACE FUNCTION @.read_2(ns text, since bigint, asked text[]) RETURNS text LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $read$
DECLARE
  found text := ''; part text; generation bigint; changes text; at integer := 1;
BEGIN
  SELECT g.value INTO generation FROM @.generation g WHERE g.namespace = ns;
  SELECT string_agg(json_build_array(c.generation, c.touched)::text, ',' ORDER BY c.generation) INTO changes
  FROM @.change c WHERE c.namespace = ns AND c.generation > since;
  WHILE at <= cardinality(asked) LOOP
    CASE asked[at]${Object.entries(RECORD_TABLES).map(foundOf).join("")}
    END CASE;
    found := found || coalesce(part, '');
  END LOOP;
  RETURN '{"generation":' || coalesce(generation, 0) || ',"changes":[' || coalesce(changes, '') || '],"found":[' || substr(found, 2) || ']}';
END
$read$;
`;

const READ_FUNCTIONS: readonly SchemaFunction[] = [{ name: "read_2(text, bigint, text[])", text: READ, role: "read" }];

/** In this order: a function is made before those that call it. */
const COMMIT_FUNCTIONS: readonly SchemaFunction[] = [
  { name: "write_1(json)", text: WRITE, role: "inner" },
  { name: "commit_1(json)", text: COMMIT, role: "admin" },
  { name: "lease_1(json)", text: LEASE, role: "acquire" },
  { name: "audit_event_1(text, json)", text: AUDIT_EVENT, role: "inner" },
];

/** Rows of hours that are over, namespace by namespace along the keys. */
const hours = (table: string, bound: "usageUntilMs" | "logUntilMs") => `
  IF p->>'${bound}' IS NOT NULL THEN
    DELETE FROM @.${table} WHERE ctid = ANY (ARRAY(
      SELECT o.at FROM @.namespace n, LATERAL (
        SELECT t.ctid AS at FROM @.${table} t WHERE t.namespace = n.id AND t.hour_ms <= (p->>'${bound}')::bigint
        LIMIT most FOR UPDATE SKIP LOCKED
      ) o LIMIT most));
    GET DIAGNOSTICS made = ROW_COUNT; deleted := deleted + made;
  END IF;`;

const older = (table: string, column: string, bound: string) => `
  DELETE FROM @.${table} WHERE ctid = ANY (ARRAY(
    SELECT t.ctid FROM @.${table} t WHERE t.${column} <= ${bound} LIMIT most FOR UPDATE SKIP LOCKED));
  GET DIAGNOSTICS made = ROW_COUNT; deleted := deleted + made;`;

/** Rows that another process is deleting just now are left to it. */
const SWEEP = `
CREATE OR REPLACE FUNCTION @.sweep_1(p json) RETURNS text ${FUNCTION_HEAD} AS $sweep$
DECLARE
  most bigint := (p->>'limitMax')::bigint; made integer; deleted bigint := 0;
BEGIN
${hours("usage", "usageUntilMs")}${hours("refusal", "usageUntilMs")}${hours("caller_usage", "usageUntilMs")}${hours("refusal_log", "logUntilMs")}
${older("audit", "at_ms", "(p->>'auditUntilMs')::bigint - 1")}
${older("lease", "forget_at_ms", "(p->>'nowMs')::bigint")}
${older("lease_key", "forget_at_ms", "(p->>'nowMs')::bigint")}
-- Lanes go by the time of the server, which wrote it. There are a few of each process of the last day: no index is worth what it costs each take.
${older("lane", "at_ms", "floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint - 86400000")}
  DELETE FROM @.operation WHERE ctid = ANY (ARRAY(
    SELECT o.at FROM @.namespace n, LATERAL (
      SELECT t.ctid AS at FROM @.operation t WHERE t.namespace = n.id AND t.at_ms <= (p->>'operationsUntilMs')::bigint
      LIMIT most FOR UPDATE SKIP LOCKED
    ) o LIMIT most));
  GET DIAGNOSTICS made = ROW_COUNT; deleted := deleted + made;
  RETURN deleted;
END
$sweep$;
`;

const SWEEP_FUNCTIONS: readonly SchemaFunction[] = [{ name: "sweep_1(json)", text: SWEEP, role: "acquire" }];

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
  functions: [...READ_FUNCTIONS, ...COMMIT_FUNCTIONS, ...SWEEP_FUNCTIONS],
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
