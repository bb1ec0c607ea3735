import { type Api, ApiError } from "./api.ts";
import { type RefusalSum, refusalSums } from "./refusal-sums.ts";
import type { Amounts, BucketName, Explained, RefusalCount } from "./shapes.ts";
import { TOTALS } from "./words.ts";

/** Refusals of a bucket that the store has kept: by which limit, how many and when, not for which amounts. */
export interface KeptRefusals {
  /** The sum with the latest refusal. */
  readonly last: RefusalSum;
  /** All refusals of the bucket in that time. */
  readonly count: number;
}

const HOUR_MS = 3_600_000;
const LOOKED_BACK_MS = 24 * HOUR_MS;
/** Counts cannot be queried by the entity whose limit refused, so they are found among this many. */
const COUNTS_MAX = 1_000;

/** Services that keep no refusals are not asked again. */
const keepNone = new WeakSet<Api>();

/** The refusals of the bucket's own requests in the last day; without any, those that its limits caused in the last two hours. */
export async function keptRefusals(
  api: Api,
  path: string,
  { entityId, resource }: BucketName,
): Promise<KeptRefusals | undefined> {
  if (keepNone.has(api)) return undefined;
  const counts = (query: Readonly<Record<string, string>>, backMs: number) =>
    api.all<RefusalCount>(`${path}/refusals`, { window: "hourly", fromMs: Date.now() - backMs, ...query }, COUNTS_MAX);
  const isTotals = resource === TOTALS;
  try {
    if (!isTotals) {
      const own = lastOf((await counts({ entityId, resource }, LOOKED_BACK_MS)).items);
      if (own !== undefined) return own;
    }
    const { items } = await counts(isTotals ? {} : { resource }, HOUR_MS);
    return lastOf(items.filter(({ level, total }) => level === entityId && total === isTotals));
  } catch (error) {
    if (!(error instanceof ApiError) || error.code !== "refusals_not_kept") throw error;
    keepNone.add(api);
    return undefined;
  }
}

/** Picks the sum of the newest window with the most refusals. */
function lastOf(counts: readonly RefusalCount[]): KeptRefusals | undefined {
  const { sums, all } = refusalSums(counts);
  const [last] = sums.toSorted((a, b) => b.lastMs - a.lastMs || b.count - a.count);
  return last === undefined ? undefined : { last, count: all };
}

/**
 * The smallest amount that the limit of the last refusal would refuse now. Undefined if the limit is gone, or refuses nothing that fits
 * its capacity.
 */
export function leastRefused(
  { last: { level, limit, total } }: KeptRefusals,
  { levels, resource }: Explained,
): Amounts | undefined {
  const at = levels.find(({ entityId }) => entityId === level);
  const limits = total && resource !== TOTALS ? at?.totals : at?.limits;
  const held = limits?.find((each) => each.limit === limit);
  if (held === undefined || held.soft || held.shadow || held.available >= held.capacity) return undefined;
  return { [held.counts]: Math.max(0, held.available) + 1 };
}
