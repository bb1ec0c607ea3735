import type { UsageSnapshot, UsageWindow } from "./shapes.ts";

/** One line of the chart: who on what, and a number for each window. */
export interface Series {
  readonly name: string;
  readonly values: readonly number[];
  readonly total: number;
}

/** What can be drawn: granted requests, or the tokens of one limit. */
export const REQUESTS = "requests";

export function metricsOf(snapshots: readonly UsageSnapshot[]): string[] {
  const windows = new Map<string, number>();
  for (const limit of snapshots.flatMap(({ counters }) => Object.keys(counters)))
    windows.set(limit, (windows.get(limit) ?? 0) + 1);
  // What most of them use comes first.
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

/** Without the windows before anything was used, but never so few that nothing can be compared. */
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
    // Where there is one resource its name says nothing.
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
