import type { SumQuery } from "../../ports/record-store.ts";
import type { ListStatement } from "./record-lists.ts";

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
    kind === "usage"
      ? `SELECT ${keys}, json_object_agg(c.counter, trunc(c.milli)::text) AS counts FROM (
          SELECT ${keys}, c.counter, sum(c.milli) AS milli FROM ${COUNTED.usage} c WHERE ${inSpan} GROUP BY ${keys}, c.counter
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
  kind === "usage" ? "c.entity, c.resource" : "c.entity, c.resource, c.limit_name, c.level, c.total";

const COUNTED = {
  usage: "(SELECT * FROM @.usage_counted WHERE namespace = $1)",
  refusal: `(SELECT t.hour_ms, t.entity, t.resource, l.value->>'limit' COLLATE "C" AS limit_name,
      l.value->>'level' COLLATE "C" AS level, CASE l.value->>'total' WHEN 'true' THEN '1' ELSE '0' END COLLATE "C" AS total,
      (l.value->>'count')::numeric AS count
    FROM @.refusal t, LATERAL json_array_elements(t.body->'counts') l WHERE t.namespace = $1)`,
} as const;

/** Along the keys of each table, not over the view of both. */
function nextHour(kind: SumQuery["kind"], entity: string | undefined, from: string): string {
  const first = (table: string) =>
    `(SELECT min(hour_ms) FROM @.${table} WHERE namespace = $1 AND hour_ms >= ${from}::bigint${entity === undefined ? "" : ` AND entity = ${entity}`})`;
  return kind === "usage" ? `least(${first("usage")}, ${first("bucket")})` : first("refusal");
}
