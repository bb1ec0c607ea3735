import type { Amount } from "../../src/domain/amounts.ts";
import type { ModelBucket } from "../../src/testing/model-bucket.ts";
import { type StoredBucket, storedMilli } from "../../src/testing/model-stored.ts";

/** What kind of limit that is, for the tally. */
export function kindIn(model: ModelBucket, name: string): string {
  const { reset, resetAfterMs, schedule } = model.limit(name)?.limit ?? {};
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
