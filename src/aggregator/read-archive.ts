import { promisify } from "node:util";
import { gunzip } from "node:zlib";
import { LimiterError } from "../domain/names/errors.ts";
import { type ArchivedEvent, type ArchiveLine, archivedEvent, identityOf, parseLines } from "./archive-line.ts";
import type { ObjectStore } from "./objects.ts";
import { ARCHIVE_FOLDER } from "./plan-archive.ts";
import type { Receipt, Receipts } from "./write-archive.ts";

interface ArchiveQuery {
  /** Undefined: all namespaces. */
  readonly namespaceId: string | undefined;
  /** Events in [fromMs, toMs). */
  readonly fromMs: number;
  readonly toMs: number;
}

/**
 * The events of an archive, newest first, without duplicates. An event is only in objects of its own day, so one day at
 * a time is held in memory.
 */
export async function* eventsOf(objects: ObjectStore, query: ArchiveQuery): AsyncGenerator<ArchivedEvent> {
  const { namespaceId, fromMs, toMs } = query;
  for await (const day of daysOf(objects)) {
    if (day.endMs <= fromMs || day.startMs >= toMs) continue;
    const lines = new Map<string, ArchiveLine>();
    for await (const key of objects.keys(day.folder)) {
      for (const line of await linesIn(objects, key)) {
        if (namespaceId === undefined || line.namespace_id === namespaceId) lines.set(identityOf(line), line);
      }
    }
    for (const line of [...lines.values()].sort(newestFirst)) {
      const event = archivedEvent(line);
      if (event.atMs >= fromMs && event.atMs < toMs) yield event;
    }
  }
}

interface ArchiveDay {
  readonly folder: string;
  /** YYYY-MM-DD. */
  readonly day: string;
  readonly startMs: number;
  readonly endMs: number;
}

/** Days that have objects, newest first. */
async function* daysOf(objects: ObjectStore): AsyncGenerator<ArchiveDay> {
  for (const year of await newest(objects, ARCHIVE_FOLDER)) {
    for (const month of await newest(objects, year)) {
      for (const folder of await newest(objects, month)) {
        const match = /year=(\d{4})\/month=(\d{2})\/day=(\d{2})\/$/.exec(folder);
        if (match === null) continue;
        const day = match.slice(1).join("-");
        const startMs = Date.parse(`${day}T00:00:00Z`);
        if (!Number.isNaN(startMs)) yield { folder, day, startMs, endMs: startMs + DAY_MS };
      }
    }
  }
}

const DAY_MS = 86_400_000;

async function newest(objects: ObjectStore, folder: string): Promise<readonly string[]> {
  return [...(await objects.folders(folder))].sort().reverse();
}

const unzipped = promisify(gunzip);

async function linesIn(objects: ObjectStore, key: string): Promise<readonly ArchiveLine[]> {
  const bytes = await unzipped(await objects.get(key)).catch((cause: unknown) => {
    throw new LimiterError(
      "archive_unreadable",
      `${key} of the archive is not a complete gzip file; restore it from a backup, or move it away.`,
      { cause },
    );
  });
  return parseLines(bytes.toString("utf8"), key);
}

function newestFirst(a: ArchiveLine, b: ArchiveLine): number {
  if (a.event_id !== b.event_id) return a.event_id < b.event_id ? 1 : -1;
  return a.namespace_id < b.namespace_id ? 1 : -1;
}

/** One day of an archive, compared with the receipts in the table. */
export interface VerifiedDay {
  /** YYYY-MM-DD, UTC. */
  readonly day: string;
  /** True where nothing is missing or damaged. */
  readonly ok: boolean;
  /** Events that were archived, by the receipts; a replay counts each time. */
  readonly recorded: number;
  /** Events in the objects that the receipts name. Equal to `recorded` if nothing is missing. */
  readonly found: number;
  /** Different events in all objects of the day, as readers see them. */
  readonly events: number;
  /** Objects of the day. */
  readonly objects: number;
  /** Objects that have a receipt and are gone. */
  readonly missing: readonly string[];
  /** Objects that cannot be read, or have another number of events than their receipt says. */
  readonly damaged: readonly string[];
}

/** Reads the whole archive, day by day, newest first. */
export async function* verifyArchive(objects: ObjectStore, receipts: Receipts): AsyncGenerator<VerifiedDay> {
  const expected = new Map<string, Receipt[]>();
  for await (const receipt of receipts.list(objects.location)) {
    expected.set(receipt.day, [...(expected.get(receipt.day) ?? []), receipt]);
  }
  for await (const { day, folder } of daysOf(objects)) {
    const keys: string[] = [];
    for await (const key of objects.keys(folder)) keys.push(key);
    yield await verifyDay(objects, day, keys, expected.get(day) ?? []);
    expected.delete(day);
  }
  // Days without any objects.
  for (const [day, of] of [...expected].sort().reverse()) yield await verifyDay(objects, day, [], of);
}

async function verifyDay(
  objects: ObjectStore,
  day: string,
  keys: readonly string[],
  receipts: readonly Receipt[],
): Promise<VerifiedDay> {
  const recordedOf = new Map(receipts.map(({ key, events }) => [key, events]));
  const identities = new Set<string>();
  const damaged: string[] = [];
  let found = 0;
  for (const key of keys) {
    const lines = await linesIn(objects, key).catch((error: unknown) => {
      if (error instanceof LimiterError && error.code === "archive_unreadable") return undefined;
      throw error;
    });
    const recorded = recordedOf.get(key);
    if (lines === undefined || (recorded !== undefined && recorded !== lines.length)) damaged.push(key);
    for (const line of lines ?? []) identities.add(identityOf(line));
    if (recorded !== undefined) found += lines?.length ?? 0;
  }
  const present = new Set(keys);
  const missing = [...recordedOf.keys()].filter((key) => !present.has(key));
  return {
    day,
    ok: missing.length === 0 && damaged.length === 0,
    recorded: receipts.reduce((sum, { events }) => sum + events, 0),
    found,
    events: identities.size,
    objects: keys.length,
    missing,
    damaged,
  };
}
