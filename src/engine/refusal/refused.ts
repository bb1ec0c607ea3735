import { wholeTokens } from "../../bucket/level.ts";
import type { Amount } from "../../domain/charge/amounts.ts";
import type { LimitStanding } from "../../domain/charge/limit-standing.ts";
import { RateLimitExceeded } from "../../domain/names/errors.ts";
import { observedIn, type Refusal, toldAtMs } from "./refusal.ts";
import { standingsOf } from "./standing.ts";

// Not on the error itself: its members are the public interface.
const REFUSALS = new WeakMap<RateLimitExceeded, Refusal>();

/** The error of a refusal. It knows what the refusal was decided by, for header fields. */
export function exceededBy(refusal: Refusal): RateLimitExceeded {
  const error = new RateLimitExceeded(refusal);
  REFUSALS.set(error, refusal);
  return error;
}

/** The refusal that an error was made of here; undefined for one that came over the network. */
export function refusalIn(refused: Refusal | RateLimitExceeded): Refusal | undefined {
  return refused instanceof RateLimitExceeded ? REFUSALS.get(refused) : refused;
}

/** How every limit stood that a refusal, or the error made of it, speaks of: for header fields. */
export function standingsIn(refused: Refusal | RateLimitExceeded): readonly LimitStanding[] {
  const refusal = refusalIn(refused);
  if (refusal === undefined) return [];
  const nowMs = toldAtMs(refusal);
  return observedIn(refusal).flatMap(({ bucket, state, limits, taken, take, bypass, seen }) => {
    if (seen === "never") return [];
    const level = refusal.levels.indexOf(bucket.entityId);
    const all = standingsOf({ bucket, set: undefined, limits, level }, state, { nowMs, calendar: undefined });
    // What was taken before another level refused is given back: it is there for the next request.
    return taken && !bypass ? all.map((one) => ({ ...one, available: one.available + takenOf(one.limit, take) })) : all;
  });
}

function takenOf(limit: string, take: readonly Amount[]): number {
  return wholeTokens(take.find((amount) => amount.limit === limit)?.milli ?? 0);
}
