import { wholeTokens } from "../../bucket/level.ts";
import type { BucketKey } from "../../domain/bucket/bucket-key.ts";
import { availableMilli, type BucketState, findLimit } from "../../domain/bucket/bucket-state.ts";
import { counting } from "../../domain/charge/measures.ts";
import type { Limit } from "../../domain/limits/limit.ts";
import type { LimitSet } from "../../domain/limits/limit-set.ts";

/** What one limit of one level holds. */
export interface Availability {
  /** The entity, or a parent of it. */
  readonly entityId: string;
  /** The resource of the limit. */
  readonly resource: string;
  /** The limit's name. */
  readonly limit: string;
  /** The measure that it counts. */
  readonly counts: string;
  /** Whole tokens, rounded down; negative in debt. */
  readonly available: number;
  /** Whole tokens: the most it holds at present. */
  readonly capacity: number;
}

/** A level, and those of its limits that are shown; absent: all. */
interface ShownLevel {
  readonly bucket: BucketKey;
  readonly set: LimitSet;
  readonly limits?: readonly Limit[];
}

/** What each limit of a level holds at `nowMs`, by a state that stands for that time. */
export function availabilityOf(
  { bucket, set, limits = set.limits }: ShownLevel,
  state: BucketState,
  nowMs: number,
): Availability[] {
  const { entityId, resource } = bucket;
  return limits.flatMap((definition) => {
    const limit = findLimit(state, definition.name);
    if (limit === undefined) return [];
    const available = wholeTokens(availableMilli(state, limit, nowMs));
    const capacity = wholeTokens(limit.terms.capacityMilli);
    return [{ entityId, resource, ...counting(definition), available, capacity }];
  });
}
