import { promisify } from "node:util";
import { gunzip } from "node:zlib";
import { LimiterError } from "../domain/names/errors.ts";
import { type ArchivedEvent, type ArchiveLine, archivedEvent, identityOf, parseLines } from "./archive-line.ts";
import type { ObjectStore } from "./objects.ts";
import { ARCHIVE_FOLDER } from "./plan-archive.ts";

interface ArchiveQuery {
  /** Undefined: of all namespaces. */
  readonly namespaceId: string | undefined;
  /** Events in [fromMs, toMs). */
  readonly fromMs: number;
  readonly toMs: number;
}

/**
 * The events of an archive, newest first, each once however often it was put. An event is in objects of its own day only, so
 * one day at a time is held in memory.
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
export async function* daysOf(objects: ObjectStore): AsyncGenerator<ArchiveDay> {
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

/** The events in one object. */
export async function linesIn(objects: ObjectStore, key: string): Promise<readonly ArchiveLine[]> {
  const bytes = await objects.get(key);
  return parseLines(await textOf(bytes, key), key);
}

async function textOf(bytes: Uint8Array, key: string): Promise<string> {
  try {
    return (await unzipped(bytes)).toString("utf8");
  } catch (cause) {
    throw new LimiterError(
      "archive_unreadable",
      `${key} of the archive is not a complete gzip file; restore it from a backup, or move it away.`,
      { cause },
    );
  }
}

function newestFirst(a: ArchiveLine, b: ArchiveLine): number {
  if (a.event_id !== b.event_id) return a.event_id < b.event_id ? 1 : -1;
  return a.namespace_id < b.namespace_id ? 1 : -1;
}
