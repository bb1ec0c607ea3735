import type { RecordList } from "../../ports/record-store.ts";

/** A list as a statement: `key`, `place` and `body` of its rows, in order. `$1` is the namespace. */
export interface ListStatement {
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
      return {
        ...{ table: "audit", key: "event_id", where: [IN_NAMESPACE], order: [["id", "bigint"]], isBackwards: true },
        ...(list.entityId === undefined
          ? { values: [] }
          : { where: [IN_NAMESPACE, "t.entity = ?"], values: [list.entityId] }),
      };
    case "plan":
      return { table: "plan", key: "id", where: [IN_NAMESPACE], order: [["id", "text"]], values: [] };
    case "owned":
      return { table: "owned", key: "piece", where: [IN_NAMESPACE], order: [["piece", "text"]], values: [] };
  }
}

const IN_NAMESPACE = "t.namespace = $1";

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
  const base = { table: "config", key: "of, t.owner, t.resource" };
  const byResource = [["resource", "text"]] as const;
  const ofEntities = [IN_NAMESPACE, "t.of = 'entity'", "t.has_limits"];
  const onResources = [...ofEntities, "t.resource <> '*'", "t.resource <> ''"];
  switch (list.of) {
    case "all":
      return {
        ...{ ...base, where: [IN_NAMESPACE], values: [] },
        order: [...(["of", "owner", "resource"] as const).map((column) => [column, "text"] as const)],
      };
    case "owner": {
      const which = list.which === "all" ? [] : ["t.has_limits", "t.resource <> '*'"];
      return {
        ...base,
        where: [IN_NAMESPACE, "t.of = ?", "t.owner = ?", ...which],
        order: byResource,
        values: list.owner,
      };
    }
    case "resource":
      return {
        ...{ ...base, where: [...ofEntities, "t.resource = ?", "t.owner <> ''"] },
        ...{ order: [["owner", "text"]], values: [list.resource] },
      };
    case "entityResources":
      return { ...base, where: [...onResources, "t.owner <> ''"], order: byResource, values: [], isDistinct: true };
    case "defaults":
      return { ...base, where: [...onResources, "t.owner = ''"], order: byResource, values: [] };
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
