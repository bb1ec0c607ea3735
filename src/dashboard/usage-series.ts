import { depthOf, type Kin, ownUsage } from "../domain/charge/own-usage.ts";
import type { UsageSnapshot, UsageWindow } from "./shapes.ts";

/** One line of the chart, with a number for each window. */
export interface Series {
  readonly name: string;
  readonly values: readonly number[];
  readonly total: number;
}

/** The metric of granted requests; all others are limits. A limit may be called "requests", and none has a space in its name. */
export const REQUESTS = "granted requests";

/** The column of what shadow limits would have refused. */
export const WOULD_REFUSE = "wouldRefuse";

/** Requests that shadow limits would have refused; a request that several would have refused counts for each. */
export function wouldRefuseIn({ wouldRefuse }: UsageSnapshot): number {
  return Object.values(wouldRefuse).reduce((sum, count) => sum + count, 0);
}

export function metricsOf(snapshots: readonly UsageSnapshot[]): string[] {
  const windows = new Map<string, number>();
  for (const limit of snapshots.flatMap(({ counters }) => Object.keys(counters)))
    windows.set(limit, (windows.get(limit) ?? 0) + 1);
  // The limits that most snapshots use come first.
  const limits = [...windows].sort(([a, some], [b, others]) => others - some || a.localeCompare(b));
  return [REQUESTS, ...limits.map(([limit]) => limit)];
}

export function amountOf({ requests, counters }: UsageSnapshot, metric: string): number {
  return metric === REQUESTS ? requests : Object.hasOwn(counters, metric) ? (counters[metric] as number) : 0;
}

/** The starts of `count` windows up to the one that contains `nowMs`; windows are of UTC. */
export function windowStarts(window: UsageWindow, count: number, nowMs: number): number[] {
  const now = new Date(nowMs);
  const [year, month, day, hour] = [now.getUTCFullYear(), now.getUTCMonth(), now.getUTCDate(), now.getUTCHours()];
  return Array.from({ length: count }, (_, i) => {
    const back = count - 1 - i;
    if (window === "hourly") return Date.UTC(year, month, day, hour - back);
    return window === "daily" ? Date.UTC(year, month, day - back) : Date.UTC(year, month - back);
  });
}

/** Cuts off the windows before the first use, but keeps at least `least`. */
export function trimmed(
  starts: readonly number[],
  snapshots: readonly UsageSnapshot[],
  least: number,
): readonly number[] {
  const first = Math.min(...snapshots.map(({ windowStartMs }) => windowStartMs));
  const index = starts.findIndex((start) => start >= first);
  return starts.slice(Math.max(0, Math.min(index - 1, starts.length - least)));
}

/** The largest series by total, one for each entity and resource, with 0 where nothing was used. */
export function seriesOf(
  snapshots: readonly UsageSnapshot[],
  metric: string,
  starts: readonly number[],
  most: number,
): { readonly series: readonly Series[]; readonly left: number } {
  const names = new Map<string, Map<number, number>>();
  const resources = new Set(snapshots.map(({ resource }) => resource));
  for (const snapshot of snapshots) {
    // The name of the only resource is left out.
    const name = resources.size === 1 ? snapshot.entityId : `${snapshot.entityId} on ${snapshot.resource}`;
    const values = names.get(name) ?? new Map<number, number>();
    names.set(name, values.set(snapshot.windowStartMs, amountOf(snapshot, metric)));
  }
  const all = Array.from(names, ([name, byStart]) => {
    const values = starts.map((start) => byStart.get(start) ?? 0);
    return { name, values, total: values.reduce((sum, value) => sum + value, 0) };
  });
  const used = all.filter(({ values }) => values.some((value) => value !== 0));
  const sorted = used.sort((a, b) => b.total - a.total || a.name.localeCompare(b.name));
  return { series: sorted.slice(0, most), left: Math.max(0, sorted.length - most) };
}

/** The snapshots that are counted: the own requests of each entity, those of one level, or all. */
export type Counted = "once" | "all" | `level-${number}`;

export function countedUsage(items: readonly UsageSnapshot[], kin: Kin, counted: Counted): readonly UsageSnapshot[] {
  if (counted === "all") return items;
  if (counted === "once") return countedOnce(items, kin);
  const depth = Number(counted.slice("level-".length));
  return items.filter(({ entityId }) => depthOf(entityId, kin) === depth);
}

/** The own usage of each entity, in the order of the items. */
function countedOnce(items: readonly UsageSnapshot[], kin: Kin): UsageSnapshot[] {
  const windows = new Map<number, UsageSnapshot[]>();
  for (const item of items) {
    const together = windows.get(item.windowStartMs) ?? [];
    windows.set(item.windowStartMs, together);
    together.push(item);
  }
  const own = new Map([...windows.values()].flatMap((together) => [...ownUsage(together, kin)]));
  return items.flatMap((item) => own.get(item) ?? []);
}

/** The entities below an entity whose usage is charged to it, too. */
export function chargedTo(entityId: string, kin: Kin): string[] {
  return [...kin.keys()].filter((id) => {
    let each = kin.get(id);
    for (let steps = 0; each?.parentId !== undefined && each.cascade && steps < kin.size; steps++) {
      if (each.parentId === entityId) return true;
      each = kin.get(each.parentId);
    }
    return false;
  });
}

export function totalsOf(items: readonly UsageSnapshot[]): {
  readonly requests: number;
  readonly tokens: Map<string, number>;
} {
  const tokens = new Map<string, number>();
  let requests = 0;
  for (const item of items) {
    requests += item.requests;
    for (const [limit, amount] of Object.entries(item.counters)) tokens.set(limit, (tokens.get(limit) ?? 0) + amount);
  }
  return { requests, tokens };
}

/** A time range, with its name in the address. */
interface UsageRange {
  readonly name: string;
  readonly label: string;
  /** The starts of its windows, and its end; undefined if it goes on. */
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

/** Reads a window and a range from an address; an unknown one becomes the first. */
export function rangeOf(window: string | undefined, range: string | undefined) {
  const span = USAGE_WINDOWS.find((each) => each === window) ?? "hourly";
  return { span, range: rangeIn(span, range) };
}

export function rangeIn(span: UsageWindow, name: string | undefined): UsageRange {
  return RANGES[span].find((each) => each.name === name) ?? (RANGES[span][0] as UsageRange);
}
