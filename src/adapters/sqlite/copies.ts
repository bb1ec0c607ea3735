import { namedCounts } from "../../domain/charge/usage.ts";
import type { CopiedRows, CopyStore } from "../../ports/copy-store.ts";
import type { RecordStore } from "../../ports/record-store.ts";
import { copyOn } from "../../records/copies.ts";
import type { ScopedRecords } from "../../records/scoped-records.ts";
import { textOf } from "../../stored/open-hour.ts";
import type { AuditLog } from "./audit.ts";
import type { CallerRows } from "./caller-usage.ts";
import type { Changes } from "./changes.ts";
import { encoded } from "./codec.ts";
import type { Connection } from "./connection.ts";
import type { RefusalRows } from "./refusals.ts";

const PUT_BUCKET = `INSERT INTO bucket (namespace, entity, resource, hour_ms, limits, level) VALUES (?, ?, ?, ?, ?, ?)
   ON CONFLICT (namespace, entity, resource) DO UPDATE SET hour_ms = excluded.hour_ms, limits = excluded.limits, level = excluded.level`;

const PUT_HOUR =
  "INSERT OR REPLACE INTO usage (namespace, hour_ms, entity, resource, requests, counters) VALUES (?, ?, ?, ?, ?, ?)";

interface CopyParts {
  readonly connection: Connection;
  readonly changes: Changes;
  readonly audit: AuditLog;
  readonly records: Pick<RecordStore, "commit">;
  readonly refusals: RefusalRows;
  readonly callers: CallerRows;
}

/** A namespace of a file as it is copied from or to. */
export function sqliteCopies(
  { connection, changes, audit, records: store, refusals, callers }: CopyParts,
  records: ScopedRecords,
): CopyStore {
  const { scope: namespaceId } = records;
  const putHour = (row: CopiedRows["usage"]): void => {
    const { entityId, resource, windowStartMs, requests } = row;
    connection.prepare(PUT_HOUR).run(namespaceId, windowStartMs, entityId, resource, requests, countersText(row));
  };
  return copyOn(
    { records, store },
    {
      buckets: (rows) =>
        changes.fill(() => {
          for (const { key, record } of rows) {
            const { state, open, shape } = record;
            const level = encoded(state, open, shape);
            const place = [namespaceId, key.entityId, key.resource];
            connection.prepare(PUT_BUCKET).run(...place, open.hourMs, shape.text, level);
          }
        }),
      usage: (rows) => changes.fill(() => rows.forEach(putHour)),
      counts: (kind, rows) =>
        changes.fill(() => {
          const table: { put(namespaceId: string, row: never): unknown } = kind === "refusal" ? refusals : callers;
          for (const row of rows) table.put(namespaceId, row as never);
        }),
      events: (events) =>
        changes.fill(() => {
          for (const event of events) audit.append(event, namespaceId);
        }),
    },
    { roomForHeld: true },
  );
}

function countersText(row: CopiedRows["usage"]): string {
  return textOf(new Map(namedCounts(row).map(([name, count]) => [name, BigInt(count) * 1000n])));
}
