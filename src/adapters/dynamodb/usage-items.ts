import { type UsageWindow, windowEndMs, windowStartMs } from "../../domain/charge/usage.ts";
import type { Item } from "../../ports/item-store.ts";
import type { UsageQuery } from "../../ports/usage-store.ts";
import { decodeItem } from "./codec.ts";
import type { Records } from "./records.ts";
import type { UsageItemRef } from "./usage-index.ts";

/** The end of the year 9999: the last that has four digits. */
const LAST_MS = 253_402_300_799_000;

/** A shard or a sheet as it was read. */
export interface UsageItem {
  readonly ref: UsageItemRef;
  readonly shard: number;
  /** Of a sheet. */
  readonly day: string;
  readonly item: Item;
}

/** The items of some references, without those that are gone meanwhile. */
export async function itemsIn(records: Records, refs: readonly UsageItemRef[]): Promise<UsageItem[]> {
  if (refs.length === 0) return [];
  const found = await records.getAll(
    refs.map(({ tableKey }) => tableKey),
    { consistent: true },
  );
  return refs.flatMap((ref, i) => {
    const item = found[i];
    const { shard, sheet = "" } = ref.key;
    return item === undefined ? [] : [{ ref, shard, day: sheet, item: decodeItem(item) }];
  });
}

/** The first and the last day that the windows of a query may have hours in. */
export function daySpan({ window, fromMs, toMs }: Pick<UsageQuery, "window" | "fromMs" | "toMs">) {
  const lastMs = clamped(toMs - 1);
  return { from: dayText(clamped(fromMs)), to: dayText(windowEndMs(window, windowStartMs(window, lastMs)) - 1) };
}

/** Whether all windows of a query had ended before the instant up to which everything is on sheets. */
export function isSheetsOnly({ window, toMs }: Pick<UsageQuery, "window" | "toMs">, closedUntilMs: number): boolean {
  const lastMs = clamped(toMs - 1);
  return windowEndMs(window, windowStartMs(window, lastMs)) <= closedUntilMs;
}

/** The days of one window. */
export function daysOf(window: UsageWindow, startMs: number): string[] {
  const days: string[] = [];
  for (let dayMs = startMs; dayMs < windowEndMs(window, startMs); dayMs += DAY_MS) days.push(dayText(dayMs));
  return days;
}

function dayText(atMs: number): string {
  return new Date(clamped(atMs)).toISOString().slice(0, 10);
}

function clamped(atMs: number): number {
  return Math.min(Math.max(atMs, 0), LAST_MS);
}

const DAY_MS = 86_400_000;
