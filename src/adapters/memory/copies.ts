import { type BucketKey, bucketKey } from "../../domain/bucket/bucket-key.ts";
import { namedCounts } from "../../domain/charge/usage.ts";
import type { CopiedRows, CopyStore } from "../../ports/copy-store.ts";
import type { CallerRow, RefusalRow } from "../../ports/usage-store.ts";
import { copyOn } from "../../records/copies.ts";
import type { ScopedRecords } from "../../records/scoped-records.ts";
import { putCallers } from "./caller-usage.ts";
import { type BucketCell, dataOf, type MemoryData } from "./data.ts";
import { OrderedTexts } from "./ordered-map.ts";
import { putRefusals } from "./refusals.ts";

/** A namespace in memory as it is copied from or to: usage stands beside buckets, refusals in an index. */
export function memoryCopies(all: MemoryData, records: ScopedRecords): CopyStore {
  const namespaceId = records.scope;
  const cellOf = (key: BucketKey): BucketCell => {
    const { buckets } = dataOf(all, namespaceId);
    const known = buckets.get(key.id);
    if (known !== undefined) return known;
    const made = { key, state: undefined, owned: undefined, hours: undefined, last: undefined, foundAt: -1 };
    buckets.set(key.id, made);
    return made;
  };
  const putHour = (row: CopiedRows["usage"]): void => {
    const cell = cellOf(bucketKey(row.entityId, row.resource));
    const counted = namedCounts(row);
    const hourMs = row.windowStartMs;
    const hour = {
      ...{ hourMs, requests: row.requests },
      names: counted.map(([name]) => name),
      tokens: counted.map(([, count]) => count),
    };
    cell.hours = [...(cell.hours ?? []).filter((known) => known.hourMs !== hourMs), hour];
    cell.last = undefined;
    const { countedHours } = dataOf(all, namespaceId);
    const ids = countedHours.get(hourMs) ?? new OrderedTexts();
    ids.add(cell.key.id);
    countedHours.set(hourMs, ids);
  };
  return copyOn(
    { records, store: all.records },
    {
      buckets: (rows) => {
        for (const { key, record } of rows) {
          const cell = cellOf(key);
          cell.owned = undefined;
          cell.state = record.state;
        }
      },
      usage: (rows) => rows.forEach(putHour),
      counts: (kind, rows) => {
        if (kind === "refusal") putRefusals(all, namespaceId, rows as readonly RefusalRow[]);
        else putCallers(all, namespaceId, rows as readonly CallerRow[]);
      },
      events: (events) => {
        for (const event of events) all.records.log(namespaceId, event);
      },
    },
    { roomForHeld: false },
  );
}
