import type { BucketName, RefusalCount } from "./shapes.ts";

/** The refusals of a range that have the same entity, resource and limit. */
export interface RefusalSum {
  readonly key: string;
  readonly entityId: string;
  readonly resource: string;
  readonly limit: string;
  /** The entity whose limit it was. */
  readonly level: string;
  readonly total: boolean;
  readonly count: number;
  /** The start of the last window that has any. */
  readonly lastMs: number;
}

/** Adds up all windows, the most refused first. */
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

const MINUTE_MS = 60_000;

/** A refusal, as far as it is compared. */
interface RefusalHeard extends BucketName {
  /** Counts up. */
  readonly number: number;
  readonly atMs: number;
  /** The limit that refused, and whose it is. */
  readonly primary: BucketName & { readonly limit: string };
}

/** Refusals of one minute that differ in nothing but their amounts and their second. */
export interface JoinedRefusals<Refusal extends RefusalHeard> {
  /** The newest. */
  readonly refusal: Refusal;
  readonly count: number;
  /** The number of the first one, by which the row keeps its place on the page. */
  readonly firstNumber: number;
}

/** Joins the equal refusals of each minute; both lists are newest first. */
export function joinedRefusals<Refusal extends RefusalHeard>(
  refusals: readonly Refusal[],
): readonly JoinedRefusals<Refusal>[] {
  const rows = new Map<string, JoinedRefusals<Refusal>>();
  for (const refusal of refusals) {
    const { atMs, entityId, resource, primary, number } = refusal;
    const minute = Math.floor(atMs / MINUTE_MS);
    const key = [minute, entityId, resource, primary.limit, primary.entityId, primary.resource].join("\n");
    const known = rows.get(key);
    rows.set(key, { refusal: known?.refusal ?? refusal, count: (known?.count ?? 0) + 1, firstNumber: number });
  }
  return [...rows.values()];
}
