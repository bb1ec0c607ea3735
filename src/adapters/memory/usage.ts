import { ValidationError } from "../../domain/errors.ts";
import type { Page, PageRequest } from "../../domain/paging.ts";
import { usageNotKept } from "../../domain/retention.ts";
import { countersOf, type UsageSnapshot, windowEndMs, windowStartMs } from "../../domain/usage.ts";
import type { MaybePromise } from "../../ports/bucket-store.ts";
import type { UsageQuery, UsageStore } from "../../ports/usage-store.ts";
import { dataOf, type MemoryData, type NamespaceData } from "./data.ts";
import type { HourUsage } from "./hour-usage.ts";
import type { KeyedList } from "./list-orders.ts";
import { compareTexts } from "./sorted-texts.ts";

/** One window of one bucket: what a line of the list is about. */
interface WindowKey {
  readonly startMs: number;
  readonly entityId: string;
  readonly resource: string;
  /** Of the bucket. */
  readonly id: string;
}

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
    const { window, entityId, resource, fromMs, toMs } = query;
    const list: KeyedList<WindowKey, UsageSnapshot> = {
      name: `usage ${JSON.stringify([window, entityId, resource, fromMs, toMs])}`,
      keys: () => this.#keys(query),
      compare,
      itemOf: (key) => this.#snapshot(query, key),
      textOf: (key) => `${key.startMs}\n${key.id}`,
      keyOf,
    };
    return this.#data.orders.pageByTurns(list, page);
  }

  *#keys({ window, entityId, resource, fromMs, toMs }: UsageQuery): Generator<WindowKey> {
    for (const { key, hours = [] } of this.#data.buckets.values()) {
      if (entityId !== undefined && key.entityId !== entityId) continue;
      if (resource !== undefined && key.resource !== resource) continue;
      const starts = new Set(hours.map(({ hourMs }) => windowStartMs(window, hourMs)));
      for (const startMs of starts) {
        if (startMs < fromMs || startMs >= toMs) continue;
        yield { startMs, entityId: key.entityId, resource: key.resource, id: key.id };
      }
    }
  }

  #snapshot({ window }: UsageQuery, { startMs, entityId, resource, id }: WindowKey): UsageSnapshot | undefined {
    const endMs = windowEndMs(window, startMs);
    const hours = this.#data.buckets.get(id)?.hours?.filter(({ hourMs }) => hourMs >= startMs && hourMs < endMs) ?? [];
    if (hours.length === 0) return undefined;
    return { entityId, resource, window, windowStartMs: startMs, windowEndMs: endMs, ...sum(hours) };
  }
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

function compare(a: WindowKey, b: WindowKey): number {
  if (a.startMs !== b.startMs) return a.startMs - b.startMs;
  return compareTexts(a.entityId, b.entityId) || compareTexts(a.resource, b.resource);
}

function keyOf(text: string): WindowKey {
  const [start, entityId, resource] = text.split("\n");
  const startMs = Number(start);
  if (resource === undefined || entityId === undefined || !Number.isSafeInteger(startMs)) {
    throw new ValidationError(
      "cursor_invalid",
      `${JSON.stringify(text)} is not a cursor of this list; pass the cursor of the previous page.`,
    );
  }
  return { startMs, entityId, resource, id: `${entityId}\n${resource}` };
}
