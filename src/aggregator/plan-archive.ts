import { createHash } from "node:crypto";
import { type ArchiveLine, dayOf, identityOf, isAuditKey, lineOf } from "./archive-line.ts";
import { createdAtMs, isExpiry, keyOfRecord, type StreamRecord, sequenceOf } from "./stream-record.ts";

/** What a batch of stream records puts into the archive. */
export interface ArchivePlan {
  /** One object for each day of its events. */
  readonly objects: readonly ArchiveObject[];
  /** Positions in the batch of expired events that came without their content. The stream must have old images. */
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
 * Which objects of the archive a batch becomes: audit events that expired, by day. Events that were deleted by hand
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
  // A batch may have a record twice; the first is as good as the second.
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

/** Under the prefix of the archive. */
export const ARCHIVE_FOLDER = "audit/";

// Two shards may have the same sequence numbers. Lambda does not say which shard a batch is of, so the records themselves do.
function digestOf(placed: readonly Placed[]): string {
  const digest = createHash("sha256");
  for (const { record, line } of placed) digest.update(`${record.eventID ?? ""}\n${identityOf(line)}\n`);
  return digest.digest("hex").slice(0, 16);
}
