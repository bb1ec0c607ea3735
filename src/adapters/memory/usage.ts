import { type UsageSnapshot, type UsageWindow, windowEndMs, windowStartMs } from "../../domain/charge/usage.ts";
import { countersOf } from "../../domain/charge/usage-counters.ts";
import { usageNotKept } from "../../domain/config/retention.ts";
import { ValidationError } from "../../domain/names/errors.ts";
import type { Page, PageRequest } from "../../domain/names/paging.ts";
import type { MaybePromise } from "../../ports/bucket-store.ts";
import type { UsageQuery, UsageStore } from "../../ports/usage-store.ts";
import { dataOf, type MemoryData, type NamespaceData } from "./data.ts";
import type { HourUsage } from "./hour-usage.ts";
import { sameText, type WalkedList } from "./list-orders.ts";

/** Days and months are sums of hours, made when asked for. */
export class MemoryUsage implements UsageStore {
  readonly #data: NamespaceData;
  readonly #isKept: boolean;

  constructor(all: MemoryData, namespaceId: string) {
    this.#data = dataOf(all, namespaceId);
    this.#isKept = all.retention.usageKeepMs !== undefined;
  }

  query(query: UsageQuery, page: PageRequest): MaybePromise<Page<UsageSnapshot>> {
    if (!this.#isKept) throw usageNotKept();
    const list: WalkedList<UsageSnapshot> = {
      keysAfter: (key, max) => this.#keysAfter(query, key, max),
      from: `${query.fromMs - 1}\n`,
      itemOf: (key) => this.#snapshot(query, windowIn(key)),
      textOf: sameText,
      keyOf: checkedCursor,
    };
    return this.#data.orders.pageInOrder(list, page);
  }

  /** Keys are texts of a window's start and a bucket's id. They go from window to window, and in each by entity id and resource. */
  #keysAfter({ window, entityId, fromMs, toMs }: UsageQuery, key: string, max: number): readonly string[] {
    const { countedHours } = this.#data;
    const after = windowIn(key);
    const first = entityId === undefined ? "" : `${entityId}\n`;
    const keys: string[] = [];
    for (const [startMs, hours] of windowsOf(window, countedHours.hours())) {
      if (startMs < Math.max(fromMs, after.startMs) || startMs >= toMs) continue;
      const id = startMs === after.startMs && after.id > first ? after.id : first;
      for (const found of countedHours.idsAfter(hours, id, max - keys.length)) {
        if (!found.startsWith(first)) break;
        keys.push(`${startMs}\n${found}`);
      }
      if (keys.length >= max) break;
    }
    return keys;
  }

  #snapshot({ window, resource: wanted }: UsageQuery, { startMs, id }: WindowKey): UsageSnapshot | undefined {
    const cell = this.#data.buckets.get(id);
    if (cell?.hours === undefined || (wanted !== undefined && cell.key.resource !== wanted)) return undefined;
    const endMs = windowEndMs(window, startMs);
    const hours = cell.hours.filter(({ hourMs }) => hourMs >= startMs && hourMs < endMs);
    if (hours.length === 0) return undefined;
    const { entityId, resource } = cell.key;
    return { entityId, resource, window, windowStartMs: startMs, windowEndMs: endMs, ...sum(hours) };
  }
}

/** One window of one bucket: what a line of the list is about. */
interface WindowKey {
  readonly startMs: number;
  /** Of the bucket. */
  readonly id: string;
}

/** The hours of each window. */
function windowsOf(window: UsageWindow, hours: readonly number[]): ReadonlyMap<number, readonly number[]> {
  const windows = new Map<number, number[]>();
  for (const hourMs of hours) {
    const startMs = windowStartMs(window, hourMs);
    const known = windows.get(startMs);
    if (known === undefined) windows.set(startMs, [hourMs]);
    else known.push(hourMs);
  }
  return windows;
}

function windowIn(key: string): WindowKey {
  const end = key.indexOf("\n");
  return { startMs: Number(key.slice(0, end)), id: key.slice(end + 1) };
}

function sum(hours: readonly HourUsage[]) {
  const counted = new Map<string, number>();
  let requests = 0;
  for (const hour of hours) {
    for (const [i, name] of hour.names.entries()) counted.set(name, (counted.get(name) ?? 0) + (hour.tokens[i] ?? 0));
    requests += hour.requests;
  }
  return { ...countersOf(counted), requests };
}

function checkedCursor(text: string): string {
  const [start, entityId, resource] = text.split("\n");
  if (resource === undefined || entityId === undefined || !Number.isSafeInteger(Number(start))) {
    throw new ValidationError(
      "cursor_invalid",
      `${JSON.stringify(text)} is not a cursor of this list; pass the cursor of the previous page.`,
    );
  }
  return text;
}
