import type { Amount } from "../../src/domain/charge/amounts.ts";
import type { ModelLimit } from "../kit/model.ts";
import type { ModelBucket } from "../kit/model-bucket.ts";
import { type StoredBucket, storedMilli } from "../kit/model-stored.ts";
import { floorOf } from "../kit/model-terms.ts";

/** What kind of limit that is, for the tally. */
export function kindIn(model: ModelBucket, name: string): string {
  const { reset, resetAfterMs, schedule, holdMs } = model.limit(name)?.limit ?? {};
  if (holdMs !== undefined) return schedule === undefined ? "slots" : "slots with windows";
  const kind = reset !== undefined ? "calendar quotas" : resetAfterMs === undefined ? "what drips" : "sessions";
  return schedule === undefined ? kind : `${kind} with windows`;
}

/** The soft limits that stand below zero now. */
export function overdrawnIn(
  model: ModelBucket,
  state: StoredBucket,
  amounts: readonly Amount[],
  nowMs: number,
): string[] {
  return amounts.flatMap(({ limit: name }) => {
    const limit = model.limit(name);
    if (!limit?.limit.soft) return [];
    let level = limit.levelMilli(nowMs);
    // To within a millitoken the store's own level decides; so it does where it may have forgotten the limit, or begun it anew.
    const stored = state.limits.find((one) => one.name === name);
    const isNear = level >= -1n && level <= 0n;
    if ((isNear || model.isDoubted(name)) && stored !== undefined) level = storedMilli(stored, state.epochMs, nowMs);
    return level < 0n ? [name] : [];
  });
}

/** Where less is left than a request had to leave, now that it was granted with this reading; to within a millitoken. */
export function belowFloor(
  model: ModelBucket,
  amounts: readonly Amount[],
  readingMs: number,
  leavePercent: number,
): string[] {
  if (leavePercent === 0) return [];
  return amounts.flatMap(({ limit: name }) => {
    const limit = model.limit(name);
    // Where the store may have forgotten the limit, or begun it anew, it is not known what it held.
    if (limit === undefined || limit.limit.soft || model.isDoubted(name)) return [];
    const [level, floor] = [limit.levelMilli(readingMs), floorOf(limit, leavePercent)];
    return level + 1n < floor ? [`${level} of ${name} are left where ${floor} had to be`] : [];
  });
}

/**
 * What a limit of a bucket in shards can hold as a whole. Where they go by different rules, by that of which it holds least: which of them a
 * request is asked by is not known here.
 */
export function brimOfAll(shards: readonly ModelLimit[]): bigint {
  const isOneRule = new Set(shards.map(({ limit }) => JSON.stringify(limit))).size === 1;
  if (isOneRule) return shards.reduce((sum, { brimMilli }) => sum + brimMilli, 0n);
  const wholes = shards.map(({ brimMilli }) => brimMilli * BigInt(shards.length));
  return wholes.reduce((least, one) => (one < least ? one : least));
}
