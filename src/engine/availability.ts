import { wholeTokens } from "../bucket/level.ts";
import type { BucketKey } from "../domain/bucket-key.ts";
import { availableMilli, type BucketState, findLimit } from "../domain/bucket-state.ts";
import type { LimitSet } from "../domain/limit-set.ts";
import { counting } from "../domain/measures.ts";

/** What one limit of one level holds. Whole tokens, rounded down; `available` is negative in debt, however small the debt. */
export interface Availability {
  /** The entity, or a parent of it. */
  readonly entityId: string;
  /** On which resource. */
  readonly resource: string;
  /** The limit's name. */
  readonly limit: string;
  /** The measure that it counts. */
  readonly counts: string;
  /** Whole tokens, negative in debt. */
  readonly available: number;
  /** Whole tokens: the most it holds at present. */
  readonly capacity: number;
}

/** What each limit of a level holds at `nowMs`, by a state that stands for that time. */
export function availabilityOf(
  { bucket, set }: { readonly bucket: BucketKey; readonly set: LimitSet },
  state: BucketState,
  nowMs: number,
): Availability[] {
  const { entityId, resource } = bucket;
  return set.limits.flatMap((definition) => {
    const limit = findLimit(state, definition.name);
    if (limit === undefined) return [];
    const available = wholeTokens(availableMilli(state, limit, nowMs));
    const capacity = wholeTokens(limit.terms.capacityMilli);
    return [{ entityId, resource, ...counting(definition), available, capacity }];
  });
}
