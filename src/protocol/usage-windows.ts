import {
  countersOf,
  HOUR_MS,
  type UsageSnapshot,
  type UsageWindow,
  windowEndMs,
  windowStartMs,
} from "../domain/usage.ts";
import type { Item } from "../ports/item-store.ts";
import { closedHourIn, type HourCounts, hoursOnSheet, isNothing, openHourIn } from "./hours.ts";

/** What usage is read from: the items of shards as they stood, and sheets that were read after them. */
export interface UsageItems {
  readonly shards: readonly { readonly shard: number; readonly item: Item }[];
  readonly sheets: readonly { readonly shard: number; readonly day: string; readonly item: Item }[];
}

/** Whose usage it is. */
export interface UsageOf {
  readonly entityId: string;
  readonly resource: string;
}

/** The hours of one bucket that were counted. Of an hour that a shard has and its sheet too, the sheet counts. */
export function hoursOf({ shards, sheets }: UsageItems): HourCounts[] {
  const found = new Map<string, HourCounts>();
  for (const { shard, item } of shards) {
    for (const counts of [closedHourIn(item), openHourIn(item)]) {
      if (counts !== undefined) found.set(`${shard} ${counts.hour}`, counts);
    }
  }
  for (const { shard, day, item } of sheets) {
    for (const counts of hoursOnSheet(day, item)) found.set(`${shard} ${counts.hour}`, counts);
  }
  return [...found.values()].filter((counts) => !isNothing(counts));
}

/** The windows of one bucket that something was counted in, in their order. */
export function windowsOf(
  of: UsageOf,
  items: UsageItems,
  { window, fromMs, toMs }: { readonly window: UsageWindow; readonly fromMs: number; readonly toMs: number },
): UsageSnapshot[] {
  const windows = new Map<number, { requests: number; counts: Map<string, number> }>();
  for (const { hour, requests, counts } of hoursOf(items)) {
    const startMs = windowStartMs(window, hour * HOUR_MS);
    if (startMs < fromMs || startMs >= toMs) continue;
    const sums = windows.get(startMs) ?? { requests: 0, counts: new Map() };
    sums.requests += requests;
    for (const [name, milli] of counts) sums.counts.set(name, (sums.counts.get(name) ?? 0) + milli);
    windows.set(startMs, sums);
  }
  const inOrder = [...windows].sort(([a], [b]) => a - b);
  return inOrder.map(([startMs, { requests, counts }]) => ({
    ...{ entityId: of.entityId, resource: of.resource, window, windowStartMs: startMs },
    windowEndMs: windowEndMs(window, startMs),
    requests,
    ...countersOf(Array.from(counts, ([name, milli]) => [name, milli / 1000] as const)),
  }));
}
