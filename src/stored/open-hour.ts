import { type Count, minus, plus, tokensOfCount } from "../bucket/integers.ts";
import type { CountedAmount } from "../domain/charge/amounts.ts";
import { countersOf, HOUR_MS, hourOf, type UsageCounts } from "../domain/charge/usage.ts";
import { readableJson, rowUnreadable } from "./row-damage.ts";

/**
 * Usage of the current hour, carried by the bucket's own row so that a take stays one write; it moves to the table of
 * usage when the hour is over. A value; each count makes a new one.
 */
export interface OpenHour {
  readonly hourMs: number;
  readonly requests: number;
  /**
   * Net millitokens, in the order of the bucket's limits; NaN where nothing was counted. Where the row has room for them, how long slots
   * were held follows, of each limit that has slots (`Shape.counts`).
   */
  readonly counted: readonly number[];
}

/** Usage that has left the row, or never was in it. */
export interface HourCount {
  readonly hourMs: number;
  readonly requests: number;
  readonly amounts: readonly CountedAmount[];
}

/** Something to count: amounts taken (`sign` 1) or given back (-1), and how many requests they stand for. */
interface Counting {
  readonly amounts: readonly CountedAmount[];
  readonly sign: 1 | -1;
  readonly requests: number;
  readonly nowMs: number;
}

type Names = readonly { readonly name: string }[];

/** `room`: for how many counts. */
export function emptyHour(room: number, nowMs: number): OpenHour {
  // Pushed, for an array that is made by its length counts as one with holes, and so do all copies of it.
  const counted: number[] = [];
  for (let i = 0; i < room; i++) counted.push(Number.NaN);
  return { hourMs: hourOf(nowMs), requests: 0, counted };
}

/** The hour with the amounts counted; `left` are the counts that do not belong into it, or no longer. `names`: what it counts, in order. */
export function countedIn(
  open: OpenHour,
  names: Names,
  counting: Counting,
): { readonly open: OpenHour; readonly left: readonly HourCount[] } {
  const { nowMs } = counting;
  // The clock went back over the hour: the event is counted where it belongs, the open hour stays.
  if (nowMs < open.hourMs) return { open, left: asCount(counting) };
  if (nowMs >= open.hourMs + HOUR_MS) {
    const next = countedIn(emptyHour(open.counted.length, nowMs), names, counting);
    return { open: next.open, left: [...leaving(open, names), ...next.left] };
  }
  const counted = open.counted.slice();
  let strangers: CountedAmount[] | undefined;
  for (const { limit, milli } of counting.amounts) {
    if (milli === 0) continue;
    const index = indexOf(names, limit);
    if (index < 0 || index >= counted.length) {
      strangers ??= [];
      strangers.push({ limit, milli: signed(milli, counting.sign) });
      continue;
    }
    const before = counted[index] as number;
    const after = plus(Number.isNaN(before) ? 0 : before, signed(milli, counting.sign));
    // Past 2^53 it would no longer be exact: the table, which adds with BigInt, gets it.
    if (typeof after !== "number") return { open, left: asCount(counting) };
    counted[index] = after;
  }
  return {
    open: { hourMs: open.hourMs, requests: open.requests + counting.requests, counted },
    left: strangers === undefined ? NONE : [{ hourMs: open.hourMs, requests: 0, amounts: strangers }],
  };
}

/** The counts of the hour, for the table; none when nothing was counted. */
export function leaving(open: OpenHour, names: Names): readonly HourCount[] {
  const amounts: CountedAmount[] = [];
  for (let i = 0; i < open.counted.length; i++) {
    const milli = open.counted[i] as number;
    if (!Number.isNaN(milli)) amounts.push({ limit: (names[i] as { name: string }).name, milli });
  }
  if (amounts.length === 0 && open.requests === 0) return NONE;
  return [{ hourMs: open.hourMs, requests: open.requests, amounts }];
}

export const NONE: readonly HourCount[] = Object.freeze([]);

/** The counting by itself, for the table; none when it counts nothing. */
export function asCount({ amounts, sign, requests, nowMs }: Counting): readonly HourCount[] {
  const counted = amounts.filter(({ milli }) => milli !== 0);
  if (counted.length === 0 && requests === 0) return NONE;
  return [
    {
      hourMs: hourOf(nowMs),
      requests,
      amounts: counted.map(({ limit, milli }) => ({ limit, milli: signed(milli, sign) })),
    },
  ];
}

function signed(milli: Count, sign: 1 | -1): Count {
  return sign === 1 ? milli : minus(milli);
}

function indexOf(names: Names, name: string): number {
  for (let i = 0; i < names.length; i++) if ((names[i] as { name: string }).name === name) return i;
  return -1;
}

/** The counter that has the number of requests: `#` cannot stand at the beginning of a limit's name. */
export const REQUESTS_COUNTER = "#requests";

/** Net millitokens by what they count. Sums of many takes pass 2^53. */
export type Counters = Map<string, bigint>;

export function addAmounts(counters: Counters, { amounts }: HourCount): void {
  for (const { limit, milli } of amounts) counters.set(limit, (counters.get(limit) ?? 0n) + BigInt(milli));
}

/** Adds counters as they are stored: `{"rpm":"12000"}`, as text because JSON has no integers beyond 2^53. */
export function addText(counters: Counters, text: string): void {
  for (const [limit, milli] of Object.entries(readableJson<Record<string, unknown>>(text, COUNTERS))) {
    if (typeof milli !== "string" || !/^-?\d+$/.test(milli)) throw rowUnreadable(text, COUNTERS);
    counters.set(limit, (counters.get(limit) ?? 0n) + BigInt(milli));
  }
}

export function textOf(counters: Counters): string {
  return JSON.stringify(Object.fromEntries(Array.from(counters, ([limit, milli]) => [limit, String(milli)])));
}

/** The counts of a window, in tokens: what was given back without a lease may be a part of one. */
export function shownCounters(counters: Counters): UsageCounts {
  return countersOf(Array.from(counters, ([name, milli]) => [name, tokensOfCount(milli)] as const));
}

const COUNTERS = { table: "usage", column: "counters", of: "" };
