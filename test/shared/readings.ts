import type { Item } from "../../src/ports/item-store.ts";
import { FRF, limitNamesIn, namesOf, RF, RSCHED, SHARD_COUNT, VU } from "../../src/protocol/item/attributes.ts";

/** What an item says of one limit, read without the code under test: the numbers that both sides go by. */
export interface LimitReading {
  readonly name: string;
  readonly tokensMilli: number;
  readonly usedMilli: number;
  /** Undivided, as they are stored. */
  readonly capacityMilli: number;
  readonly refillMilli: number;
  readonly periodMs: number;
  /** Of this shard: what it holds at most. */
  readonly brimMilli: number;
  /** Of this shard: what a new period begins with. */
  readonly shareMilli: number;
  /** Of this shard: what its open period began with, by the capacity of now. One that began before a split has more than its share. */
  readonly grantedMilli: number;
  readonly isQuota: boolean;
  /** By its stamp, whether or not that has run out. */
  readonly isSoft: boolean;
  readonly remainder: number;
}

export function numberIn(item: Item | undefined, name: string): number {
  const value = item?.[name];
  return typeof value === "number" ? value : 0;
}

export function readingsOf(item: Item | undefined): LimitReading[] {
  if (item === undefined) return [];
  const count = countIn(item);
  const isCarried = item[FRF] === item[RF];
  return limitNamesIn(item).map((name) => {
    const names = namesOf(name);
    const capacityMilli = numberIn(item, names.cp);
    const isQuota = item[names.ra] === 0 && (item[names.rsched] ?? item[RSCHED] ?? "-") !== "-";
    const shareMilli = Math.floor(capacityMilli / count);
    const grantedAmong = typeof item[names.gc] === "number" ? numberIn(item, names.gc) : count;
    const grantedMilli = isQuota ? Math.floor(capacityMilli / grantedAmong) : shareMilli;
    return {
      name,
      tokensMilli: numberIn(item, names.tk),
      usedMilli: numberIn(item, names.tc),
      capacityMilli,
      refillMilli: numberIn(item, names.ra),
      periodMs: numberIn(item, names.rp),
      brimMilli: isQuota ? grantedMilli + numberIn(item, names.tu) : shareMilli,
      shareMilli,
      grantedMilli,
      isQuota,
      isSoft: names.soft in item,
      // Under a period that was changed in place it says nothing.
      remainder: isCarried && numberIn(item, names.fr) < numberIn(item, names.rp) ? numberIn(item, names.fr) : 0,
    };
  });
}

export function readingOf(item: Item | undefined, name: string): LimitReading | undefined {
  return readingsOf(item).find((reading) => reading.name === name);
}

export function countIn(item: Item | undefined): number {
  return typeof item?.[SHARD_COUNT] === "number" ? numberIn(item, SHARD_COUNT) : 1;
}

/** What drips into a limit in so much time, with what was carried over; of a shard, its share. */
export function drippedMilli(limit: LimitReading, count: number, elapsedMs: number): number {
  if (limit.periodMs === 0) return 0;
  const amount = BigInt(Math.floor(limit.refillMilli / count));
  return Number((BigInt(Math.max(0, elapsedMs)) * amount + BigInt(limit.remainder)) / BigInt(limit.periodMs));
}

/** The line of a limit at an instant: stored tokens and what has dripped in since, not cut at the brim. */
export function lineAt(item: Item, limit: LimitReading, atMs: number): number {
  return limit.tokensMilli + drippedMilli(limit, countIn(item), atMs - numberIn(item, RF));
}

/** What the limit holds then, cut at the brim. */
export function levelAt(item: Item, limit: LimitReading, atMs: number): number {
  return Math.min(limit.brimMilli, lineAt(item, limit, atMs));
}

/** The numbers of a limit as one text: equal texts are equal numbers. */
export function termsText({ capacityMilli, refillMilli, periodMs }: LimitReading): string {
  return `${capacityMilli}/${refillMilli}/${periodMs}`;
}

/** An item in few words, for a trace. */
export function shown(item: Item | undefined): string {
  if (item === undefined) return "nothing";
  const limits = readingsOf(item).map(
    (one) => `${one.name}=${one.tokensMilli} of ${termsText(one)}${one.isSoft ? " soft" : ""}`,
  );
  const rest = [VU, "ttl", "disabled", "shard_count"].flatMap((name) =>
    name in item ? [`${name}=${item[name]}`] : [],
  );
  return [`rf=${item[RF]}`, ...limits, ...rest].join(" ");
}
