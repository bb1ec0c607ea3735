import type { LeftUsage } from "../../ports/batch-store.ts";
import { addText, type Counters, REQUESTS_COUNTER, textOf } from "../../stored/open-hour.ts";

// An hour of a bucket in the table of usage is JSON, `{"rpm":"12000","#requests":"3"}`: a text, since counts pass 2^53. The open hour of a
// bucket is in its row, but for what has no place there, which is in the table, too: what counts is the sum of both.

/** The counters of an hour, with more added. `stored`: undefined where nothing was counted in it yet. */
export function usageText(stored: string | undefined, more: readonly CounterAmount[]): string {
  const counters: Counters = new Map();
  if (stored !== undefined) addText(counters, stored);
  for (const { counter, milli } of more) counters.set(counter, (counters.get(counter) ?? 0n) + BigInt(milli));
  return textOf(counters);
}

/** The counters of an hour, with some in place of those of their names. */
export function textWith(stored: string | undefined, counts: readonly CounterAmount[]): string {
  const counters: Counters = new Map();
  if (stored !== undefined) addText(counters, stored);
  for (const { counter, milli } of counts) counters.set(counter, BigInt(milli));
  return textOf(counters);
}

interface CounterAmount {
  readonly counter: string;
  readonly milli: number | bigint;
}

/** The counts of usage by hour. */
export function byHour(left: readonly LeftUsage[]): ReadonlyMap<number, readonly CounterAmount[]> {
  const hours = new Map<number, CounterAmount[]>();
  for (const { hourMs, requests, amounts } of left) {
    const hour = hours.get(hourMs) ?? [];
    hours.set(hourMs, hour);
    if (requests !== 0) hour.push({ counter: REQUESTS_COUNTER, milli: requests });
    for (const { limit, milli } of amounts) hour.push({ counter: limit, milli });
  }
  return hours;
}

const PART = 1_000_000_000_000_000;

/** A count as two numbers, of 15 digits and of those above, as the script adds them: it has no integers past 2^53. */
export function partsOfCount(milli: number | bigint): readonly [high: number, low: number] {
  if (typeof milli === "number" && Math.abs(milli) < PART) return [0, milli];
  const whole = BigInt(milli);
  return [Number(whole / BigInt(PART)), Number(whole % BigInt(PART))];
}
