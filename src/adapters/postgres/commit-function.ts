import type { RecordKind } from "../../ports/record-store.ts";
import { KINDS_OF_TAKERS, primaryKey, RECORD_TABLES, type RecordTable, TABLES_IN_NAMESPACE } from "./record-tables.ts";
import { FUNCTION_HEAD, type SchemaFunction } from "./schema-part.ts";

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
      CONTINUE;
    ELSIF r->>'kind' = 'someIn' THEN
      one := r->>'namespaceId';
      left_over := (r->>'limitMax')::bigint;
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

/** The same for what a process that only takes may write: leases, keys and its counts of refusals; no configuration. */
const LEASE = `
CREATE OR REPLACE FUNCTION @.lease_1(p json) RETURNS text ${FUNCTION_HEAD} AS $lease$
BEGIN
  IF p->'guard'->>'kind' <> 'versions' OR json_typeof(p->'event') = 'object' OR json_array_length(p->'bumps') > 0 OR EXISTS (
    SELECT FROM (SELECT value FROM json_array_elements(p->'puts') UNION ALL SELECT value FROM json_array_elements(p->'deletes')) w
    WHERE w.value->>'kind' NOT IN (${quoted(KINDS_OF_TAKERS)})
  ) THEN
    RAISE EXCEPTION 'lease_1 writes leases, keys and refusals only' USING ERRCODE = '42501';
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

/** In this order: a function is made before those that call it. */
export const COMMIT_FUNCTIONS: readonly SchemaFunction[] = [
  { name: "write_1(json)", text: WRITE, role: "inner" },
  { name: "commit_1(json)", text: COMMIT, role: "admin" },
  { name: "lease_1(json)", text: LEASE, role: "acquire" },
  { name: "audit_event_1(text, json)", text: AUDIT_EVENT, role: "inner" },
];
