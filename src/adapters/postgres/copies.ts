import { namedCounts } from "../../domain/charge/usage.ts";
import type { Calendar } from "../../domain/limits/schedule.ts";
import type { CopiedRows, CopyStore } from "../../ports/copy-store.ts";
import type { RecordStore } from "../../ports/record-store.ts";
import type { Digest } from "../../ports/system.ts";
import { type BesideRecords, copyOn } from "../../records/copies.ts";
import type { ScopedRecords } from "../../records/scoped-records.ts";
import { bookPut } from "../../records/usage.ts";
import { REQUESTS_COUNTER } from "../../stored/open-hour.ts";
import { copiedMarks, rowOf } from "../../straight/row-codec.ts";
import type { Connection } from "./connection.ts";
import { rowJson } from "./row-fields.ts";

interface CopyParts {
  readonly connection: Connection;
  readonly records: Pick<RecordStore, "commit">;
  readonly calendar: Calendar;
  readonly digest: Digest;
}

/**
 * A namespace of a schema as it is copied from or to. Rows of buckets, usage and events are written into their tables: whoever copies
 * into a schema is its owner, as whoever makes it.
 */
export function postgresCopies(parts: CopyParts, records: ScopedRecords): CopyStore {
  const { connection, calendar, digest } = parts;
  const { scope: namespaceId } = records;
  const write = async (text: string, rows: readonly unknown[]): Promise<void> => {
    // Bodies are texts of JSON within the JSON: what they hold may be such as the server's JSON refuses (\\u0000).
    await connection.queryAgain(text, [namespaceId, JSON.stringify(rows)], "always");
  };
  const beside: BesideRecords = {
    buckets: (rows) =>
      write(
        PUT_BUCKETS,
        rows.map(({ key, record }) => {
          const row = { ...rowOf(record, (text) => digest.of(text)), version: 0, marks: copiedMarks(record, calendar) };
          return { entity: key.entityId, on: key.resource, row: rowJson(row) };
        }),
      ),
    usage: (rows) => write(PUT_HOURS, rows.flatMap(hourRows)),
    counts: async (kind, rows) => {
      const puts = rows.map((row) => bookPut(kind, row));
      const guard = { kind: "versions", versions: [] } as const;
      const bare = { guard, deletes: [], event: undefined, bumps: [], touched: [] } as const;
      const reply = await parts.records.commit({ ...bare, scope: namespaceId, puts, sent: "first" });
      if (reply.kind === "unavailable") throw reply.cause;
    },
    events: (events) =>
      write(
        PUT_EVENTS,
        events.map((event) => {
          const { entityId, atMs, eventId } = event;
          return { entityId, atMs, eventId, body: JSON.stringify(event) };
        }),
      ),
  };
  return copyOn({ records, store: parts.records }, beside, { roomForHeld: false });
}

function hourRows(row: CopiedRows["usage"]) {
  const { entityId: entity, resource, windowStartMs: hour, requests } = row;
  const counted = namedCounts(row).map(([counter, count]) => [counter, String(BigInt(count) * 1000n)] as const);
  const all = requests === 0 ? counted : [...counted, [REQUESTS_COUNTER, String(requests)] as const];
  return all.map(([counter, milli]) => ({ entity, on: resource, hour, counter, milli }));
}

const ROWS = "json_array_elements($2::text::json) WITH ORDINALITY AS r (value, i)";

const bigints = (name: string) => `(j->>'${name}')::bigint[]`;

const PUT_BUCKETS = `INSERT INTO @.bucket AS b (namespace, entity, resource, version, signature, limits, names, epoch_ms, renew_at_ms,
    valid_until_ms, written_ms, as_of_ms, generation, met_ms, hour_ms, requests, marks, capacity, amount, period, soft, reset_after,
    tokens, remainder, counted, window_start, top_up, resets)
  SELECT $1, r.value->>'entity', r.value->>'on', @.stamp_after(0), j->>'signature', j->>'limits',
    ARRAY(SELECT json_array_elements_text(j->'names')), (j->>'epoch')::bigint, (j->>'renew')::bigint, (j->>'valid')::bigint,
    (j->>'written')::bigint, (j->>'asOf')::bigint, (j->>'generation')::bigint, (j->>'met')::bigint, (j->>'hour')::bigint,
    (j->>'requests')::bigint, j->>'marks', ${bigints("capacity")}, ${bigints("amount")}, ${bigints("period")},
    (j->>'soft')::boolean[], ${bigints("resetAfter")}, ${bigints("tokens")}, ${bigints("remainder")}, ${bigints("counted")},
    ${bigints("window")}, ${bigints("topUp")}, ${bigints("resets")}
  FROM ${ROWS}, LATERAL (SELECT r.value->'row' AS j) one
  ON CONFLICT (namespace, entity, resource) DO UPDATE SET (version, signature, limits, names, epoch_ms, renew_at_ms, valid_until_ms,
    written_ms, as_of_ms, generation, met_ms, hour_ms, requests, marks, capacity, amount, period, soft, reset_after, tokens, remainder,
    counted, window_start, top_up, resets) = (excluded.version, excluded.signature, excluded.limits, excluded.names, excluded.epoch_ms,
    excluded.renew_at_ms, excluded.valid_until_ms, excluded.written_ms, excluded.as_of_ms, excluded.generation, excluded.met_ms,
    excluded.hour_ms, excluded.requests, excluded.marks, excluded.capacity, excluded.amount, excluded.period, excluded.soft,
    excluded.reset_after, excluded.tokens, excluded.remainder, excluded.counted, excluded.window_start, excluded.top_up, excluded.resets)`;

const PUT_HOURS = `INSERT INTO @.usage AS u (namespace, hour_ms, entity, resource, counter, milli)
  SELECT $1, (r.value->>'hour')::bigint, r.value->>'entity', r.value->>'on', r.value->>'counter', (r.value->>'milli')::numeric
  FROM ${ROWS}
  ON CONFLICT ON CONSTRAINT usage_pkey DO UPDATE SET milli = excluded.milli`;

const PUT_EVENTS = `INSERT INTO @.audit (namespace, entity, at_ms, event_id, body)
  SELECT $1, r.value->>'entityId', (r.value->>'atMs')::bigint, r.value->>'eventId', (r.value->>'body')::json
  FROM ${ROWS}
  WHERE NOT EXISTS (SELECT FROM @.audit a WHERE a.namespace = $1 AND a.event_id = r.value->>'eventId')
  ORDER BY r.i`;
