import { createHash } from "node:crypto";
import { type ArchiveLine, dayOf, identityOf, isAuditKey, lineOf } from "./archive-line.ts";
import { createdAtMs, isExpiry, keyOfRecord, type StreamRecord, sequenceOf } from "./stream-source.ts";

/** The objects that a batch of stream records adds to the archive. */
export interface ArchivePlan {
  /** One object for each day of its events. */
  readonly objects: readonly ArchiveObject[];
  /** Positions in the batch of expired events without content. The stream must have old images. */
  readonly unreadable: readonly number[];
}

/** One object of the archive. */
export interface ArchiveObject {
  /**
   * Its key below the prefix of the archive. The same records always have the same key, so that a replay overwrites it
   * with the same content.
   */
  readonly key: string;
  /** The day of the events, YYYY-MM-DD, UTC. */
  readonly day: string;
  /** Its lines, each event once. */
  readonly lines: readonly ArchiveLine[];
  /** Positions in the batch of the records that are in it. */
  readonly places: readonly number[];
}

/**
 * Plans the objects of the archive for a batch: expired audit events, by day. Events that were deleted by hand
 * are not archived. The same records always have the same plan. `shard` is the shard of the stream, if it is known; it
 * is part of the key because sequence numbers are ordered within a shard only. Without it the key has a digest of the
 * records.
 *
 * ```ts
 * const { objects } = planArchive(event.Records);
 * ```
 */
export function planArchive(
  records: readonly StreamRecord[],
  { shard }: { readonly shard?: string } = {},
): ArchivePlan {
  const unreadable: number[] = [];
  const days = new Map<string, Placed[]>();
  for (const [place, record] of records.entries()) {
    const key = keyOfRecord(record);
    if (!isExpiry(record) || !isAuditKey(key)) continue;
    const image = record.dynamodb?.OldImage;
    if (image === undefined) {
      unreadable.push(place);
      continue;
    }
    const line = lineOf(key, image);
    const day = dayOf(line, createdAtMs(record));
    const placed = days.get(day);
    if (placed === undefined) days.set(day, [{ place, record, line }]);
    else placed.push({ place, record, line });
  }
  const objects = [...days].map(([day, placed]) => objectOf(day, placed, shard));
  return { objects, unreadable };
}

interface Placed {
  readonly place: number;
  readonly record: StreamRecord;
  readonly line: ArchiveLine;
}

function objectOf(day: string, placed: readonly Placed[], shard: string | undefined): ArchiveObject {
  // A batch may have a record twice.
  const lines = new Map(placed.map(({ line }) => [identityOf(line), line]));
  const from = sequenceOf(placed[0]!.record);
  const to = sequenceOf(placed.at(-1)!.record);
  const name = `audit-${shard ?? digestOf(placed)}-${from}-${to}.jsonl.gz`;
  const [year, month, date] = day.split("-");
  return {
    key: `${ARCHIVE_FOLDER}year=${year}/month=${month}/day=${date}/${name}`,
    day,
    lines: [...lines.values()],
    places: placed.map(({ place }) => place),
  };
}

/** The folder of the events, below the prefix of the archive. */
export const ARCHIVE_FOLDER = "audit/";

// Two shards may have the same sequence numbers, and Lambda does not name the shard of a batch, so the key has a digest
// of the records.
function digestOf(placed: readonly Placed[]): string {
  const digest = createHash("sha256");
  for (const { record, line } of placed) digest.update(`${record.eventID ?? ""}\n${identityOf(line)}\n`);
  return digest.digest("hex").slice(0, 16);
}
