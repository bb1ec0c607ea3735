import type { Page, PageRequest } from "../../domain/paging.ts";
import { countersOf, type UsageSnapshot, windowEndMs, windowStartMs } from "../../domain/usage.ts";
import type { UsageQuery, UsageStore } from "../../ports/usage-store.ts";
import { dataOf, type MemoryData, type NamespaceData, pageByKey } from "./data.ts";

/** Days and months are sums of hours, made when asked for. */
export class MemoryUsage implements UsageStore {
  readonly #data: NamespaceData;

  constructor(all: MemoryData, namespaceId: string) {
    this.#data = dataOf(all, namespaceId);
  }

  query(query: UsageQuery, page: PageRequest): Page<UsageSnapshot> {
    const windows = new Map<string, Omit<UsageSnapshot, "counters" | "overdrafts" | "bypassed"> & Counted>();
    for (const { key, hours } of this.#data.buckets.values()) {
      if (query.entityId !== undefined && key.entityId !== query.entityId) continue;
      if (query.resource !== undefined && key.resource !== query.resource) continue;
      for (const { hourMs, limits, tokens, requests } of hours.values()) {
        const startMs = windowStartMs(query.window, hourMs);
        if (startMs < query.fromMs || startMs >= query.toMs) continue;
        const id = orderOf({ windowStartMs: startMs, entityId: key.entityId, resource: key.resource });
        const known = windows.get(id);
        const counted = known?.counted ?? new Map<string, number>();
        for (const [i, limit] of limits.entries()) counted.set(limit, (counted.get(limit) ?? 0) + (tokens[i] ?? 0));
        windows.set(id, {
          entityId: key.entityId,
          resource: key.resource,
          window: query.window,
          windowStartMs: startMs,
          windowEndMs: windowEndMs(query.window, startMs),
          counted,
          requests: (known?.requests ?? 0) + requests,
        });
      }
    }
    const { items, ...rest } = pageByKey(windows.values(), orderOf, page);
    return { ...rest, items: items.map(({ counted, ...window }) => ({ ...window, ...countersOf(counted) })) };
  }
}

interface Counted {
  readonly counted: Map<string, number>;
}

function orderOf(at: { windowStartMs: number; entityId: string; resource: string }): string {
  return `${String(at.windowStartMs).padStart(16, "0")}\n${at.entityId}\n${at.resource}`;
}
