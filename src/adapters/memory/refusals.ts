import {
  isAskedFor,
  OTHER_KEY,
  positionOfCursor,
  type RefusalCount,
  type RefusalKey,
  type RefusalPosition,
  refusalKeyText,
  refusalsNotKept,
  WRITE_EVERY_MS,
} from "../../domain/charge/refusal-count.ts";
import { LOG_KEPT_MS } from "../../domain/charge/refusal-log.ts";
import { HOUR_MS } from "../../domain/charge/usage.ts";
import type { RefusalLogStore, RefusalQuery, RefusalRow, RefusalStore, RowReply } from "../../ports/usage-store.ts";
import type { ScopedRecords } from "../../records/scoped-records.ts";
import { refusalLogOn } from "../../records/usage.ts";
import { lastHourOverMs } from "../../stored/bucket-rules.ts";
import {
  dataOf,
  type MemoryData,
  type RefusalCell,
  type RefusalEntry,
  type RefusalIndex,
  requireActive,
} from "./data.ts";
import { OrderedMap } from "./ordered-map.ts";
import { pageInOrder } from "./ordered-pages.ts";
import { type IdWindow, windowList } from "./windows.ts";

/** Some ten megabytes. Beyond it the oldest hours keep their sums, without the names. */
const ENTRIES_MAX = 50_000;
/** Rows of single refusals: some ten megabytes, at most a few dozen. Beyond it the oldest go. */
const LOG_ROWS_MAX = 10_000;
/** Old entries are looked for this often. */
const SWEEP_EVERY_MS = HOUR_MS / 4;

export function memoryRefusals(all: MemoryData, namespaceId: string): RefusalStore {
  const { refusals: index } = dataOf(all, namespaceId);
  const { usageKeepMs } = all.retention;
  return {
    isKept: usageKeepMs !== undefined,
    writeEveryMs: WRITE_EVERY_MS,
    write: (rows, nowMs) => {
      if (usageKeepMs === undefined) throw refusalsNotKept("usage");
      requireActive(all, namespaceId);
      sweep(index, usageKeepMs, nowMs);
      const replies = rows.map((row) => put(index, row));
      for (const hourMs of [...index.byHour.keys()].sort((a, b) => a - b)) {
        if (index.entryCount <= ENTRIES_MAX) break;
        foldHour(index, hourMs);
      }
      return replies;
    },
    query: (query, page) => {
      if (usageKeepMs === undefined) throw refusalsNotKept("usage");
      const list = windowList(index.byHour, query, (of) => countIn(index, query, of), { textOf, keyOf });
      return pageInOrder(all.turns, list, page);
    },
  };
}

/** Single refusals, in records. */
export function memoryRefusalLog(all: MemoryData, records: ScopedRecords): RefusalLogStore {
  const { usageKeepMs } = all.retention;
  const log = refusalLogOn(records, usageKeepMs !== undefined);
  return {
    ...log,
    write: async (rows, nowMs) => {
      const replies = await log.write(rows, nowMs);
      // Old rows go where new ones come, as in the counts.
      all.records.in(records.scope).boundLog(lastHourOverMs(nowMs, LOG_KEPT_MS), LOG_ROWS_MAX);
      return replies;
    },
  };
}

/** Writes rows that were counted elsewhere, whatever became of the namespace. */
export function putRefusals(all: MemoryData, namespaceId: string, rows: readonly RefusalRow[]): void {
  const { refusals } = dataOf(all, namespaceId);
  for (const row of rows) put(refusals, row);
}

function put(index: RefusalIndex, { id, hourMs, entityId, resource, counts, mustExist }: RefusalRow): RowReply {
  const keyed = counts.map(({ count, ...about }) => ({ key: { entityId, resource, ...about }, count }));
  const found = keyed.map(({ key }) => entryIn(index.byHour.get(hourMs)?.get(refusalKeyText(key)), id));
  if (mustExist && found.every((entry) => entry === undefined)) return "gone";
  for (const [i, { key, count }] of keyed.entries()) {
    const entry = found[i];
    if (entry === undefined) add(index, hourMs, key, { rowId: id, count });
    else entry.count = Math.max(entry.count, count);
  }
  return "stored";
}

function add(index: RefusalIndex, hourMs: number, key: RefusalKey, entry: RefusalEntry): void {
  const cells = index.byHour.get(hourMs) ?? new OrderedMap<RefusalCell>();
  const text = refusalKeyText(key);
  const cell = cells.get(text) ?? { key, entries: [] };
  index.byHour.set(hourMs, cells);
  cells.set(text, cell);
  cell.entries.push(entry);
  index.entryCount++;
}

/** Old ones go where new ones come: a limiter that is not asked keeps what it has, and needs no timer. */
function sweep(index: RefusalIndex, keepMs: number, nowMs: number): void {
  if (nowMs >= index.sweptAtMs && nowMs < index.sweptAtMs + SWEEP_EVERY_MS) return;
  index.sweptAtMs = nowMs;
  const untilMs = lastHourOverMs(nowMs, keepMs);
  for (const hourMs of index.byHour.keys()) if (hourMs <= untilMs) removeHour(index, hourMs);
}

/** A process that goes on with a row of that hour is told that it is gone, and begins another. */
function foldHour(index: RefusalIndex, hourMs: number): void {
  add(index, hourMs, OTHER_KEY, { rowId: "", count: removeHour(index, hourMs) });
}

/** Answers how many refusals were counted in the hour. */
function removeHour(index: RefusalIndex, hourMs: number): number {
  let count = 0;
  for (const { entries } of index.byHour.get(hourMs)?.values() ?? []) {
    for (const entry of entries) count += entry.count;
    index.entryCount -= entries.length;
  }
  index.byHour.delete(hourMs);
  return count;
}

function countIn(
  { byHour }: RefusalIndex,
  query: RefusalQuery,
  { startMs, endMs, id }: IdWindow,
): RefusalCount | undefined {
  let key: RefusalKey | undefined;
  let count = 0;
  for (const [hourMs, cells] of byHour) {
    const cell = hourMs >= startMs && hourMs < endMs ? cells.get(id) : undefined;
    if (cell === undefined) continue;
    key = cell.key;
    for (const entry of cell.entries) count += entry.count;
  }
  if (key === undefined || count === 0 || !isAskedFor(key, query)) return undefined;
  return { ...key, window: query.window, windowStartMs: startMs, count };
}

/** The newest stand last. */
function entryIn(cell: RefusalCell | undefined, rowId: string): RefusalEntry | undefined {
  return cell?.entries.findLast((entry) => entry.rowId === rowId);
}

// A key of the list ends with a number, the cursor of every store with a word.
function textOf(key: string): string {
  return `${key.slice(0, -1)}${key.endsWith("1") ? "total" : "limit"}`;
}

function keyOf(cursor: string): string {
  const position = positionOfCursor(cursor) as RefusalPosition;
  return `${position.windowStartMs}\n${refusalKeyText(position)}`;
}
