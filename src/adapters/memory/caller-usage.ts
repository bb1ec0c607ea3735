import {
  type CallerCounts,
  callerCursor,
  type UsagePosition,
  usagePositionOf,
} from "../../domain/charge/caller-usage.ts";
import { OTHER, WRITE_EVERY_MS } from "../../domain/charge/refusal-count.ts";
import { HOUR_MS } from "../../domain/charge/usage.ts";
import { usageNotKept } from "../../domain/config/retention.ts";
import type { CallerRow, CallerStore, CallerSum, RowReply, UsageQuery } from "../../ports/usage-store.ts";
import { lastHourOverMs } from "../../stored/bucket-rules.ts";
import { type CallerIndex, dataOf, type MemoryData, requireActive } from "./data.ts";
import { OrderedMap } from "./ordered-map.ts";
import { pageInOrder, sameText } from "./ordered-pages.ts";
import { type IdWindow, windowList } from "./windows.ts";

/** Some fifty megabytes. Beyond it the oldest hours keep their sums, without the names. */
const ROWS_MAX = 100_000;
/** Old rows are looked for this often. */
const SWEEP_EVERY_MS = HOUR_MS / 4;

/** Usage of callers that no bucket counts, in memory. */
export function memoryCallers(all: MemoryData, namespaceId: string): CallerStore {
  const { callers: index } = dataOf(all, namespaceId);
  const { usageKeepMs } = all.retention;
  return {
    isKept: usageKeepMs !== undefined,
    writeEveryMs: WRITE_EVERY_MS,
    write: (rows, nowMs) => {
      if (usageKeepMs === undefined) throw usageNotKept();
      requireActive(all, namespaceId);
      sweep(index, usageKeepMs, nowMs);
      const replies = rows.map((row) => put(index, row));
      for (const hourMs of [...index.byHour.keys()].sort((a, b) => a - b)) {
        if (index.rowCount <= ROWS_MAX) break;
        foldHour(index, hourMs);
      }
      return replies;
    },
    query: (query, page) => {
      if (usageKeepMs === undefined) throw usageNotKept();
      const list = windowList(index.byHour, query, (of) => sumIn(index, query, of), { textOf: sameText, keyOf });
      return pageInOrder(all.turns, list, page);
    },
  };
}

/** Writes rows that were counted elsewhere, whatever became of the namespace. */
export function putCallers(all: MemoryData, namespaceId: string, rows: readonly CallerRow[]): void {
  const { callers } = dataOf(all, namespaceId);
  for (const row of rows) put(callers, row);
}

function put(index: CallerIndex, { id, hourMs, entityId, resource, counts, version, mustExist }: CallerRow): RowReply {
  const cells = index.byHour.get(hourMs) ?? new OrderedMap();
  const text = `${entityId}\n${resource}`;
  const rows = cells.get(text) ?? new Map();
  const known = rows.get(id);
  if (known === undefined && mustExist) return "gone";
  if (known !== undefined && known.version >= version) return "stored";
  index.byHour.set(hourMs, cells);
  cells.set(text, rows);
  rows.set(id, { version, counts });
  if (known === undefined) index.rowCount++;
  return "stored";
}

/** Old ones go where new ones come: a limiter that is not asked keeps what it has, and needs no timer. */
function sweep(index: CallerIndex, keepMs: number, nowMs: number): void {
  if (nowMs >= index.sweptAtMs && nowMs < index.sweptAtMs + SWEEP_EVERY_MS) return;
  index.sweptAtMs = nowMs;
  const untilMs = lastHourOverMs(nowMs, keepMs);
  for (const hourMs of index.byHour.keys()) if (hourMs <= untilMs) removeHour(index, hourMs);
}

/** A process that goes on with a row of that hour is told that it is gone, and begins another. */
function foldHour(index: CallerIndex, hourMs: number): void {
  const counts = removeHour(index, hourMs);
  put(index, { id: "", hourMs, entityId: OTHER, resource: OTHER, version: 1, mustExist: false, counts });
}

/** Answers the sums of the hour. */
function removeHour(index: CallerIndex, hourMs: number): CallerCounts {
  const all: CallerCounts[] = [];
  for (const rows of index.byHour.get(hourMs)?.values() ?? []) {
    for (const { counts } of rows.values()) all.push(counts);
    index.rowCount -= rows.size;
  }
  index.byHour.delete(hourMs);
  return added(all);
}

function added(all: readonly CallerCounts[]): CallerCounts {
  const sums = new Map<string, number>();
  for (const counts of all) {
    for (const [name, count] of Object.entries(counts)) sums.set(name, (sums.get(name) ?? 0) + count);
  }
  return Object.fromEntries(sums);
}

function sumIn(
  { byHour }: CallerIndex,
  { resource: wanted }: UsageQuery,
  { startMs, endMs, id }: IdWindow,
): CallerSum | undefined {
  const [entityId = "", resource = ""] = id.split("\n");
  if (wanted !== undefined && resource !== wanted) return undefined;
  const found: CallerCounts[] = [];
  for (const [hourMs, cells] of byHour) {
    if (hourMs < startMs || hourMs >= endMs) continue;
    for (const { counts } of cells.get(id)?.values() ?? []) found.push(counts);
  }
  return found.length === 0 ? undefined : { windowStartMs: startMs, entityId, resource, counts: added(found) };
}

function keyOf(cursor: string): string {
  return callerCursor(usagePositionOf(cursor) as UsagePosition);
}
