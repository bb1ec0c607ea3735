import { type Count, plus, tokensOfCount } from "../../bucket/count.ts";
import { ItemUnreadable } from "../../domain/bucket/item-unreadable.ts";
import {
  HOUR_MS,
  type UsageSnapshot,
  type UsageWindow,
  windowEndMs,
  windowStartMs,
} from "../../domain/charge/usage.ts";
import { countersOf } from "../../domain/charge/usage-counters.ts";
import type { Item } from "../../ports/item-store.ts";
import { countDamageIn } from "../item/damage.ts";
import { closedHourIn, type HourCounts, isNothing, openHourIn } from "./hours.ts";
import { hoursOnSheet } from "./sheet-text.ts";

/** What usage is read from: the items of shards as they stood, and sheets that were read after them. */
export interface UsageItems {
  readonly shards: readonly { readonly shard: number; readonly item: Item }[];
  readonly sheets: readonly { readonly shard: number; readonly day: string; readonly item: Item }[];
}

export type ShardItem = UsageItems["shards"][number];
export type SheetItem = UsageItems["sheets"][number];

/** Whose usage it is. */
export interface UsageOf {
  readonly entityId: string;
  readonly resource: string;
}

/** The hours of one bucket that were counted. Of an hour that a shard has and its sheet too, the sheet counts. */
export function hoursOf(bucket: UsageOf, { shards, sheets }: UsageItems): HourCounts[] {
  const found = new Map<string, HourCounts>();
  for (const { shard, item } of shards) {
    const damage = countDamageIn(item);
    // What it has counted cannot be told, and a sum without it would be too low without a word.
    if (damage !== undefined) throw new ItemUnreadable({ bucket, shard }, damage);
    for (const counts of [closedHourIn(item), openHourIn(item)]) {
      if (counts !== undefined) found.set(`${shard} ${counts.hour}`, counts);
    }
  }
  for (const { shard, day, item } of sheets) {
    for (const counts of hoursOnSheet({ bucket, shard, day, item })) found.set(`${shard} ${counts.hour}`, counts);
  }
  return [...found.values()].filter((counts) => !isNothing(counts));
}

/** Windows that start in [fromMs, toMs). */
interface WindowSpan {
  readonly window: UsageWindow;
  readonly fromMs: number;
  readonly toMs: number;
}

/** The same as `windowsOf` from sheets that come by their days, as they come: only those of one window, or day, are held. */
export async function* windowsInOrder(
  of: UsageOf,
  { shards, sheets }: { readonly shards: readonly ShardItem[]; readonly sheets: AsyncIterable<SheetItem> },
  { window, fromMs, toMs }: WindowSpan,
): AsyncGenerator<UsageSnapshot> {
  const step = window === "monthly" ? "monthly" : "daily";
  const stepOf = (atMs: number) => windowStartMs(step, atMs);
  const within = (startMs: number, own: readonly SheetItem[]) => {
    const span = { fromMs: Math.max(fromMs, startMs), toMs: Math.min(toMs, windowEndMs(step, startMs)) };
    return windowsOf(of, { shards, sheets: own }, { window, ...span });
  };
  // What the shards have may be on no sheet yet.
  const hours = hoursOf(of, { shards, sheets: [] }).map(({ hour }) => stepOf(hour * HOUR_MS));
  const live = [...new Set(hours)].sort((a, b) => a - b);
  let own: SheetItem[] = [];
  let startMs = Number.NEGATIVE_INFINITY;
  for await (const sheet of sheets) {
    const atMs = stepOf(Date.parse(`${sheet.day}T00:00:00Z`));
    if (atMs !== startMs) {
      if (own.length > 0) yield* within(startMs, own);
      while (live[0] !== undefined && live[0] < atMs) yield* within(live.shift() as number, []);
      if (live[0] === atMs) live.shift();
      own = [];
      startMs = atMs;
    }
    own.push(sheet);
  }
  if (own.length > 0) yield* within(startMs, own);
  for (const atMs of live) yield* within(atMs, []);
}

/** The windows of one bucket that something was counted in, in their order. */
export function windowsOf(of: UsageOf, items: UsageItems, { window, fromMs, toMs }: WindowSpan): UsageSnapshot[] {
  const windows = new Map<number, { requests: number; counts: Map<string, Count> }>();
  for (const { hour, requests, counts } of hoursOf(of, items)) {
    const startMs = windowStartMs(window, hour * HOUR_MS);
    if (startMs < fromMs || startMs >= toMs) continue;
    const sums = windows.get(startMs) ?? { requests: 0, counts: new Map() };
    sums.requests += requests;
    for (const [name, milli] of counts) sums.counts.set(name, plus(sums.counts.get(name) ?? 0, milli));
    windows.set(startMs, sums);
  }
  const inOrder = [...windows].sort(([a], [b]) => a - b);
  return inOrder.map(([startMs, { requests, counts }]) => ({
    ...{ entityId: of.entityId, resource: of.resource, window, windowStartMs: startMs },
    windowEndMs: windowEndMs(window, startMs),
    requests,
    ...countersOf(Array.from(counts, ([name, milli]) => [name, tokensOfCount(milli)] as const)),
  }));
}
