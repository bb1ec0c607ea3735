import { gzipSync } from "node:zlib";
import { type Records, tablePartition } from "../adapters/dynamodb/records.ts";
import { putRecord } from "../adapters/dynamodb/records-write.ts";
import { ARCHIVE_LOCATION, EVENT_COUNT, OBJECT_KEY, REGISTRY, SK, systemPk } from "../adapters/dynamodb/schema.ts";
import { type Log, wholeFault } from "./log.ts";
import type { Metrics } from "./metrics.ts";
import type { ObjectStore } from "./objects.ts";
import { type ArchiveObject, planArchive } from "./plan-archive.ts";
import type { StreamRecord } from "./stream-source.ts";

/** The record that an object was archived, for `audit verify`. */
export interface Receipt {
  /** YYYY-MM-DD. */
  readonly day: string;
  readonly key: string;
  /** The number of events in the object. */
  readonly events: number;
}

/**
 * Receipts of archived objects, in the table: they tell a lost object from one that never was. The same object has the
 * same receipt, so a replay changes nothing.
 */
export class Receipts {
  readonly #records: Records;

  constructor(records: Records) {
    this.#records = records;
  }

  async put(location: string, { day, key, events }: Receipt): Promise<void> {
    const item = {
      [ARCHIVE_LOCATION]: { S: location },
      [OBJECT_KEY]: { S: key },
      [EVENT_COUNT]: { N: String(events) },
    };
    await this.#records.transact([putRecord({ pk: systemPk(REGISTRY), sk: receiptSk(day, key) }, item, undefined)]);
  }

  /** The receipts of one archive, by day. */
  async *list(location: string): AsyncGenerator<Receipt> {
    for await (const item of this.#records.query(tablePartition(systemPk(REGISTRY), { prefix: PREFIX }))) {
      if (item[ARCHIVE_LOCATION]?.S !== location) continue;
      const day = (item[SK]?.S ?? "").slice(PREFIX.length, PREFIX.length + "YYYY-MM-DD".length);
      yield { day, key: item[OBJECT_KEY]?.S ?? "", events: Number(item[EVENT_COUNT]?.N ?? 0) };
    }
  }
}

const PREFIX = "#ARCHIVE#";

function receiptSk(day: string, key: string): string {
  return `${PREFIX}${day}#${key.slice(key.lastIndexOf("/") + 1)}`;
}

export interface Archive {
  readonly objects: ObjectStore;
  readonly receipts: Receipts;
  readonly metrics: Metrics;
  readonly log: Log;
}

export interface Archived {
  /** The number of events in the archive now. */
  readonly events: number;
  /** The position of the first record that is not archived; all before it are. Undefined: all are archived. */
  readonly failedAt: number | undefined;
  readonly cause?: unknown;
}

/** Archives a batch. Records that it reports as done are in the archive, and stay there. */
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
  // Sequentially, because a batch has events of a day or two.
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
  // Synchronously: a batch has a few MB at most, and the process has no other work.
  const body = gzipSync(lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
  await objects.put({ key, body });
  await receipts.put(objects.location, { day, key, events: lines.length });
}
