import type { UsageWindow } from "./shapes.ts";
import { windowStarts } from "./usage-series.ts";

/** A time that can be chosen, by a name that stands in the address. */
interface UsageRange {
  readonly name: string;
  readonly label: string;
  /** The first instants of its windows, and where it ends; undefined: it goes on. */
  readonly of: (nowMs: number) => { readonly starts: readonly number[]; readonly toMs: number | undefined };
}

const last = (window: UsageWindow, count: number, label: string): UsageRange => ({
  ...{ name: String(count), label },
  of: (nowMs) => ({ starts: windowStarts(window, count, nowMs), toMs: undefined }),
});

/** The days of a month of UTC, `back` months ago. */
const month = (name: string, label: string, back: number): UsageRange => ({
  ...{ name, label },
  of: (nowMs) => {
    const now = new Date(nowMs);
    const at = (months: number, day: number) => Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + months, day);
    const toMs = at(1 - back, 1);
    const starts: number[] = [];
    for (let day = 1; at(-back, day) < toMs; day++) starts.push(at(-back, day));
    return { starts, toMs };
  },
});

export const RANGES: Readonly<Record<UsageWindow, readonly UsageRange[]>> = {
  hourly: [last("hourly", 24, "Last 24 hours"), last("hourly", 72, "Last 3 days"), last("hourly", 168, "Last 7 days")],
  daily: [
    last("daily", 30, "Last 30 days"),
    month("month", "This month", 0),
    month("last-month", "Last month", 1),
    last("daily", 90, "Last 90 days"),
    last("daily", 365, "Last year"),
  ],
  monthly: [last("monthly", 12, "Last 12 months"), last("monthly", 24, "Last 2 years")],
};

export const USAGE_WINDOWS: readonly UsageWindow[] = ["hourly", "daily", "monthly"];

/** What an address names; what it does not, or misspells, is the first. */
export function rangeOf(window: string | undefined, range: string | undefined) {
  const span = USAGE_WINDOWS.find((each) => each === window) ?? "hourly";
  return { span, range: rangeIn(span, range) };
}

export function rangeIn(span: UsageWindow, name: string | undefined): UsageRange {
  return RANGES[span].find((each) => each.name === name) ?? (RANGES[span][0] as UsageRange);
}
