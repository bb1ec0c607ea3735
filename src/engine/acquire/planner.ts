import { bucketFor } from "../../domain/bucket/bucket-state.ts";
import { type Amount, howLeavingOut, type Uncounted } from "../../domain/charge/amounts.ts";
import { type ChargeRules, chargeOf } from "../../domain/charge/charges.ts";
import { entityMissing } from "../../domain/config/entity.ts";
import { TOTAL_RESOURCE } from "../../domain/config/totals.ts";
import { ValidationError } from "../../domain/names/errors.ts";
import { checkBucketResource, checkResource } from "../../domain/names/names.ts";
import { type Mode, runAsync, runSync, type Steps, waitFor } from "../../domain/steps.ts";
import type { BucketsMaybeInPlace } from "../../ports/bucket-store.ts";
import type { Lifecycle } from "../limiter/lifecycle.ts";
import { knownChain, type Question } from "../limiter/question.ts";
import type { EngineDeps, Settings } from "../limiter/settings.ts";
import { type Observation, observedBy, type Refusal, refusalOf, remembered } from "../refusal/refusal.ts";
import { alsoOf, type FurtherPart } from "./also.ts";
import { type ChainLink, enabled } from "./chain-link.ts";
import type { ConfigCache, HowRead } from "./config-cache.ts";
import type { DenyMemory } from "./deny-memory.ts";
import type { PartChain } from "./parts.ts";
import {
  isByConfig,
  isOneReading,
  notJustRead,
  ONE_PART,
  ownDemands,
  PLANS_MAX,
  type Plan,
  type Planned,
  type PlanTime,
  planned,
  planOf,
  takable,
  timeLeft,
} from "./plan.ts";
import {
  type AcquireRequest,
  type Asked,
  checkRefusal,
  checkRequest,
  type Demand,
  demandOf,
  demandsFor,
  HELD_AT_MOST,
  hasOnlyKnownNames,
  neverIn,
} from "./request.ts";
import { type Purpose, RequestLimits } from "./request-limits.ts";
import type { Taken } from "./store-client.ts";
import { type UnnamedRules, unnamedRules } from "./unnamed-limits.ts";

const NO_LINKS: readonly ChainLink[] = [];

/** The caches that plans are made from. */
interface PlannerParts {
  readonly lifecycle: Lifecycle;
  readonly configCache: ConfigCache;
  readonly deny: DenyMemory;
}

/** Makes plans of requests and questions from configuration and the deny memory. Only `observe` reads buckets. */
export class Planner {
  readonly #parts: PlannerParts;
  readonly #deps: EngineDeps;
  readonly #settings: Settings;
  readonly #rules: UnnamedRules;
  readonly #requestLimits: RequestLimits;

  constructor(deps: EngineDeps, settings: Settings, parts: PlannerParts) {
    this.#parts = parts;
    this.#deps = deps;
    this.#settings = settings;
    this.#requestLimits = new RequestLimits(deps, settings.bucketsMax);
    this.#rules = unnamedRules(deps, settings);
  }

  /**
   * The plan, or a refusal from the deny memory. `stale`: the cached links are of different times and do not belong together.
   * `unsure`: cached configuration would throw, and may be out of date.
   */
  planned(request: AcquireRequest, chain: readonly ChainLink[], others: readonly PartChain[], at: PlanTime): Planned {
    if ((chain.length > 1 || others.length > 0) && !isOneReading(chain, others)) {
      this.#parts.configCache.expire();
      return "stale";
    }
    try {
      const plan = this.#plan(request, chain, others, at, this.#rules.take);
      return this.#recalled(plan) ?? plan;
    } catch (error) {
      // Outdated configuration must not decide that a limit is unknown or too low, or a resource disabled.
      if (!isByConfig(error)) throw error;
      if (this.isOutdated(chain)) {
        this.#parts.configCache.expire();
        return "stale";
      }
      // If only answers of the store tell of changes, another process may have made some since the read.
      if (!(error instanceof ValidationError)) throw error;
      const unread = this.#knowsAtOnce() ? NO_LINKS : notJustRead(chain, others, at.sinceRead);
      if (unread.length > 0) {
        this.#parts.configCache.expire(unread);
        return "unsure";
      }
      const leaving = howLeavingOut(request);
      if (error.code !== "limit_unknown" || leaving === undefined) throw error;
      const plan = this.#planLeavingOut(request, chain, others, at, leaving);
      return this.#recalled(plan) ?? plan;
    }
  }

  /** The plan of an adapter's request. A further part is charged only what its limits count, and one of several parts perhaps nothing. */
  #planLeavingOut(
    request: AcquireRequest,
    chain: readonly ChainLink[],
    others: readonly PartChain[],
    at: PlanTime,
    leaving: Uncounted,
  ): Plan {
    if (others.length === 0) return this.#plan(request, chain, others, at, this.#rules[leaving]);
    const rules = { ...this.#rules.ignore, mayBeEmpty: true } as const;
    const further = others.map((other) => ({ ...other, rules }));
    return this.#plan(request, chain, further, at, { ...this.#rules[leaving], mayBeEmpty: true });
  }

  #plan(
    request: AcquireRequest,
    chain: readonly ChainLink[],
    others: readonly PartChain[],
    at: PlanTime,
    rules: ChargeRules,
  ): Plan {
    this.#requireCreated(chain[0] as ChainLink);
    enabled(chain);
    for (const other of others) {
      this.#requireCreated(other.chain[0] as ChainLink);
      enabled(other.chain);
    }
    const inForce = (one: readonly ChainLink[], limits: AcquireRequest["limits"]) =>
      this.#requestLimits.inForce(one, limits, at.nowMs, "write");
    const own = inForce(chain, request.limits);
    const given = request.limits === undefined ? undefined : own[0];
    const further = others.map((other) => ({ ...other, chain: withGiven(inForce(other.chain, undefined), given) }));
    return takable(planOf(request, own, further, at, rules), this.#deps.store);
  }

  /** The link of a plain request, if its limits are cached and no refusal is remembered; undefined: the steps decide. */
  plainLink(request: AcquireRequest, nowMs: number): ChainLink | undefined {
    if (!isPlain(request) || request.resource === TOTAL_RESOURCE) return undefined;
    const { configCache, deny } = this.#parts;
    const stored = configCache.singleLink(request.entityId, request.resource, nowMs);
    if (stored === undefined || this.#isUnknown(stored) || deny.knows(stored)) return undefined;
    return this.#requestLimits.inPlace(stored, request.limits, nowMs);
  }

  /**
   * The amounts of a plain request. Undefined if there are none, if they do not match the limits, which may be out of date, or if they
   * may be slots of a stored lease: the steps decide.
   */
  plainTake(request: AcquireRequest, link: ChainLink): readonly Amount[] | undefined {
    if (link.set.isBeyondRates && HELD_AT_MOST in request) return undefined;
    try {
      const take = chargeOf(request.consume, link, this.#rules.take);
      return take.length === 0 ? undefined : take;
    } catch {
      return undefined;
    }
  }

  /** The plan of a plain request on a store that answers with a promise; else undefined. */
  plainPlan(request: AcquireRequest): Plan | undefined {
    const buckets: BucketsMaybeInPlace = this.#deps.scope.buckets;
    if (buckets.takeOne !== undefined || request?.limits !== undefined || request?.atomic) return undefined;
    const nowMs = this.#deps.clock.now();
    const link = this.plainLink(request, nowMs);
    const take = link && this.plainTake(request, link);
    if (link === undefined || take === undefined) return undefined;
    const demands = [demandOf(link, take, false)];
    const at = { nowMs, timeoutMs: timeLeft(this.#settings, 0) };
    return planned(request, { demands, claims: demands, parts: ONE_PART }, link.singleChain, at);
  }

  #isUnknown({ created }: ChainLink): boolean {
    return !created && this.#settings.unknownEntities === "refuse";
  }

  #requireCreated(link: ChainLink): void {
    if (!this.#isUnknown(link)) return;
    // Another process may create it at any time: do not remember that it was missing.
    this.#parts.configCache.expire([link]);
    throw entityMissing(link.bucket.entityId);
  }

  #recalled(plan: Plan): Refusal | "stale" | undefined {
    const observed = this.#parts.deny.recall(plan.claims, plan.nowMs);
    if (observed === undefined && plan.claims.length > 0) return undefined;
    // The store is not asked, so it cannot report changed limits or a disabled resource.
    if (this.isOutdated(plan.demands.map(({ link }) => link))) {
      this.#parts.configCache.expire();
      this.#parts.deny.clear();
      return "stale";
    }
    if (observed === undefined) return undefined;
    const refusal = refusalOf(
      observed,
      ownDemands(plan),
      { askedMs: plan.nowMs, toldMs: plan.nowMs },
      this.#deps.calendar,
    );
    checkRefusal(refusal);
    return remembered(refusal);
  }

  /**
   * Turns a refusal that can never be granted into `stale`, if another process may have changed the limits since they were read. A
   * store that counts changes has compared already.
   */
  certain(taken: Taken, chain: readonly ChainLink[], others: readonly PartChain[], sinceRead: number): Taken {
    if (taken.kind !== "refused" || chain[0]?.generation !== undefined) return taken;
    if (neverIn(taken.refusal) === undefined) return taken;
    const unread = notJustRead(chain, others, sinceRead);
    return unread.length === 0 ? taken : { kind: "stale", buckets: unread.map(({ bucket }) => bucket) };
  }

  #knowsAtOnce(): boolean {
    const { config } = this.#deps.scope;
    return config.resolveSync !== undefined && config.generation() !== undefined;
  }

  isOutdated(levels: readonly ChainLink[]): boolean {
    const generation = this.#deps.scope.config.generation();
    return levels.some((link) => link.generation !== generation);
  }

  /** A plan by configuration that was read before the outage, however old; undefined if there is none. */
  lastPlan(request: AcquireRequest): Plan | undefined {
    const nowMs = this.#deps.clock.now();
    const known = lastChains(this.#parts.configCache, request, nowMs);
    if (known === undefined) return undefined;
    const at = { nowMs, timeoutMs: this.#settings.timeoutMs, sinceRead: 0 };
    const leaving = howLeavingOut(request);
    if (leaving !== undefined) return this.#planLeavingOut(request, known.chain, known.others, at, leaving);
    return this.#plan(request, known.chain, known.others, at, this.#rules.take);
  }

  /** The chain of a question by stored configuration: no take will notice that the cached one has changed. */
  async chain(question: Question, nowMs: number, purpose: Purpose): Promise<readonly ChainLink[]> {
    this.#parts.lifecycle.requireOpen();
    checkRequest(question);
    const chain = await this.#chainNow(question, nowMs);
    this.#requireCreated(chain[0] as ChainLink);
    return this.#requestLimits.inForce(chain, question.limits, nowMs, purpose);
  }

  /**
   * The chain of what is charged or given back without a take, by cached configuration that is not known to be out of date. Nothing is refused
   * by it.
   */
  async lateChain(place: Pick<Question, "entityId" | "resource">, how: HowRead): Promise<readonly ChainLink[]> {
    this.#parts.lifecycle.requireOpen();
    const { configCache } = this.#parts;
    const nowMs = this.#deps.clock.now();
    const known = knownChain(configCache, place, nowMs, checkResource);
    const chain = await this.#current(how === "any" ? known : undefined, () =>
      runAsync(configCache.chain(place.entityId, place.resource, nowMs, "async", how)),
    );
    this.#requireCreated(chain[0] as ChainLink);
    return this.#requestLimits.inForce(chain, undefined, nowMs, "write");
  }

  async #chainNow(question: Question, nowMs: number): Promise<readonly ChainLink[]> {
    const { configCache } = this.#parts;
    const { config } = this.#deps.scope;
    const sinceRead = configCache.reads;
    // Checks the names before anything is read.
    const known = knownChain(configCache, question, nowMs, checkBucketResource);
    if (config.askGeneration !== undefined) await config.askGeneration();
    // Without a count of changes, only a read tells.
    const how = config.generation() === undefined ? "consistent" : "any";
    return this.#current(how === "any" ? known : undefined, () =>
      runAsync(
        configCache.chain(question.entityId, question.resource, nowMs, "async", how, how === "any" ? 0 : sinceRead),
      ),
    );
  }

  /** A chain of the generation that the store says it has: the one that is known, or one that is read. */
  async #current(
    known: readonly ChainLink[] | undefined,
    read: () => Promise<readonly ChainLink[]>,
  ): Promise<readonly ChainLink[]> {
    let chain = known;
    for (let tries = 1; ; tries++) {
      chain ??= await read();
      // A parent may be cached from before a change, too.
      if (!this.isOutdated(chain) || tries === PLANS_MAX) return chain;
      this.#parts.configCache.expire();
      chain = undefined;
    }
  }

  /** The demands of an acquire of these amounts. */
  demands(asked: Asked, chain: readonly ChainLink[]): readonly Demand[] {
    return demandsFor(asked, chain, this.#rules[howLeavingOut(asked) ?? "question"]);
  }

  /** Reads the buckets of the demands and applies the current limits to the copies; nothing is written. */
  async observe(demands: readonly Demand[]): Promise<Observation> {
    const { scope, clock, calendar } = this.#deps;
    const states = await scope.buckets.read(demands.map(({ link }) => link.bucket));
    // Read after the store's answer, which may correct the clock.
    const nowMs = clock.now();
    const observed = demands.map((demand, i) => {
      return observedBy(demand, { state: bucketFor(states[i], demand, nowMs, calendar), taken: false, seen: "now" });
    });
    return { observed, nowMs };
  }
}

export const NO_OTHERS: readonly PartChain[] = Object.freeze([]);

/** A chain that may have the bucket above its entity for which the request gives limits: they apply there, too. */
function withGiven(chain: readonly ChainLink[], own: ChainLink | undefined): readonly ChainLink[] {
  if (own === undefined || !chain.some(({ bucket }) => bucket.id === own.bucket.id)) return chain;
  const { set, limits, charged, origin } = own;
  return chain.map((link) => (link.bucket.id === own.bucket.id ? { ...link, set, limits, charged, origin } : link));
}

interface Reading {
  readonly nowMs: number;
  readonly mode: Mode;
  readonly how: HowRead;
}

/** Reads the chains of the further parts of a request (`also`). */
export function* otherChains(
  configCache: ConfigCache,
  request: AcquireRequest,
  { nowMs, mode, how }: Reading,
): Steps<readonly PartChain[]> {
  const chainOf = ({ entityId, resource }: FurtherPart) => configCache.chain(entityId, resource, nowMs, mode, how);
  const also = alsoOf(request);
  if (mode === "sync") return also.map((part) => ({ ...part, chain: runSync(chainOf(part)) }));
  // In parallel: the reads may go over a network.
  const all = also.map(async (part) => ({ ...part, chain: await runAsync(chainOf(part)) }));
  return yield* waitFor(Promise.all(all));
}

/** The chains of all parts of a request as last read, however long ago; undefined if one was never read. */
function lastChains(
  configCache: ConfigCache,
  request: AcquireRequest,
  nowMs: number,
): { readonly chain: readonly ChainLink[]; readonly others: readonly PartChain[] } | undefined {
  const { entityId, resource } = request;
  const chain = configCache.lastKnown(entityId, resource, nowMs);
  const others: PartChain[] = [];
  for (const part of alsoOf(request)) {
    const other = configCache.lastKnown(part.entityId, part.resource, nowMs);
    if (other === undefined) return undefined;
    others.push({ ...part, chain: other });
  }
  return chain && { chain, others };
}

/** True if a request asks for nothing but tokens of one resource. */
function isPlain(request: AcquireRequest): boolean {
  if (typeof request !== "object" || request === null || !hasOnlyKnownNames(request)) return false;
  if (request.also !== undefined || request.signal !== undefined || request.leavePercent !== undefined) return false;
  if (request.holdMs !== undefined) return false;
  return request.atomic === undefined || typeof request.atomic === "boolean";
}
