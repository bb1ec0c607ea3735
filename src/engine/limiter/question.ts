import { wholeTokens } from "../../bucket/level.ts";
import type { BucketKey } from "../../domain/bucket/bucket-key.ts";
import { availableMilli, type BucketState, findLimit } from "../../domain/bucket/bucket-state.ts";
import { counting, type Tokens } from "../../domain/charge/amounts.ts";
import type { Limit } from "../../domain/limits/limit.ts";
import type { LimitSet } from "../../domain/limits/limit-set.ts";
import { checkEntityId } from "../../domain/names/names.ts";
import type { ChainLink } from "../acquire/chain-link.ts";
import type { ConfigCache } from "../acquire/config-cache.ts";

/** A question about an entity on a resource. It takes nothing. */
export interface Question {
  /** The entity that would ask. */
  readonly entityId: string;
  /** The resource that it would ask for. */
  readonly resource: string;
  /** Limits to answer for, in place of the stored ones. Default: the stored limits. */
  readonly limits?: readonly Limit[];
}

/** A question about a request: what it would take, and what it must leave. */
export interface RequestQuestion extends Question {
  /** Whole tokens by measure that would be asked for. Default: those of a request that names none. */
  readonly consume?: Tokens;
  /** How many percent of each limit would have to be left (`AcquireRequest.leavePercent`). Default: 0. */
  readonly leavePercent?: number;
}

/** The chain of a question, if all of it is cached; throws for invalid names. */
export function knownChain(
  cache: ConfigCache,
  { entityId, resource }: Question,
  nowMs: number,
  check: (resource: unknown) => string,
): readonly ChainLink[] | undefined {
  if (typeof entityId === "string" && typeof resource === "string") {
    const chain = cache.chainKnown(entityId, resource, nowMs);
    // The names of a cached chain were checked when it was read.
    if (chain !== undefined) return chain;
  }
  checkEntityId(entityId);
  check(resource);
  return undefined;
}

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
