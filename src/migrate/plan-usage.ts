import { type Attributes, instantOf } from "../adapters/dynamodb/codec.ts";
import { groupedBy } from "../adapters/dynamodb/paging.ts";
import { texts } from "../adapters/dynamodb/records-write.ts";
import { itemPlace, itemTableKey, TTL } from "../adapters/dynamodb/schema.ts";
import { bucketKey } from "../domain/bucket/bucket-key.ts";
import { HOUR_MS } from "../domain/charge/usage.ts";
import { SHARDS_MAX } from "../protocol/shards/split.ts";
import { hourNumber } from "../protocol/usage/hours.ts";
import { dayOf, sheetText } from "../protocol/usage/sheets.ts";
import { type NewItem, newItemOf } from "./planned.ts";

export interface OldUsage {
  readonly resource: string;
  /** The start of the window, as in the key. */
  readonly start: string;
  readonly item: Attributes;
}

interface UsageContext {
  readonly namespaceId: string;
  readonly startedMs: number;
  /** The time that usage is kept after its day, in seconds. */
  readonly keptS: number;
  /** No sheet expires before this second. */
  readonly keptUntilS: number;
}

/**
 * Plans the sheets of an entity's usage. Hours stay as they are; the sum of a day or month without hours goes to its first hour. Counts
 * from the hour in which the migration began go to a sheet of the last shard, which no bucket has: on the first shard the hour would count
 * as closed, and takes after the migration would be lost.
 */
export function planUsage(entityId: string, usage: readonly OldUsage[], context: UsageContext): readonly NewItem[] {
  const byResource = groupedBy(usage, ({ resource }) => resource);
  return [...byResource].flatMap(([resource, own]) => {
    const openHour = hourNumber(context.startedMs);
    const shards = groupedBy(hoursOf(own), ({ hour }) => (hour < openHour ? 0 : SHARDS_MAX - 1));
    return [...shards].flatMap(([shard, hours]) =>
      [...groupedBy(hours, ({ hour }) => dayOf(hour))].map(([sheet, counted]) => {
        const key = { bucket: bucketKey(entityId, resource), shard, sheet };
        const endS = Date.parse(`${sheet}T00:00:00Z`) / 1000 + 86_400;
        const ttls = own.map(({ item }) => Number(item[TTL]?.N ?? 0));
        const ttlS = Math.max(endS + context.keptS, context.keptUntilS, ...ttls);
        const entries = counted.map((each) => [`h${hourText(each.hour)}`, sheetText(each)] as const);
        return newItemOf(itemTableKey(context.namespaceId, key), {
          ...texts({ ...itemPlace(context.namespaceId, key), ...Object.fromEntries(entries) }),
          [TTL]: { N: String(ttlS) },
        });
      }),
    );
  });
}

function hourText(hour: number): string {
  return String(hour % 24).padStart(2, "0");
}

function hoursOf(usage: readonly OldUsage[]): readonly OldHour[] {
  const of = (window: string) =>
    new Map(
      usage
        .filter(({ item }) => (item.window?.S ?? "hourly") === window)
        .map(({ start, item }) => [hourNumber(instantOf(start)), countsIn(item)] as const),
    );
  const [hourly, daily, monthly] = [of("hourly"), of("daily"), of("monthly")];
  const found = new Map<number, OldHour>();
  for (const [hour, counts] of hourly) found.set(hour, { hour, ...firstHourOf(hour, counts, hourly, daily.size > 0) });
  for (const [hour, counts] of daily) addRest(found, hour, counts, dayOf);
  for (const [hour, counts] of monthly) addRest(found, hour, counts, monthOf);
  return [...found.values()].sort((a, b) => a.hour - b.hour);
}

/** The counts of an hour, in whole tokens and safe integers. */
interface OldHour {
  readonly hour: number;
  readonly requests: number;
  readonly counts: ReadonlyMap<string, number>;
}

type Counts = Omit<OldHour, "hour">;

/**
 * Separates the first hour of a day from the day: the original keeps both under one key. If it counts days at all, an item that was begun
 * as an hour holds the hour twice, and all other hours once.
 */
function firstHourOf(hour: number, counts: Counts, hourly: ReadonlyMap<number, Counts>, countsDays: boolean): Counts {
  if (hour % 24 !== 0 || !countsDays) return counts;
  const others = [...hourly].filter(([each]) => each !== hour && dayOf(each) === dayOf(hour)).map(([, own]) => own);
  const left = minus(counts, others);
  const isBoth = [left.requests, ...left.counts.values()].every((value) => value >= 0 && value % 2 === 0);
  if (!isBoth) return counts;
  return { requests: left.requests / 2, counts: mapped(left.counts, (value) => value / 2) };
}

/** Adds what a day or month has more than its hours to its first hour. */
function addRest(found: Map<number, OldHour>, hour: number, sum: Counts, windowOf: (hour: number) => string): void {
  const own = [...found.values()].filter((each) => windowOf(each.hour) === windowOf(hour));
  const left = minus(sum, own);
  const counts = new Map([...left.counts].filter(([, value]) => value > 0));
  const requests = Math.max(0, left.requests);
  if (counts.size === 0) return;
  const first = found.get(hour);
  for (const [name, value] of first?.counts ?? []) counts.set(name, (counts.get(name) ?? 0) + value);
  found.set(hour, { hour, requests: requests + (first?.requests ?? 0), counts });
}

function monthOf(hour: number): string {
  return new Date(hour * HOUR_MS).toISOString().slice(0, 7);
}

function minus(sum: Counts, parts: readonly Counts[]): Counts {
  const total = (of: (counts: Counts) => number) => parts.reduce((all, each) => all + of(each), 0);
  const counts = new Map(
    [...sum.counts].map(([name, value]) => [name, value - total((each) => each.counts.get(name) ?? 0)]),
  );
  return { requests: sum.requests - total(({ requests }) => requests), counts };
}

function mapped(counts: ReadonlyMap<string, number>, of: (value: number) => number): Map<string, number> {
  return new Map([...counts].map(([name, value]) => [name, of(value)]));
}

const NO_COUNTER = /^(PK|SK|GSI[1-4][PS]K|LSI\dSK|entity_id|resource|window|window_start|total_events|ttl|n)$/;

/** Reads the counts of limits: every number that no other attribute is. `total_events` counts requests. */
function countsIn(item: Attributes): Counts {
  const counts = new Map<string, number>();
  for (const name of Object.keys(item).sort()) {
    const value = Number(item[name]?.N ?? Number.NaN);
    if (!NO_COUNTER.test(name) && Number.isSafeInteger(value) && value !== 0) counts.set(name, value * 1000);
  }
  return { requests: Number(item.total_events?.N ?? 0), counts };
}
