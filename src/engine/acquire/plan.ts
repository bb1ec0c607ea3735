import type { BucketKey } from "../../domain/bucket/bucket-key.ts";
import { ticketOfRest } from "../../domain/bucket/give-back.ts";
import type { Tokens } from "../../domain/charge/amounts.ts";
import { checkAtomic } from "../../domain/charge/atomic.ts";
import type { Among, ChargeRules } from "../../domain/charge/charges.ts";
import { ConflictError, NotFoundError, ResourceDisabled, ValidationError } from "../../domain/names/errors.ts";
import type { DraftData, LeaseDraft, TakeContext, TakenAnswer, Undecided } from "../../ports/bucket-store.ts";
import type { KeyMark, LeaseWrite } from "../../ports/lease-write.ts";
import type { Store } from "../../ports/store.ts";
import type { LeasePart } from "../lease/lease-part.ts";
import type { Settings } from "../limiter/settings.ts";
import type { Refusal } from "../refusal/refusal.ts";
import { type ChainLink, type ConfigCache, type HowRead, isJustRead } from "./config-cache.ts";
import { covering, untoldLevels } from "./cover.ts";
import { type AcquireRequest, askedAs, type Demand, demandsFor, demandsOf } from "./request.ts";
import type { Taken } from "./store-client.ts";
import { summed } from "./summed.ts";

/** One resource of a request, with the chain that it is taken from. */
export interface PartChain {
  readonly consume: Tokens;
  readonly chain: readonly ChainLink[];
}

/** A request worked out against its chains; handed to the store as the context of its claims. */
export interface Plan extends TakeContext {
  /** A plan is no outcome yet. */
  readonly ok?: undefined;
  readonly request: AcquireRequest;
  /** Of all resources, one after the other. */
  readonly demands: readonly Demand[];
  /** The demands of which something is wanted. */
  readonly claims: readonly Demand[];
  /** Where the demands of the further resources begin. */
  readonly parts: readonly number[];
}

/** The reading of the clock that a plan goes by, how long the store may take for it, and what was read before it. */
export interface PlanTime extends Pick<TakeContext, "nowMs" | "timeoutMs"> {
  /** The number of the last read of configuration when the request came: later ones were begun for it, or beside it. */
  readonly sinceRead: number;
}

/** A request whose first plan met configuration that has changed: when it came, and how configuration is to be read now. */
export interface Replanned extends Pick<PlanTime, "sinceRead"> {
  readonly startedMs: number;
  readonly how: HowRead;
}

/** The plan; or the refusal that the deny memory knows already; or that configuration has changed; or that it must be read to know that. */
export type Planned = Plan | Refusal | "stale" | "unsure";

/** How many plans are made for one request, each after configuration changed under the last, before giving up. */
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
  const alsoNamed = others.flatMap(({ consume }) => Object.keys(consume));
  const first = demandsOf(request.consume, chain, rules, { isFurther: false, alsoNamed });
  const demands = [...covering(askedAs(first, request), chain, sinceRead)];
  const parts: number[] = [];
  for (const { consume, chain } of others) {
    parts.push(demands.length);
    const further = askedAs(demandsOf(consume, chain, rules, FURTHER), request);
    demands.push(...covering(further, chain, sinceRead));
  }
  return planned(request, { demands, claims: summed(claimsOf(demands)), parts }, chain, { nowMs, timeoutMs });
}

const FURTHER: Among = { isFurther: true, alsoNamed: [] };

export function planned(
  request: AcquireRequest,
  { demands, claims, parts }: Pick<Plan, "demands" | "claims" | "parts">,
  chain: readonly ChainLink[],
  { nowMs, timeoutMs }: Pick<TakeContext, "nowMs" | "timeoutMs">,
): Plan {
  return {
    request,
    demands,
    claims,
    parts,
    nowMs,
    timeoutMs,
    generation: chain[0]?.generation,
    atomic: request.atomic === true,
    signal: request.signal,
  };
}

/** The plan; throws where it must be taken at once and is more than the store can take at once. */
export function takable(plan: Plan, { atomicBucketsMax }: Pick<Store, "atomicBucketsMax">): Plan {
  if (plan.atomic) checkAtomic(plan.request, { items: plan.claims.length, itemsMax: atomicBucketsMax });
  return plan;
}

/**
 * The levels of all its resources that have to be read for this request: no bucket tells of them, or they were read at different
 * times and do not agree about a total that the resources share.
 */
export function unreadIn(
  { demands }: Plan,
  chain: readonly ChainLink[],
  others: readonly PartChain[],
  sinceRead: number,
): readonly ChainLink[] {
  if (others.length === 0) return untoldLevels(demands, chain, sinceRead);
  const chains = chainsOf(chain, others);
  return [...chains.flatMap((one) => untoldLevels(demands, one, sinceRead)), ...disagreeing(chains.flat())];
}

/** A total is one bucket, charged by all resources: by one reading of it, or one would be charged to limits that another has not. */
function disagreeing(links: readonly ChainLink[]): readonly ChainLink[] {
  return links.filter(({ bucket, totals }) =>
    links.some((one) => one.bucket.entityId === bucket.entityId && !isSameTotals(one.totals, totals)),
  );
}

function isSameTotals(one: ChainLink | undefined, other: ChainLink | undefined): boolean {
  return one?.set.signature === other?.set.signature && one?.charged.signature === other?.charged.signature;
}

function chainsOf(chain: readonly ChainLink[], others: readonly PartChain[]): readonly (readonly ChainLink[])[] {
  return [chain, ...others.map((other) => other.chain)];
}

/** All links whose configuration was not read for this request. */
export function notJustRead(
  chain: readonly ChainLink[],
  others: readonly PartChain[],
  sinceRead: number,
): readonly ChainLink[] {
  return chainsOf(chain, others)
    .flat()
    .filter((link) => !isJustRead(link, sinceRead));
}

/** Whether an error is about what configuration says, which may be out of date. */
export function isByConfig(error: unknown): boolean {
  return error instanceof ValidationError || error instanceof ResourceDisabled || error instanceof NotFoundError;
}

/** Whether all links were read from the same configuration. */
export function isOneReading(chain: readonly ChainLink[], others: readonly PartChain[]): boolean {
  const generation = chain[0]?.generation;
  return chainsOf(chain, others)
    .flat()
    .every((link) => link.generation === generation);
}

/** All levels of the chains that have one of these buckets: a doubt about one level may be about any above it. */
function levelsOf(
  buckets: readonly BucketKey[] | undefined,
  chain: readonly ChainLink[],
  others: readonly PartChain[],
): readonly ChainLink[] | undefined {
  if (buckets === undefined) return undefined;
  const doubted = new Set(buckets.map(({ id }) => id));
  const chains = [chain, ...others.map((other) => other.chain)];
  const isDoubted = ({ bucket, totals }: ChainLink) =>
    doubted.has(bucket.id) || (totals !== undefined && doubted.has(totals.bucket.id));
  return chains.flatMap((one) => (one.some(isDoubted) ? one : []));
}

/** Forgets configuration that a plan went by and that has changed, and answers how it is to be read again. */
export function readAgain(
  cache: ConfigCache,
  { buckets }: Extract<Taken, { kind: "stale" }>,
  chain: readonly ChainLink[],
  others: readonly PartChain[],
): HowRead {
  cache.expire(levelsOf(buckets, chain, others));
  // A bucket cast the doubt: what is read now must have what it is about.
  return buckets === undefined ? "any" : "consistent";
}

/** The first level that is switched off; parents count too. */
export function disabledIn(chain: readonly ChainLink[]): ResourceDisabled | undefined {
  for (let i = 0; i < chain.length; i++) {
    const link = chain[i] as ChainLink;
    if (link.access !== "disabled") continue;
    // That a resource is off for everybody counts at the entity itself, which may be exempt from it. A parent that is not
    // exempt must not refuse an entity that is.
    if (i > 0 && link.accessSource === "resource") continue;
    const { entityId, resource } = link.bucket;
    return new ResourceDisabled({ entityId, resource, level: link.accessSource });
  }
  return undefined;
}

/** The chain; throws where one of its levels is switched off. */
export function enabled(chain: readonly ChainLink[]): readonly ChainLink[] {
  const disabled = disabledIn(chain);
  if (disabled !== undefined) throw disabled;
  return chain;
}

/** What a lease holds on each resource, the first first. */
export function leaseParts(
  { request, demands, claims, parts, nowMs }: Plan,
  answers: readonly TakenAnswer[],
): readonly LeasePart[] {
  const takenAtMs = answers[0]?.readingMs ?? nowMs;
  const { entityId } = request;
  if (parts.length === 0)
    return [
      { entityId, resource: request.resource, demands, taken: answers, isShadowed: isShadowed(answers), takenAtMs },
    ];
  const bounds = [0, ...parts, demands.length];
  const byBucket = new Map(claims.map(({ bucket }, i) => [bucket.id, answers[i]]));
  return bounds.slice(0, -1).map((from, i) => {
    const own = demands.slice(from, bounds[i + 1]);
    const taken = claimsOf(own).flatMap(({ bucket, take }) => {
      const answer = byBucket.get(bucket.id);
      // Of a draft there are no answers yet.
      if (answer === undefined) return [];
      // The resources share one take of a total: what the first has of its periods, the next has not.
      const ticket = ticketOfRest(answer.ticket, take);
      if (ticket !== answer.ticket) byBucket.set(bucket.id, { ...answer, ticket });
      return [answer];
    });
    const resource = own[0]?.bucket.resource ?? request.resource;
    return { entityId, resource, demands: own, taken, isShadowed: isShadowed(taken), takenAtMs };
  });
}

/** What is written down of a lease, in the transaction of its take where the store has one. */
export interface PartsDraft {
  /** Must still be the caller's, or nothing is taken. */
  readonly key: KeyMark | undefined;
  /** Where the store has none: what is told of the take waits until the lease is written down. */
  readonly undecided: Undecided | undefined;
  writeOf(parts: readonly LeasePart[]): LeaseWrite;
  /** Of parts of which nothing is taken yet. */
  dataOf(parts: readonly LeasePart[]): DraftData;
}

/** The plan as the store gets it. */
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

/** A level of which nothing is wanted is not asked; it stays in the plan, for it may be adjusted later. */
export function claimsOf(demands: readonly Demand[]): readonly Demand[] {
  for (let i = 0; i < demands.length; i++) {
    if (demands[i]?.take.length === 0) return demands.filter(({ take }) => take.length > 0);
  }
  return demands;
}

/** The limits changed with every plan, so that none of them could be decided by. */
export function configChurn({ entityId, resource }: AcquireRequest): ConflictError {
  return new ConflictError(
    "config_unstable",
    `The limits of ${entityId} on ${resource} changed ${PLANS_MAX} times while they were being applied; try again.`,
  );
}

/**
 * What is left of the time of an acquire, by a clock that an answer of the store may have put meanwhile. No call outlasts the
 * time it has, so far more than that, or less than nothing, was not spent: how much was nobody knows, and half of it is left.
 */
export function timeLeft({ timeoutMs }: Pick<Settings, "timeoutMs">, spentMs: number): number {
  const leftMs = spentMs < 0 || spentMs > 2 * timeoutMs ? Math.floor(timeoutMs / 2) : timeoutMs - spentMs;
  return Math.max(1, leftMs);
}

function isShadowed(answers: readonly TakenAnswer[]): boolean {
  for (const { shadowed } of answers) if (shadowed.length > 0) return true;
  return false;
}
