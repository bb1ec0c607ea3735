import type { Count } from "../../bucket/count.ts";
import type { BucketState } from "../../domain/bucket/bucket-state.ts";
import { HOUR_MS } from "../../domain/charge/usage.ts";
import { countName, type UsageCounter } from "../../domain/charge/usage-counters.ts";
import { rulesOf } from "../../domain/limits/kinds/table.ts";
import type { Item, ItemValue } from "../../ports/item-store.ts";
import { COUNTERS, namesOf, RQ, RQP, UH, UP, WCU } from "../item/attributes.ts";
import type { Image } from "../item/codec.ts";
import type { Dialect } from "../item/dialect.ts";
import type { Env, Intent } from "../take/intent.ts";

/** What was counted on one shard in one hour: millitokens by name, where it is not 0. Overdrafts count 1000 each. */
export interface HourCounts {
  /** In hours since 1970. */
  readonly hour: number;
  readonly requests: number;
  /** By the name that usage has for it: a limit, or what of it was bypassed or overdrawn. */
  readonly counts: ReadonlyMap<string, Count>;
}

export function hourNumber(atMs: number): number {
  return Math.floor(atMs / HOUR_MS);
}

/** The end of the hour that an item has which is made with this reading. */
export function hourEndFor(readingMs: number, { countsByHour }: Pick<Dialect, "countsByHour">): number {
  return countsByHour ? (hourNumber(readingMs) + 1) * HOUR_MS : Number.POSITIVE_INFINITY;
}

/** The second before which the item with this open hour must not expire, and no sheet of the hour. */
export function usageUntilS(hourEndMs: number, { usageKeptS }: Pick<Env, "usageKeptS">): number {
  return hourEndMs / 1000 + usageKeptS();
}

/**
 * The hour that a write closes the open one for; undefined where it counts in the hour that is open. A roll overwrites the
 * hour before, so that must be on its sheet; until it is, the old hour goes on.
 */
export function rollTo(image: Image, { readingMs, usage }: Pick<Intent, "readingMs" | "usage">): number | undefined {
  const { rollsTo, counters, requests, renews, heldMs, sheeted } = usage;
  if (rollsTo === undefined && readingMs < image.hourEndMs) return undefined;
  const isCounting = requests !== 0 || counters.length > 0 || renews === true || heldMs.length > 0;
  const hour = rollsTo ?? (isCounting ? hourNumber(readingMs) : undefined);
  if (hour === undefined || hour * HOUR_MS < image.hourEndMs) return undefined;
  return isOnSheet(image.item, sheeted) ? hour : undefined;
}

/** The hour that stands beside the open one and must be on its sheet before a write with this reading can roll. */
export function sheetFirst(image: Image, readingMs: number, sheeted: number | undefined): HourCounts | undefined {
  if (readingMs < image.hourEndMs || isOnSheet(image.item, sheeted)) return undefined;
  return closedHourIn(image.item);
}

/** Whether nothing would be lost with the hour beside the open one; `sheeted`: the hour that is known to be on its sheet. */
export function isOnSheet(item: Item, sheeted: number | undefined): boolean {
  const closed = item[UP];
  return closed === undefined || closed === sheeted || isNothing(closedHourIn(item));
}

export function isNothing(counts: HourCounts | undefined): boolean {
  return counts === undefined || (counts.requests === 0 && counts.counts.size === 0);
}

export function openHourIn(item: Item): HourCounts | undefined {
  return countsIn(item, { hour: UH, requests: RQ, names: OPEN });
}

export function closedHourIn(item: Item): HourCounts | undefined {
  return countsIn(item, { hour: UP, requests: RQP, names: CLOSED });
}

/** Limits that the open hour has a counter of, whether or not the item still has the limit. */
export function countedLimits(item: Item): string[] {
  const found = new Set<string>();
  for (const name in item) {
    const [, limit, what] = COUNTER.exec(name) ?? [];
    if (limit !== undefined && limit !== WCU && what !== undefined && Object.hasOwn(OPEN, what)) found.add(limit);
  }
  return [...found];
}

/** Counters of the open hour that an item has, or may have gained unseen: takes that were let through move no tokens. */
export function counterNames(item: Item, { limits }: Pick<BucketState, "limits">): string[] {
  const names = new Set([...limits.map(({ name }) => name), ...countedLimits(item)]);
  return [...names].flatMap((name) =>
    COUNTERS.filter(({ counter, open }) => namesOf(name)[open] in item || mayCount(counter, name, limits)).map(
      ({ open }) => namesOf(name)[open],
    ),
  );
}

/**
 * Whether something may be counted of a limit on the item, seen or not: time that is held only of what has slots, and what would have
 * been refused only of shadows. What is none becomes one with an epoch of its own.
 */
export function mayCount(counter: UsageCounter, limit: string, limits: BucketState["limits"]): boolean {
  if (counter === "wouldRefuse") return limits.some((held) => held.name === limit && held.limit.shadow === true);
  if (counter !== "heldMs") return true;
  return limits.some((held) => held.name === limit && (held.slices.length > 0 || rulesOf(held.limit).holdsSlots));
}

/** The attributes of the hour beside the open one. */
export function closedNames(item: Item): string[] {
  return Object.keys(item).filter((name) => {
    const what = COUNTER.exec(name)?.[2];
    return name === UP || name === RQP || (what !== undefined && Object.hasOwn(CLOSED, what));
  });
}

const COUNTER = /^b_(.+)_([a-z]{2})$/;

type Naming = (limit: string) => string;
const OPEN = namings("open");
const CLOSED = namings("closed");

function namings(hour: "open" | "closed"): Readonly<Record<string, Naming>> {
  return Object.fromEntries(
    COUNTERS.map((row) => [row[hour], (limit: string) => countName(row.counter, limit)] as const),
  );
}

interface Kinds {
  readonly hour: string;
  readonly requests: string;
  readonly names: Readonly<Record<string, Naming>>;
}

function countsIn(item: Item, { hour, requests, names }: Kinds): HourCounts | undefined {
  const at = item[hour];
  if (typeof at !== "number") return undefined;
  const counts = new Map<string, Count>();
  for (const name of Object.keys(item).sort()) {
    const [, limit, what] = COUNTER.exec(name) ?? [];
    if (limit === undefined || limit === WCU || what === undefined) continue;
    const value: ItemValue = item[name] ?? 0;
    const naming = Object.hasOwn(names, what) ? names[what] : undefined;
    const isCount = typeof value === "number" || typeof value === "bigint";
    if (naming !== undefined && isCount && value !== 0) counts.set(naming(limit), value);
  }
  return { hour: at, requests: Number(item[requests] ?? 0), counts };
}
