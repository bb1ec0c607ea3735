import { countersOf, type UsageCounts } from "../domain/charge/usage-counters.ts";
import type { HourCount } from "./open-hour.ts";
import { readableJson, rowUnreadable } from "./row-damage.ts";

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

/** What a window shows of them: whole tokens. */
export function shownCounters(counters: Counters): UsageCounts {
  return countersOf(Array.from(counters, ([name, milli]) => [name, Number(milli / 1000n)] as const));
}

const COUNTERS = { table: "usage", column: "counters", of: "" };
