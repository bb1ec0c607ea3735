import type { RecordList, SumQuery } from "../../ports/record-store.ts";
import { readableJson } from "./record-tables.ts";

/** A list as a statement: `key`, `place` and `body` of its rows, in order. `$1` is the namespace. */
interface ListStatement {
  readonly text: string;
  readonly values: readonly unknown[];
}

/** Rows of one table, by columns that say how they are ordered and where a page goes on. */
interface Simple {
  readonly table: string;
  readonly key: string;
  readonly where: readonly string[];
  readonly order: readonly (readonly [column: string, type: "text" | "bigint"])[];
  readonly values: readonly unknown[];
  readonly isBackwards?: true;
  /** One row for each value of the first column of the order. */
  readonly isDistinct?: true;
}

export function listStatement(list: RecordList, after: readonly string[] | undefined, limitMax: number): ListStatement {
  if (list.kind === "entity" && (list.of === "above" || list.of === "below")) {
    return { text: list.of === "above" ? ABOVE : BELOW, values: [list.id, limitMax] };
  }
  return simpleStatement(simpleOf(list), after, limitMax);
}

function simpleOf(list: RecordList): Simple {
  switch (list.kind) {
    case "namespace":
      return namespaces(list);
    case "entity":
      return entities(list);
    case "config":
      return configs(list);
    case "lease":
      return leases(list);
    case "audit":
      return audits(list);
    case "refusalLog":
      return refusalLog(list);
    case "plan":
      return { table: "plan", key: "id", where: [IN_NAMESPACE], order: [["id", "text"]], values: [] };
    case "history":
      return {
        ...{ table: "limit_history", key: SCOPE_KEY, where: [IN_NAMESPACE], values: [], order: SCOPE_ORDER },
      };
    case "owner":
      return { table: "owner", key: "owner", where: [IN_NAMESPACE], order: [["owner", "text"]], values: [] };
    case "owned":
      return { table: "owned", key: "piece", where: [IN_NAMESPACE], order: [["piece", "text"]], values: [] };
  }
}

const IN_NAMESPACE = "t.namespace = $1";
/** The key of a scope. */
const SCOPE_KEY = "of, t.owner, t.resource";
const SCOPE_ORDER = (["of", "owner", "resource"] as const).map((column) => [column, "text"] as const);

function audits(list: Extract<RecordList, { readonly kind: "audit" }>): Simple {
  const base = {
    table: "audit",
    key: "event_id",
    where: [IN_NAMESPACE],
    order: [["id", "bigint"]],
    values: [],
  } as const;
  if (list.of === "oldest") return base;
  if (list.entityId === undefined) return { ...base, isBackwards: true };
  return { ...base, isBackwards: true, where: [IN_NAMESPACE, "t.entity = ?"], values: [list.entityId] };
}

function namespaces(list: Extract<RecordList, { readonly kind: "namespace" }>): Simple {
  const active = "t.status = 'active'";
  const base = { table: "namespace", key: "id", order: [["name", "text"]] } as const;
  if (list.of === "active") return { ...base, where: [active], values: [] };
  if (list.of === "name") return { ...base, where: [active, "t.name = ?"], values: [list.name] };
  if (list.of === "orphans") return { ...base, where: ["t.status <> 'active'"], order: [["id", "text"]], values: [] };
  const due = "EXISTS (SELECT FROM @.lease l WHERE l.namespace = t.id AND l.due_at_ms <= ?::bigint)";
  return { ...base, where: [active, due], values: [list.untilMs] };
}

function entities(list: Extract<RecordList, { readonly kind: "entity" }>): Simple {
  const base = { table: "entity", key: "id", order: [["id", "text"]] } as const;
  if (list.of === "parent") return { ...base, where: [IN_NAMESPACE, "t.parent = ?"], values: [list.parentId] };
  if (list.of === "plan") return { ...base, where: [IN_NAMESPACE, "t.plan = ?"], values: [list.planId] };
  return { ...base, where: [IN_NAMESPACE], values: [] };
}

function configs(list: Extract<RecordList, { readonly kind: "config" }>): Simple {
  const base = { table: "config", key: SCOPE_KEY };
  const byResource = [["resource", "text"]] as const;
  const ofEntities = [IN_NAMESPACE, "t.of = 'entity'", "t.has_limits"];
  const body = readableJson("t.body");
  const inForce = `(${body}->'limits'->0 IS NOT NULL OR (${body}->'override'->>'untilMs')::bigint > ?::bigint)`;
  const onResources = [...ofEntities, "t.resource <> '*'", "t.resource <> ''"];
  switch (list.of) {
    case "all":
      return {
        ...{ ...base, where: [IN_NAMESPACE], values: [] },
        order: SCOPE_ORDER,
      };
    case "owner":
      return { ...base, where: [IN_NAMESPACE, "t.of = ?", "t.owner = ?"], order: byResource, values: list.owner };
    case "entity": {
      const where = [...ofEntities, "t.owner = ?", "t.resource <> '*'", inForce];
      return { ...base, where, order: byResource, values: [list.entityId, list.nowMs] };
    }
    case "resource":
      return {
        ...{ ...base, where: [...ofEntities, "t.resource = ?", "t.owner <> ''", inForce] },
        ...{ order: [["owner", "text"]], values: [list.resource, list.nowMs] },
      };
    case "entityResources": {
      const where = [...onResources, "t.owner <> ''", inForce];
      return { ...base, where, order: byResource, values: [list.nowMs], isDistinct: true };
    }
    case "defaults": {
      const where = [...onResources, "t.owner = ''", inForce];
      return { ...base, where, order: byResource, values: [list.nowMs] };
    }
  }
}

function leases(list: Extract<RecordList, { readonly kind: "lease" }>): Simple {
  const { untilMs, entityId, resource } = list;
  const filters = { "t.due_at_ms <= ?::bigint": untilMs, "t.entity = ?": entityId, "t.resource = ?": resource };
  const given = Object.entries(filters).filter(([, value]) => value !== undefined);
  return {
    ...{ table: "lease", key: "id" },
    where: [IN_NAMESPACE, "t.due_at_ms IS NOT NULL", ...given.map(([condition]) => condition)],
    order: [
      ["due_at_ms", "bigint"],
      ["id", "text"],
    ],
    values: given.map(([, value]) => value),
  };
}

function refusalLog({ fromMs, toMs, entityId }: Extract<RecordList, { readonly kind: "refusalLog" }>): Simple {
  const ofEntity = entityId === undefined ? [] : ["t.entity = ?"];
  return {
    ...{ table: "refusal_log", key: "hour_ms::text, t.entity, t.writer", isBackwards: true },
    where: [IN_NAMESPACE, "t.hour_ms >= ?::bigint", "t.hour_ms < ?::bigint", ...ofEntity],
    order: [
      ["hour_ms", "bigint"],
      ["entity", "text"],
      ["writer", "text"],
    ],
    values: [fromMs, toMs, ...(entityId === undefined ? [] : [entityId])],
  };
}

function simpleStatement(simple: Simple, after: readonly string[] | undefined, limitMax: number): ListStatement {
  const { table, key, where, order, isBackwards, isDistinct } = simple;
  const values = [...simple.values, ...(after ?? []), limitMax];
  const columns = order.map(([column]) => `t.${column}`);
  const sign = isBackwards === true ? "<" : ">";
  const from = `(${columns.join(", ")}) ${sign} (${order.map(([, type]) => `?::${type}`).join(", ")})`;
  const conditions = [...where, ...(after === undefined ? [] : [from])];
  const direction = isBackwards === true ? " DESC" : "";
  const text = `SELECT ${isDistinct === true ? `DISTINCT ON (${columns[0]}) ` : ""}
      json_build_array(t.${key}) AS key, json_build_array(${columns.map((column) => `${column}::text`).join(", ")}) AS place, t.body
    FROM @.${table} t WHERE ${conditions.join(" AND ")}
    ORDER BY ${columns.map((column) => column + direction).join(", ")} LIMIT ?::bigint`;
  return { text: numbered(text), values };
}

/** `?` after the other as `$2`, `$3`, …; `$1` is the namespace. */
function numbered(text: string): string {
  let number = 1;
  return text.replaceAll("?", () => `$${++number}`);
}

const ABOVE = `
  WITH RECURSIVE line AS (
    SELECT e.id, e.parent, e.body, 1 AS n FROM @.entity e WHERE e.namespace = $1 AND e.id = $2
    UNION ALL
    SELECT e.id, e.parent, e.body, l.n + 1 FROM line l JOIN @.entity e ON e.namespace = $1 AND e.id = l.parent
    WHERE l.n < $3::bigint
  )
  SELECT json_build_array(id) AS key, json_build_array(id) AS place, body FROM line ORDER BY n`;

const BELOW = `
  WITH RECURSIVE line AS (
    SELECT e.id, ARRAY[e.id] AS path, 1 AS n FROM @.entity e WHERE e.namespace = $1 AND e.parent = $2
    UNION ALL
    SELECT e.id, l.path || e.id, l.n + 1 FROM line l JOIN @.entity e ON e.namespace = $1 AND e.parent = l.id
    WHERE l.n < $3::bigint
  )
  SELECT json_build_array(t.id) AS key, json_build_array(t.id) AS place, t.body
  FROM (SELECT path FROM line ORDER BY n DESC LIMIT 1) longest, unnest(longest.path) WITH ORDINALITY AS p (id, n)
  JOIN @.entity t ON t.namespace = $1 AND t.id = p.id ORDER BY p.n`;

/**
 * Sums by span (`$2`: their starts and ends as JSON) and key. A span is added up by itself, so that a page costs the spans it was
 * asked for with, not all that there is.
 */
export function sumStatement({ kind, spans, after, entityId, resource, limit, limitMax }: SumQuery): ListStatement {
  const values: unknown[] = [JSON.stringify(spans.map(({ startMs, endMs }) => [startMs, endMs]))];
  const given = (value: unknown): string => `$${values.push(value) + 1}`;
  const filters = [
    ...(entityId === undefined ? [] : [`c.entity = ${given(entityId)}`]),
    ...(resource === undefined ? [] : [`c.resource = ${given(resource)}`]),
    ...(limit === undefined ? [] : [`c.limit_name = ${given(limit)}`]),
    ...(after === undefined ? [] : [`(s.n > 1 OR (${keysOf(kind)}) > (${after.map(given).join(", ")}))`]),
  ];
  const most = `${given(limitMax)}::bigint`;
  const keys = keysOf(kind);
  const inSpan = ["c.hour_ms >= s.start_ms", "c.hour_ms < s.end_ms", ...filters].join(" AND ");
  const summed =
    kind !== "refusal"
      ? `SELECT ${keys}, json_object_agg(c.counter, trunc(c.milli)::text) AS counts FROM (
          SELECT ${keys}, c.counter, sum(c.milli) AS milli FROM ${COUNTED[kind]} c WHERE ${inSpan} GROUP BY ${keys}, c.counter
        ) c GROUP BY ${keys}`
      : `SELECT ${keys}, json_build_object('count', sum(c.count)::text) AS counts FROM ${COUNTED.refusal} c
        WHERE ${inSpan} GROUP BY ${keys}`;
  const bare = keys.replaceAll("c.", "q.");
  const text = `
    SELECT json_build_object(
      'sums', coalesce((SELECT json_agg(json_build_object('startMs', r.start_ms, 'key', r.key, 'counts', r.counts)) FROM (
        SELECT s.start_ms, json_build_array(${bare}) AS key, q.counts FROM (
          SELECT (value->>0)::bigint AS start_ms, (value->>1)::bigint AS end_ms, n
          FROM json_array_elements($2::text::json) WITH ORDINALITY AS spans (value, n)
        ) s, LATERAL (${summed} ORDER BY ${keys} LIMIT ${most}) q
        ORDER BY s.n, ${bare} LIMIT ${most}
      ) r), '[]'::json),
      'nextHourMs', ${nextHour(kind, entityId === undefined ? undefined : `${given(entityId)}`, given(spans.at(-1)?.endMs ?? 0))}
    )::text AS answer`;
  return { text, values };
}

const keysOf = (kind: SumQuery["kind"]): string =>
  kind !== "refusal" ? "c.entity, c.resource" : "c.entity, c.resource, c.limit_name, c.level, c.total";

const COUNTED = {
  usage: "(SELECT * FROM @.usage_counted WHERE namespace = $1)",
  refusal: `(SELECT t.hour_ms, t.entity, t.resource, l.value->>'limit' COLLATE "C" AS limit_name,
      l.value->>'level' COLLATE "C" AS level, CASE l.value->>'total' WHEN 'true' THEN '1' ELSE '0' END COLLATE "C" AS total,
      (l.value->>'count')::numeric AS count
    FROM @.refusal t, LATERAL json_array_elements(t.body->'counts') l WHERE t.namespace = $1)`,
  caller: `(SELECT t.hour_ms, t.entity, t.resource, l.key COLLATE "C" AS counter, l.value::numeric AS milli
    FROM @.caller_usage t, LATERAL json_each_text(t.body->'counts') l WHERE t.namespace = $1)`,
} as const;

/** Along the keys of each table, not over the view of both. */
function nextHour(kind: SumQuery["kind"], entity: string | undefined, from: string): string {
  const first = (table: string) =>
    `(SELECT min(hour_ms) FROM @.${table} WHERE namespace = $1 AND hour_ms >= ${from}::bigint${entity === undefined ? "" : ` AND entity = ${entity}`})`;
  return kind === "usage"
    ? `least(${first("usage")}, ${first("bucket")})`
    : first(kind === "refusal" ? "refusal" : "caller_usage");
}
