import type { RefusalCount } from "./shapes.ts";

/** What was refused in a range, under one key. */
export interface RefusalSum {
  readonly key: string;
  readonly entityId: string;
  readonly resource: string;
  readonly limit: string;
  /** Whose limit it was. */
  readonly level: string;
  readonly total: boolean;
  readonly count: number;
  /** First ms of the last window that has any. */
  readonly lastMs: number;
}

/** All windows together, the most refused first. */
export function refusalSums(counts: readonly RefusalCount[]): {
  readonly sums: readonly RefusalSum[];
  readonly all: number;
} {
  const sums = new Map<string, RefusalSum>();
  let all = 0;
  for (const { entityId, resource, limit, level, total, windowStartMs, count } of counts) {
    const key = [entityId, resource, limit, level, total].join("\n");
    const before = sums.get(key);
    all += count;
    sums.set(key, {
      ...{ key, entityId, resource, limit, level, total },
      count: count + (before?.count ?? 0),
      lastMs: Math.max(windowStartMs, before?.lastMs ?? 0),
    });
  }
  const sorted = [...sums.values()].sort((a, b) => b.count - a.count || (a.key < b.key ? -1 : 1));
  return { sums: sorted, all };
}
