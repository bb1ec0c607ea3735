import { gzipSync } from "node:zlib";
import { type Log, wholeFault } from "./log.ts";
import type { Metrics } from "./metrics.ts";
import type { ObjectStore } from "./objects.ts";
import { type ArchiveObject, planArchive } from "./plan-archive.ts";
import type { Receipts } from "./receipts.ts";
import type { StreamRecord } from "./stream-record.ts";

/** What archiving needs. */
export interface Archive {
  readonly objects: ObjectStore;
  readonly receipts: Receipts;
  readonly metrics: Metrics;
  readonly log: Log;
}

export interface Archived {
  /** Events that are in the archive now. */
  readonly events: number;
  /** The first place of the batch whose record is not: everything before it is done. Undefined: all is done. */
  readonly failedAt: number | undefined;
  readonly cause?: unknown;
}

/** Archives a batch: what it answers to be done is in the archive, and stays there. */
export async function archiveBatch(
  records: readonly StreamRecord[],
  shard: string | undefined,
  archive: Archive,
): Promise<Archived> {
  const { metrics, log } = archive;
  const { objects, unreadable } = planArchive(records, shard === undefined ? {} : { shard });
  let events = 0;
  let failedAt = unreadable[0] ?? Number.POSITIVE_INFINITY;
  let cause: unknown = unreadable.length === 0 ? undefined : new Error(WITHOUT_IMAGES);
  if (unreadable.length > 0) {
    metrics.add("ArchiveFailures", 1);
    log.error(WITHOUT_IMAGES, { events: unreadable.length });
  }
  // One after the other: a batch has events of a day or two.
  for (const object of objects) {
    try {
      await put(object, archive);
      events += object.lines.length;
      log.info("archived", { key: object.key, events: object.lines.length });
    } catch (error) {
      cause ??= error;
      failedAt = Math.min(failedAt, object.places[0] ?? 0);
      metrics.add("ArchiveFailures", 1);
      log.error("not archived", { key: object.key, events: object.lines.length, ...wholeFault(error) });
    }
  }
  metrics.add("Archived", events);
  return Number.isFinite(failedAt) ? { events, failedAt, cause } : { events, failedAt: undefined };
}

const WITHOUT_IMAGES =
  "Expired audit events arrived without their content; the table's stream must have NEW_AND_OLD_IMAGES or OLD_IMAGE.";

async function put({ key, day, lines }: ArchiveObject, { objects, receipts }: Archive): Promise<void> {
  // At once: a batch is a few MB at most, and this process has nothing better to do.
  const body = gzipSync(lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
  await objects.put({ key, body });
  await receipts.put(objects.location, { day, key, events: lines.length });
}
