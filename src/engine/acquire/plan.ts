import type { BucketKey } from "../../domain/bucket/bucket-key.ts";
import { ticketOfRest } from "../../domain/bucket/give-back.ts";
import type { BesideBuckets } from "../../domain/charge/caller-usage.ts";
import { checkAtomic, nothingCounted } from "../../domain/charge/charge-errors.ts";
import type { ChargeRules } from "../../domain/charge/charges.ts";
import { TOTAL_RESOURCE } from "../../domain/config/totals.ts";
import { ConflictError, NotFoundError, ResourceDisabled, ValidationError } from "../../domain/names/errors.ts";
import type {
  DraftData,
  KeyMark,
  LeaseDraft,
  LeaseWrite,
  TakeContext,
  TakenAnswer,
  Undecided,
} from "../../ports/bucket-store.ts";
import type { Store } from "../../ports/store.ts";
import type { LeasePart } from "../lease/lease-part.ts";
import type { Settings } from "../limiter/settings.ts";
import type { Refusal } from "../refusal/refusal.ts";
import { besideBuckets } from "../usage/caller-usage.ts";
import { alsoOf } from "./also.ts";
import { type ChainLink, isJustRead } from "./chain-link.ts";
import type { ConfigCache, HowRead } from "./config-cache.ts";
import { amongOf, disagreeing, inLockOrder, type PartChain, summed } from "./parts.ts";
import { type AcquireRequest, askedAs, type Demand, demandsFor, demandsOf } from "./request.ts";
import type { Taken } from "./store-client.ts";

/**
 * Adds to each demand what is known of the configuration that it covers: of its own level, and of the levels above it without a
 * demand. Those have no bucket by which a change of access could be noticed, so the next level below stands for them
 * (docs/adr/0020-switches-reach-what-is-below.md).
 *
 * `sinceRead` is the number of the last read of configuration when the request came.
 */
function covering(demands: readonly Demand[], chain: readonly ChainLink[], sinceRead: number): readonly Demand[] {
  const [only] = chain;
  // A store that counts changes notices them without buckets.
  if (only?.generation !== undefined) return demands;
  if (chain.length === 1 && only !== undefined) {
    return isJustRead(only, sinceRead) ? demands.map((demand) => ({ ...demand, isConfigJustRead: true })) : demands;
  }
  const asked = new Map(demands.flatMap((demand) => (demand.take.length > 0 ? [[demand.bucket.id, demand]] : [])));
  const covers = new Map<string, Demand>();
  let above: ChainLink[] = [];
  for (const link of chain.toReversed()) {
    above.push(link);
    const demand = asked.get(link.bucket.id);
    if (demand === undefined) continue;
    covers.set(link.bucket.id, covered(demand, above, sinceRead));
    above = [];
  }
  return demands.map((demand) => {
    if (demand.bucket.resource === TOTAL_RESOURCE) {
      return { ...demand, isConfigJustRead: isJustRead(demand.link, sinceRead) };
    }
    return covers.get(demand.bucket.id) ?? demand;
  });
}

/**
 * The first levels of a chain that no demand covers and that were not read for this request: if one of them was disabled, the take
 * would not notice.
 */
function untoldLevels(
  demands: readonly Demand[],
  chain: readonly ChainLink[],
  sinceRead: number,
): readonly ChainLink[] {
  if (chain[0]?.generation !== undefined) return NONE;
  const untold: ChainLink[] = [];
  for (const link of chain) {
    if (demands.some(({ bucket, take }) => take.length > 0 && bucket.id === link.bucket.id)) break;
    if (!isJustRead(link, sinceRead)) untold.push(link);
  }
  return untold;
}

const NONE: readonly ChainLink[] = [];

function covered(demand: Demand, levels: readonly ChainLink[], sinceRead: number): Demand {
  const isConfigJustRead = levels.every((link) => isJustRead(link, sinceRead));
  const { origin, link } = demand;
  const isOff = link.access === "disabled";
  if (origin.reading === undefined) return { ...demand, isConfigJustRead, isOff };
  // The oldest reading: a doubt about the bucket is resolved only if all levels were read after it.
  const reading = Math.min(...levels.map((link) => link.origin.reading ?? 0));
  return { ...demand, isConfigJustRead, isOff, origin: reading === origin.reading ? origin : { ...origin, reading } };
}

/** A request worked out against its chains. The store gets it as the context of its claims. */
export interface Plan extends TakeContext {
  /** Tells a plan from an outcome. */
  readonly ok?: undefined;
  readonly request: AcquireRequest;
  /** The demands of all parts, one after the other. */
  readonly demands: readonly Demand[];
  /** The demands with amounts. */
  readonly claims: readonly Demand[];
  /** The index of the first demand of each further part. */
  readonly parts: readonly number[];
}

/** The clock reading of a plan, its timeout, and the reads before it. */
export interface PlanTime extends Pick<TakeContext, "nowMs" | "timeoutMs"> {
  /** The number of the last read of configuration when the request came. */
  readonly sinceRead: number;
}

/** A request whose first plan met changed configuration. */
export interface Replanned extends Pick<PlanTime, "sinceRead"> {
  readonly startedMs: number;
  readonly how: HowRead;
}

/** A plan, a refusal from the deny memory, `stale` (configuration has changed), or `unsure` (read it to know). */
export type Planned = Plan | Refusal | "stale" | "unsure";

/** A request gives up after this many plans, each made because configuration changed under the last. */
export const PLANS_MAX = 50;

export const ONE_PART: readonly number[] = Object.freeze([]);

export function planOf(
  request: AcquireRequest,
  chain: readonly ChainLink[],
  others: readonly PartChain[],
  { nowMs, timeoutMs, sinceRead }: PlanTime,
  rules: ChargeRules,
): Plan {
  if (others.length === 0) {
    const demands = covering(demandsFor(request, chain, rules), chain, sinceRead);
    return planned(request, { demands, claims: claimsOf(demands), parts: ONE_PART }, chain, { nowMs, timeoutMs });
  }
  const all = [{ entityId: request.entityId, consume: request.consume, chain, rules }, ...others];
  const demands: Demand[] = [];
  const parts: number[] = [];
  for (const [i, part] of all.entries()) {
    if (i > 0) parts.push(demands.length);
    const own = demandsOf(part.consume, part.chain, part.rules ?? rules, amongOf(all, i));
    demands.push(...covering(askedAs(own, request), part.chain, sinceRead));
  }
  const claims = inLockOrder(summed(claimsOf(demands)), all);
  if (claims.length === 0) throw nothingCounted(chain);
  return planned(request, { demands, claims, parts }, chain, { nowMs, timeoutMs }, others);
}

export function planned(
  request: AcquireRequest,
  { demands, claims, parts }: Pick<Plan, "demands" | "claims" | "parts">,
  chain: readonly ChainLink[],
  { nowMs, timeoutMs }: Pick<TakeContext, "nowMs" | "timeoutMs">,
  others: readonly PartChain[] = [],
): Plan {
  return {
    request,
    demands,
    claims,
    parts,
    nowMs,
    timeoutMs,
    generation: chain[0]?.generation,
    goesBy: () => namesBeside(claims, chainsOf(chain, others).flat()),
    atomic: request.atomic === true,
    signal: request.signal,
  };
}

/** The names that the levels of a request go by and that no claim has. */
function namesBeside(claims: readonly Demand[], links: readonly ChainLink[]): readonly string[] {
  const names = new Set<string>();
  for (const { bucket: own, planId } of links) {
    if (!claims.some(({ bucket }) => bucket.entityId === own.entityId)) names.add(own.entityId);
    if (!claims.some(({ bucket }) => bucket.resource === own.resource)) names.add(own.resource);
    if (planId !== undefined) names.add(planId);
  }
  return [...names];
}

/** The demands of the entity that asks, and of its parents: their levels name the limits of a refusal. */
export function ownDemands({ request: { entityId }, demands, parts }: Plan): readonly Demand[] {
  if (parts.length === 0) return demands;
  return byPart({ demands, parts }).flatMap((own) => (own[0]?.bucket.entityId === entityId ? own : []));
}

/** The demands of each part. */
export function byPart({ demands, parts }: Pick<Plan, "demands" | "parts">): readonly (readonly Demand[])[] {
  const bounds = [0, ...parts, demands.length];
  return bounds.slice(0, -1).map((from, i) => demands.slice(from, bounds[i + 1]));
}

/** Throws if the plan is atomic and has more claims than the store takes at once. */
export function takable(plan: Plan, { atomicBucketsMax }: Pick<Store, "atomicBucketsMax">): Plan {
  if (plan.atomic) checkAtomic(plan.request, { items: plan.claims.length, itemsMax: atomicBucketsMax });
  return plan;
}

/**
 * The levels that must be read for this request: no demand covers them, or they were read at different times and disagree about a
 * total that the resources share.
 */
export function unreadIn(
  { demands }: Plan,
  chain: readonly ChainLink[],
  others: readonly PartChain[],
  sinceRead: number,
): readonly ChainLink[] {
  if (others.length === 0) return untoldLevels(demands, chain, sinceRead);
  const chains = chainsOf(chain, others);
  return [...chains.flatMap((one) => untoldLevels(demands, one, sinceRead)), ...disagreeing(chains)];
}

function chainsOf(chain: readonly ChainLink[], others: readonly PartChain[]): readonly (readonly ChainLink[])[] {
  return [chain, ...others.map((other) => other.chain)];
}

/** The links that were not read for this request. */
export function notJustRead(
  chain: readonly ChainLink[],
  others: readonly PartChain[],
  sinceRead: number,
): readonly ChainLink[] {
  return chainsOf(chain, others)
    .flat()
    .filter((link) => !isJustRead(link, sinceRead));
}

/** True if the error follows from configuration, which may be out of date. */
export function isByConfig(error: unknown): boolean {
  return error instanceof ValidationError || error instanceof ResourceDisabled || error instanceof NotFoundError;
}

/** True if all links have the same generation. */
export function isOneReading(chain: readonly ChainLink[], others: readonly PartChain[]): boolean {
  const generation = chain[0]?.generation;
  return chainsOf(chain, others)
    .flat()
    .every((link) => link.generation === generation);
}

/** All levels of the chains that contain one of the buckets: a doubt about a level may come from any level above it. */
function levelsOf(
  buckets: readonly BucketKey[] | undefined,
  chain: readonly ChainLink[],
  others: readonly PartChain[],
): readonly ChainLink[] | undefined {
  if (buckets === undefined) return undefined;
  const doubted = new Set(buckets.map(({ id }) => id));
  const isDoubted = ({ bucket, totals }: ChainLink) =>
    doubted.has(bucket.id) || (totals !== undefined && doubted.has(totals.bucket.id));
  return chainsOf(chain, others).flatMap((one) => (one.some(isDoubted) ? one : []));
}

/** Expires configuration that has changed under a plan, and returns how to read it again. */
export function readAgain(
  cache: ConfigCache,
  { buckets }: Extract<Taken, { kind: "stale" }>,
  chain: readonly ChainLink[],
  others: readonly PartChain[],
): HowRead {
  cache.expire(levelsOf(buckets, chain, others));
  // A bucket raised the doubt, so the next read must contain the change.
  return buckets === undefined ? "any" : "consistent";
}

/** The parts of a lease, in the order of the request. */
export function leaseParts(
  { request, demands, claims, parts, nowMs }: Plan,
  answers: readonly TakenAnswer[],
): readonly LeasePart[] {
  const takenAtMs = answers[0]?.readingMs ?? nowMs;
  if (parts.length === 0) {
    const beside = besideIn(request.consume, demands);
    const { entityId, resource } = request;
    return [{ entityId, resource, demands, taken: answers, isShadowed: isShadowed(answers), takenAtMs, beside }];
  }
  const consumes = [request.consume, ...alsoOf(request).map(({ consume }) => consume)];
  const byBucket = new Map(claims.map(({ bucket }, i) => [bucket.id, answers[i]]));
  return byPart({ demands, parts }).map((own, i) => {
    const taken = claimsOf(own).flatMap(({ bucket, take }) => {
      const answer = byBucket.get(bucket.id);
      // A draft has no answers yet.
      if (answer === undefined) return [];
      // The parts share one take of a bucket: the next one gets the rest of its periods.
      const ticket = ticketOfRest(answer.ticket, take);
      if (ticket !== answer.ticket) byBucket.set(bucket.id, { ...answer, ticket });
      return [answer];
    });
    // Each part has at least the demand of its own entity.
    const { entityId, resource } = (own[0] as Demand).bucket;
    const beside = besideIn(consumes[i], own);
    return { entityId, resource, demands: own, taken, isShadowed: isShadowed(taken), takenAtMs, beside };
  });
}

function besideIn(consume: AcquireRequest["consume"], demands: readonly Demand[]): BesideBuckets | undefined {
  const { link, take } = demands[0] as Demand;
  return besideBuckets(consume, link, take, demands);
}

/** The record of a lease, written in the transaction of its take if the store has one. */
export interface PartsDraft {
  /** The key must still belong to the caller, or nothing is taken. */
  readonly key: KeyMark | undefined;
  /** For a store without such a transaction: events of the take wait until the lease is written. */
  readonly undecided: Undecided | undefined;
  writeOf(parts: readonly LeasePart[]): LeaseWrite;
  /** `parts` describe the planned take; their `taken` lists are empty. */
  dataOf(parts: readonly LeasePart[]): DraftData;
}

/** Adds the draft to the plan. */
export function drafting(plan: Plan, draft: PartsDraft | undefined): Plan {
  if (draft === undefined) return plan;
  const { undecided } = draft;
  if (undecided !== undefined) return { ...plan, undecided };
  const lease: LeaseDraft = {
    key: draft.key,
    writeOf: (answers) => draft.writeOf(leaseParts(plan, answers)),
    data: () => draft.dataOf(leaseParts(plan, [])),
  };
  return { ...plan, lease };
}

/** The demands with amounts. The others stay in the plan, because the lease may adjust them later. */
export function claimsOf(demands: readonly Demand[]): readonly Demand[] {
  for (let i = 0; i < demands.length; i++) {
    if (demands[i]?.take.length === 0) return demands.filter(({ take }) => take.length > 0);
  }
  return demands;
}

/** The limits changed with every plan. */
export function configChurn({ entityId, resource }: AcquireRequest): ConflictError {
  return new ConflictError(
    "config_unstable",
    `The limits of ${entityId} on ${resource} changed ${PLANS_MAX} times while they were being applied; try again.`,
  );
}

/**
 * The rest of `timeoutMs`. An answer of the store may have adjusted the clock meanwhile: if the time spent is negative or more than
 * any call can take, it is unknown, and half of `timeoutMs` is left.
 */
export function timeLeft({ timeoutMs }: Pick<Settings, "timeoutMs">, spentMs: number): number {
  const leftMs = spentMs < 0 || spentMs > 2 * timeoutMs ? Math.floor(timeoutMs / 2) : timeoutMs - spentMs;
  return Math.max(1, leftMs);
}

function isShadowed(answers: readonly TakenAnswer[]): boolean {
  for (const { shadowed } of answers) if (shadowed.length > 0) return true;
  return false;
}
