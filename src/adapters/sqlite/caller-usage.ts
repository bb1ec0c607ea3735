import { setImmediate as nextTurn } from "node:timers/promises";
import { usageNotKept } from "../../domain/config/retention.ts";
import type { CallerRow, CallerStore, RowReply } from "../../ports/usage-store.ts";
import type { ScopedRecords } from "../../records/scoped-records.ts";
import { callersOn } from "../../records/usage.ts";
import type { Changes } from "./changes.ts";
import type { Connection } from "./connection.ts";
import { CountedRows } from "./counted-rows.ts";

/** Rows of one transaction: others have their turn between several. */
const ROWS_AT_ONCE = 128;

/** Usage of callers of one namespace that no bucket counts: a row for each that a process counted in an hour. */
export function sqliteCallers(
  {
    changes,
    rows,
    countsUsage,
  }: { readonly changes: Changes; readonly rows: CallerRows; readonly countsUsage: boolean },
  records: ScopedRecords,
): CallerStore {
  return {
    ...callersOn(records, rows, countsUsage),
    write: async (counted) => {
      if (!countsUsage) throw usageNotKept();
      const replies: RowReply[] = [];
      for (let from = 0; from < counted.length; from += ROWS_AT_ONCE) {
        const some = counted.slice(from, from + ROWS_AT_ONCE);
        if (from > 0) await nextTurn();
        replies.push(
          ...(await changes.operateIn(records.scope, () => some.map((row) => rows.put(records.scope, row)))),
        );
      }
      return replies;
    },
  };
}

/** A transaction that was thought to be lost must not set a row back. */
const PUT = `INSERT INTO caller_usage (namespace, hour_ms, entity, resource, writer, version, counts)
   VALUES (?, ?, ?, ?, ?, ?, ?)
   ON CONFLICT DO UPDATE SET version = excluded.version, counts = excluded.counts WHERE excluded.version > version`;

const ANY =
  "SELECT 1 FROM caller_usage WHERE namespace = ? AND hour_ms = ? AND entity = ? AND resource = ? AND writer = ? LIMIT 1";

/** The table of what callers used beside their buckets. */
export class CallerRows extends CountedRows {
  constructor(connection: Connection) {
    super(connection, {
      ...{ table: "caller_usage", byEntity: "caller_usage_entity", filters: { resource: "resource" } },
      ...{ key: ["entity", "resource"], first: ["", ""] },
      sumsOf: (from, key) =>
        `SELECT ${key}, json_group_object(name, total) FROM (
           SELECT ${key}, name, sum(count) AS total FROM (
             SELECT ${key}, one.key AS name, one.value AS count FROM (SELECT * FROM ${from}), json_each(counts) AS one
           ) GROUP BY ${key}, name
         ) GROUP BY ${key}`,
      countsOf: ([counts]) =>
        Object.fromEntries(
          Object.entries(JSON.parse(counts as string) as object).map(([name, count]) => [name, String(count)]),
        ),
    });
  }

  /** Inside a write transaction. */
  put(namespaceId: string, { id, hourMs, entityId, resource, counts, version, mustExist }: CallerRow): RowReply {
    const key = [namespaceId, hourMs, entityId, resource, id];
    const isThere = this.connection.prepare(ANY).get(...key) !== undefined;
    if (mustExist && !isThere) return "gone";
    this.connection.prepare(PUT).run(...key, version, JSON.stringify(counts));
    if (!isThere) this.added++;
    return "stored";
  }
}
