import {
  compareRefusals,
  isAskedFor,
  OTHER_KEY,
  positionOfCursor,
  type RefusalCount,
  type RefusalKey,
  type RefusalPosition,
  refusalCursor,
  refusalKeyText,
  refusalsNotKept,
  WRITE_EVERY_MS,
} from "../../domain/charge/refusal-count.ts";
import { HOUR_MS, windowEndMs, windowStartMs } from "../../domain/charge/usage.ts";
import type { Page, PageRequest } from "../../domain/names/paging.ts";
import type { MaybePromise } from "../../ports/bucket-store.ts";
import type { RefusalQuery, RefusalRow, RefusalStore, RowReply } from "../../ports/refusal-store.ts";
import { lastHourOverMs } from "../../stored/keeping.ts";
import { dataOf, type MemoryData, type NamespaceData, requireActive } from "./data.ts";
import type { KeyedList } from "./list-orders.ts";
import type { RefusalCell, RefusalEntry } from "./refusal-index.ts";

/** Some ten megabytes. Beyond it the oldest hours keep their sums, without the names. */
const ENTRIES_MAX = 50_000;
/** From one look for old entries to the next. */
const SWEEP_EVERY_MS = HOUR_MS / 4;

export class MemoryRefusals implements RefusalStore {
  readonly isKept: boolean;
  readonly writeEveryMs = WRITE_EVERY_MS;
  readonly #all: MemoryData;
  readonly #namespaceId: string;
  readonly #data: NamespaceData;

  constructor(all: MemoryData, namespaceId: string) {
    this.#all = all;
    this.#namespaceId = namespaceId;
    this.#data = dataOf(all, namespaceId);
    this.isKept = all.retention.usageKeepMs !== undefined;
  }

  write(rows: readonly RefusalRow[], nowMs: number): readonly RowReply[] {
    if (!this.isKept) throw refusalsNotKept("usage");
    requireActive(this.#all, this.#namespaceId);
    this.#sweep(nowMs);
    const replies = rows.map((row) => this.#put(row));
    for (const hourMs of this.#oldestHours()) {
      if (this.#data.refusals.entryCount <= ENTRIES_MAX) break;
      this.#foldHour(hourMs);
    }
    return replies;
  }

  query(query: RefusalQuery, page: PageRequest): MaybePromise<Page<RefusalCount>> {
    if (!this.isKept) throw refusalsNotKept("usage");
    const { window, entityId, resource, limit, fromMs, toMs } = query;
    const list: KeyedList<RefusalPosition, RefusalCount> = {
      name: `refusals ${JSON.stringify([window, entityId, resource, limit, fromMs, toMs])}`,
      keys: () => this.#positions(query),
      compare: compareRefusals,
      itemOf: (position) => this.#countAt(query, position),
      textOf: refusalCursor,
      keyOf: (text) => positionOfCursor(text) as RefusalPosition,
    };
    return this.#data.orders.pageByTurns(list, page);
  }

  #put({ id, hourMs, entityId, resource, counts, mustExist }: RefusalRow): RowReply {
    const { refusals } = this.#data;
    const keyed = counts.map(({ count, ...about }) => ({ key: { entityId, resource, ...about }, count }));
    const found = keyed.map(({ key }) => entryIn(refusals.cells.get(refusalKeyText(key)), hourMs, id));
    if (mustExist && found.every((entry) => entry === undefined)) return "gone";
    for (const [i, { key, count }] of keyed.entries()) {
      const entry = found[i];
      if (entry === undefined) this.#add(key, { hourMs, rowId: id, count });
      else entry.count = Math.max(entry.count, count);
    }
    return "stored";
  }

  #add(key: RefusalKey, entry: RefusalEntry): void {
    const { refusals } = this.#data;
    const text = refusalKeyText(key);
    const cell = refusals.cells.get(text) ?? { key, entries: [] };
    refusals.cells.set(text, cell);
    cell.entries.push(entry);
    refusals.entryCount++;
  }

  /** Old ones go where new ones come: a limiter that is not asked keeps what it has, and needs no timer. */
  #sweep(nowMs: number): void {
    const { refusals } = this.#data;
    if (nowMs >= refusals.sweptAtMs && nowMs < refusals.sweptAtMs + SWEEP_EVERY_MS) return;
    refusals.sweptAtMs = nowMs;
    const untilMs = lastHourOverMs(nowMs, this.#all.retention.usageKeepMs ?? 0);
    this.#removeWhere(({ hourMs }) => hourMs <= untilMs);
  }

  #oldestHours(): readonly number[] {
    const { cells, entryCount } = this.#data.refusals;
    if (entryCount <= ENTRIES_MAX) return [];
    const hours = new Set<number>();
    for (const { entries } of cells.values()) for (const { hourMs } of entries) hours.add(hourMs);
    return [...hours].sort((a, b) => a - b);
  }

  /** A process that goes on with a row of that hour is told that it is gone, and begins another. */
  #foldHour(hourMs: number): void {
    const count = this.#removeWhere((entry) => entry.hourMs === hourMs);
    this.#add(OTHER_KEY, { hourMs, rowId: "", count });
  }

  /** Answers how many refusals those entries had counted. */
  #removeWhere(isOver: (entry: RefusalEntry) => boolean): number {
    const { refusals } = this.#data;
    let count = 0;
    for (const [text, cell] of refusals.cells) {
      if (!cell.entries.some(isOver)) continue;
      for (const entry of cell.entries) if (isOver(entry)) count += entry.count;
      const kept = cell.entries.filter((entry) => !isOver(entry));
      refusals.entryCount -= cell.entries.length - kept.length;
      cell.entries = kept;
      if (kept.length === 0) refusals.cells.delete(text);
    }
    return count;
  }

  *#positions(query: RefusalQuery): Generator<RefusalPosition> {
    const { window, fromMs, toMs } = query;
    for (const { key, entries } of this.#data.refusals.cells.values()) {
      if (!isAskedFor(key, query)) continue;
      for (const startMs of new Set(entries.map(({ hourMs }) => windowStartMs(window, hourMs)))) {
        if (startMs >= fromMs && startMs < toMs) yield { ...key, windowStartMs: startMs };
      }
    }
  }

  #countAt({ window }: RefusalQuery, { windowStartMs: startMs, ...key }: RefusalPosition): RefusalCount | undefined {
    const endMs = windowEndMs(window, startMs);
    let count = 0;
    for (const entry of this.#data.refusals.cells.get(refusalKeyText(key))?.entries ?? []) {
      if (entry.hourMs >= startMs && entry.hourMs < endMs) count += entry.count;
    }
    return count === 0 ? undefined : { ...key, window, windowStartMs: startMs, count };
  }
}

/** The newest stand last. */
function entryIn(cell: RefusalCell | undefined, hourMs: number, rowId: string): RefusalEntry | undefined {
  return cell?.entries.findLast((entry) => entry.hourMs === hourMs && entry.rowId === rowId);
}
