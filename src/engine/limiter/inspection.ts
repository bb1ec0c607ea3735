import { wholeTokens } from "../../bucket/level.ts";
import { isIdle } from "../../domain/bucket/bucket-questions.ts";
import { acrossBoundaries, availableMilli, findLimit } from "../../domain/bucket/bucket-state.ts";
import { amountsOf } from "../../domain/charge/amounts.ts";
import { noLimits } from "../../domain/charge/charge-errors.ts";
import { HOUR_MS } from "../../domain/charge/usage.ts";
import { checkLimitName, checkResource } from "../../domain/names/names.ts";
import { runAsync } from "../../domain/steps.ts";
import { type ChainLink, disabledIn } from "../acquire/chain-link.ts";
import { demandOf, withTotals } from "../acquire/request.ts";
import { fitsAtMs } from "../refusal/refusal.ts";
import type { LimiterParts } from "./limiter-parts.ts";
import { listing } from "./listing.ts";
import { type Availability, availabilityOf, type Question, type RequestQuestion } from "./question.ts";

/** What all buckets of a resource hold of one limit. */
export interface ResourceCapacity {
  /** The resource. */
  readonly resource: string;
  /** The limit's name. */
  readonly limit: string;
  /**
   * Capacity of the entities below that are not charged to another one of the list. A child takes from the tokens of
   * its parent, so it adds nothing.
   */
  readonly totalCapacity: number;
  /** Whole tokens that these entities hold. */
  readonly totalAvailable: number;
  /** How much of the capacity is taken, in percent. */
  readonly utilizationPct: number;
  /** Each entity that has a bucket. */
  readonly entities: readonly {
    /** Its id. */
    readonly entityId: string;
    /** Whole tokens: the most its bucket holds at present. */
    readonly capacity: number;
    /** Whole tokens that it holds. */
    readonly available: number;
    /** How much of the capacity is taken, in percent. */
    readonly utilizationPct: number;
    /** The parent in this list that it is charged to. The totals count the parent and leave this one out. */
    readonly within?: string;
  }[];
}

export async function available({ deps, acquirer }: LimiterParts, question: Question): Promise<Availability[]> {
  const chain = withTotals(await acquirer.planner.chain(question, deps.clock.now(), "question"));
  if (chain.every(({ charged }) => charged.limits.length === 0)) throw noLimits(chain);
  const { observed, nowMs } = await acquirer.planner.observe(chain.map((link) => demandOf(link, [], false)));
  return observed.flatMap(({ state }, i) => availabilityOf(chain[i] as ChainLink, state, nowMs));
}

export async function timeUntilAvailable({ deps, acquirer }: LimiterParts, question: RequestQuestion): Promise<number> {
  const { planner } = acquirer;
  const chain = await planner.chain(question, deps.clock.now(), "question");
  // Check the amounts even if access is disabled.
  amountsOf(question.consume ?? {}, "consume");
  if (disabledIn(chain) !== undefined) return Number.POSITIVE_INFINITY;
  const { observed, nowMs } = await planner.observe(planner.demands(question, chain));
  return fitsAtMs(observed, nowMs, deps.calendar) - nowMs;
}

export async function isAvailable({ deps }: LimiterParts): Promise<boolean> {
  try {
    await deps.store.ping();
    return true;
  } catch {
    return false;
  }
}

export async function resourceCapacity(
  parts: LimiterParts,
  resource: string,
  limitName: string,
): Promise<ResourceCapacity> {
  checkResource(resource);
  checkLimitName(limitName);
  const nowMs = parts.deps.clock.now();
  const held: ResourceCapacity["entities"][number][] = [];
  const buckets = listing((page) => parts.deps.bucketLists.listByResource(resource, page), {});
  for await (const { key, state: stored, expires } of buckets) {
    if (expires && isIdle(stored, HOUR_MS, nowMs, parts.deps.calendar)) continue;
    // Resets and windows apply from their instant on, even without a request since.
    const state = acrossBoundaries(stored, nowMs, parts.deps.calendar);
    const limit = findLimit(state, limitName);
    if (limit === undefined || !limit.configured) continue;
    const capacity = wholeTokens(limit.terms.capacityMilli);
    const available = wholeTokens(availableMilli(state, limit, nowMs));
    held.push({ entityId: key.entityId, capacity, available, utilizationPct: usedPct(capacity, available) });
  }
  const entities = await withNearestParents(parts, held, resource, nowMs);
  const apart = entities.filter(({ within }) => within === undefined);
  const totalCapacity = apart.reduce((sum, entity) => sum + entity.capacity, 0);
  const totalAvailable = apart.reduce((sum, entity) => sum + entity.available, 0);
  return {
    resource,
    limit: limitName,
    totalCapacity,
    totalAvailable,
    utilizationPct: usedPct(totalCapacity, totalAvailable),
    entities,
  };
}

/** Adds to each entity the nearest listed parent that it is charged to. */
async function withNearestParents<Held extends { readonly entityId: string }>(
  { deps, acquirer }: LimiterParts,
  all: readonly Held[],
  resource: string,
  nowMs: number,
): Promise<(Held & { readonly within?: string })[]> {
  if (all.length < 2) return [...all];
  const listed = new Set(all.map(({ entityId }) => entityId));
  const nested: (Held & { readonly within?: string })[] = [];
  for (let from = 0; from < all.length; from += CHAINS_AT_ONCE) {
    // A synchronous store would block the thread until all are read.
    if (from % CHAINS_PER_TURN === 0) await deps.turns.next();
    const some = all.slice(from, from + CHAINS_AT_ONCE).map(async (one) => {
      const chain = acquirer.configCache.chain(one.entityId, resource, nowMs, "async", "any");
      const [, ...parents] = await runAsync(chain);
      const within = parents.find(({ bucket }) => listed.has(bucket.entityId))?.bucket.entityId;
      return within === undefined ? one : { ...one, within };
    });
    nested.push(...(await Promise.all(some)));
  }
  return nested;
}

const CHAINS_AT_ONCE = 16;
const CHAINS_PER_TURN = 4 * CHAINS_AT_ONCE;

function usedPct(capacity: number, available: number): number {
  // Multiplied first: 29 of 100 are 29, not 28.999999999999996.
  return capacity === 0 ? 0 : ((capacity - available) * 100) / capacity;
}
