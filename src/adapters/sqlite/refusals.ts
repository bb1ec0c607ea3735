import { refusalsNotKept } from "../../domain/charge/refusal-count.ts";
import { logText } from "../../domain/charge/refusal-log.ts";
import type { RefusalLogStore, RefusalRow, RefusalStore, RowReply, WrittenLogRow } from "../../ports/usage-store.ts";
import type { ScopedRecords } from "../../records/scoped-records.ts";
import { refusalLogOn, refusalsOn } from "../../records/usage.ts";
import type { Changes } from "./changes.ts";
import type { Connection } from "./connection.ts";
import { CountedRows } from "./counted-rows.ts";

/** Counts of one namespace: a row for each limit in the way that a process counted in an hour. */
export function sqliteRefusals(
  {
    changes,
    rows,
    countsUsage,
  }: { readonly changes: Changes; readonly rows: RefusalRows; readonly countsUsage: boolean },
  records: ScopedRecords,
): RefusalStore {
  return {
    ...refusalsOn(records, rows, countsUsage),
    write: async (counted) => {
      if (!countsUsage) throw refusalsNotKept("usage");
      return changes.operateIn(records.scope, () => counted.map((row) => rows.put(records.scope, row)));
    },
  };
}

/** Single refusals of one namespace. They are no configuration: nobody reads that again when some were written. */
export function sqliteRefusalLog(
  {
    changes,
    rows,
    countsUsage,
  }: { readonly changes: Changes; readonly rows: RefusalRows; readonly countsUsage: boolean },
  records: ScopedRecords,
): RefusalLogStore {
  return {
    ...refusalLogOn(records, countsUsage),
    write: async (logged) => {
      if (!countsUsage) throw refusalsNotKept("usage");
      return changes.operateIn(records.scope, () => logged.map((row) => rows.putLog(records.scope, row)));
    },
  };
}

/** A row only grows: a transaction that was thought to be lost must not set it back. */
const PUT = `INSERT INTO refusal (namespace, hour_ms, entity, resource, limit_name, level, total, writer, count)
   VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
   ON CONFLICT DO UPDATE SET count = max(count, excluded.count)`;

const ANY =
  "SELECT 1 FROM refusal WHERE namespace = ? AND hour_ms = ? AND entity = ? AND resource = ? AND writer = ? LIMIT 1";

const PUT_LOG = `INSERT INTO refusal_log (namespace, hour_ms, entity, writer, version, log) VALUES (?, ?, ?, ?, ?, ?)
   ON CONFLICT DO UPDATE SET version = excluded.version, log = excluded.log WHERE version < excluded.version`;

const ANY_LOG = "SELECT 1 FROM refusal_log WHERE namespace = ? AND hour_ms = ? AND entity = ? AND writer = ?";

/** The tables of refusals. */
export class RefusalRows extends CountedRows {
  constructor(connection: Connection) {
    super(connection, {
      ...{ table: "refusal", byEntity: "refusal_entity", filters: { resource: "resource", limit_name: "limit" } },
      key: ["entity", "resource", "limit_name", "level", "total"],
      first: ["", "", "", "", 0],
      sumsOf: (from, key) => `SELECT ${key}, sum(count) FROM ${from} GROUP BY ${key}`,
      countsOf: ([count]) => ({ count: String(count) }),
    });
  }

  /** Inside a write transaction. */
  put(namespaceId: string, { id, hourMs, entityId, resource, counts, mustExist }: RefusalRow): RowReply {
    const isThere = this.connection.prepare(ANY).get(namespaceId, hourMs, entityId, resource, id) !== undefined;
    if (mustExist && !isThere) return "gone";
    for (const { limit, level, total, count } of counts) {
      const key = [namespaceId, hourMs, entityId, resource, limit, level, total ? 1 : 0, id];
      this.connection.prepare(PUT).run(...key, count);
    }
    if (!isThere) this.added += counts.length;
    return "stored";
  }

  /** Inside a write transaction. */
  putLog(namespaceId: string, { id, hourMs, entityId, version, refusals, mustExist }: WrittenLogRow): RowReply {
    const key = [namespaceId, hourMs, entityId, id];
    const isThere = this.connection.prepare(ANY_LOG).get(...key) !== undefined;
    if (mustExist && !isThere) return "gone";
    this.connection.prepare(PUT_LOG).run(...key, version, logText({ hourMs, refusals }));
    if (!isThere) this.added++;
    return "stored";
  }
}
