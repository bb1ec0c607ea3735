import { type Count, plus, tokensOfCount } from "../../bucket/integers.ts";
import { ItemUnreadable } from "../../domain/bucket/item-unreadable.ts";
import {
  countersOf,
  HOUR_MS,
  shownWindow,
  type UsageSnapshot,
  type Windows,
  windowStartMs,
} from "../../domain/charge/usage.ts";
import type { Item } from "../../ports/item-store.ts";
import { countDamageIn } from "../item/damage.ts";
import { closedHourIn, type HourCounts, isNothing, openHourIn } from "./hours.ts";
import { hoursOnSheet } from "./sheets.ts";

/** The items that usage is read from: shards as they stood, and sheets that were read after them. */
export interface UsageItems {
  readonly shards: readonly { readonly shard: number; readonly item: Item }[];
  readonly sheets: readonly { readonly shard: number; readonly day: string; readonly item: Item }[];
}

type ShardItem = UsageItems["shards"][number];
export type SheetItem = UsageItems["sheets"][number];

export interface UsageOf {
  readonly entityId: string;
  readonly resource: string;
}

/** The counted hours of one bucket. If both a shard and its sheet have an hour, the sheet counts. */
export function hoursOf(bucket: UsageOf, { shards, sheets }: UsageItems): HourCounts[] {
  const found = new Map<string, HourCounts>();
  for (const { shard, item } of shards) {
    const damage = countDamageIn(item);
    // Its counts are unknown, and a sum without them would silently be too low.
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
  readonly window: Windows;
  readonly fromMs: number;
  readonly toMs: number;
}

/** Like `windowsOf`, for sheets that arrive in the order of their days: only those of windows that go on are held. */
export async function* windowsInOrder(
  of: UsageOf,
  { shards, sheets }: { readonly shards: readonly ShardItem[]; readonly sheets: AsyncIterable<SheetItem> },
  { window, fromMs, toMs }: WindowSpan,
): AsyncGenerator<UsageSnapshot> {
  let own: SheetItem[] = [];
  let doneMs = fromMs;
  for await (const sheet of sheets) {
    // Windows that began before the one in which this day begins are whole.
    const wholeMs = Math.min(windowStartMs(window, dayStartMs(sheet)), toMs);
    if (wholeMs > doneMs) {
      yield* windowsOf(of, { shards, sheets: own }, { window, fromMs: doneMs, toMs: wholeMs });
      // The last hours of a day (UTC) may be of the next window of a zone.
      own = own.filter((one) => dayStartMs(one) + DAY_MS > wholeMs);
      doneMs = wholeMs;
    }
    own.push(sheet);
  }
  yield* windowsOf(of, { shards, sheets: own }, { window, fromMs: doneMs, toMs });
}

const DAY_MS = 24 * HOUR_MS;

function dayStartMs({ day }: Pick<SheetItem, "day">): number {
  return Date.parse(`${day}T00:00:00Z`);
}

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
    entityId: of.entityId,
    resource: of.resource,
    ...shownWindow(window, startMs),
    requests,
    ...countersOf(Array.from(counts, ([name, milli]) => [name, tokensOfCount(milli)] as const)),
  }));
}
