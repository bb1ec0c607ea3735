import { type Amount, checkAmounts } from "../domain/amounts.ts";
import { bucketFor } from "../domain/bucket-state.ts";
import type { OnUnavailable } from "../domain/config.ts";
import { RateLimiterUnavailable, ResourceDisabled, ValidationError } from "../domain/errors.ts";
import type { Limit } from "../domain/limit.ts";
import { checkEntityId, checkResource } from "../domain/names.ts";
import type { Claim, TakenAnswer, TakeReply } from "../ports/bucket-store.ts";
import { type ChainLink, ConfigCache } from "./config-cache.ts";
import { DenyMemory } from "./deny-memory.ts";
import { EventPublisher, reasonOf } from "./event-publisher.ts";
import { Lease, type LeaseMaker, type LeasePart } from "./lease.ts";
import type { Granted, Outcome } from "./outcome.ts";
import {
  claimsOf,
  configChurn,
  disabledIn,
  isOneReading,
  leaseParts,
  type PartChain,
  PLANS_MAX,
  type Plan,
  type Planned,
  type PlanTime,
  planOf,
  timeLeft,
} from "./plan.ts";
import { type ObservedBucket, type Refusal, refusalOf } from "./refusal.ts";
import {
  type AcquireRequest,
  alsoOf,
  checkRefusal,
  checkRequest,
  type Demand,
  demandOf,
  demandsOf,
} from "./request.ts";
import { RequestLimits } from "./request-limits.ts";
import type { EngineDeps, Settings } from "./settings.ts";
import { StoreClient, type Taken, withoutConfigCheck } from "./store-client.ts";
import { WaitingRoom } from "./waiting.ts";

/** A question about an entity on a resource that takes nothing. */
export interface Question {
  readonly entityId: string;
  readonly resource: string;
  /** Answer for these limits in place of the stored ones. */
  readonly limits?: readonly Limit[];
}

const NO_PARTS: readonly LeasePart[] = Object.freeze([]);
const NO_OTHERS: readonly PartChain[] = Object.freeze([]);

/** The acquire loop: plan the chain, look in memory, ask the store, read its answers. */
export class Acquirer {
  readonly configCache: ConfigCache;
  readonly deny: DenyMemory;
  readonly room = new WaitingRoom();
  readonly #requestLimits: RequestLimits;
  readonly #deps: EngineDeps;
  readonly #settings: Settings;
  readonly #client: StoreClient;
  readonly #publisher: EventPublisher;
  readonly #maker: LeaseMaker;
  /** What the system level last said about outages: it cannot be asked during one. */
  #onUnavailable: OnUnavailable | undefined;

  constructor(deps: EngineDeps, settings: Settings) {
    this.#deps = deps;
    this.#settings = settings;
    this.#requestLimits = new RequestLimits(deps.calendar);
    this.configCache = new ConfigCache(deps.scope.config, settings.configTtlMs);
    this.deny = new DenyMemory(settings.denyMemoryMs);
    this.#client = new StoreClient(deps, settings, this.deny, this.room);
    this.#publisher = new EventPublisher(deps.events, settings);
    this.#maker = {
      client: this.#client,
      now: () => deps.clock.now(),
      takeMore: (claims) => this.#takeMore(claims),
      allows: (link) => this.#allows(link),
      degraded: (link, reason, cause) => this.#publisher.degraded(link.bucket, reason, cause),
    };
  }

  /** One attempt, without waiting for tokens. */
  async attempt(request: AcquireRequest): Promise<Outcome> {
    checkRequest(request);
    const fast = this.#fastPath(request);
    if (fast !== undefined) return fast;
    request.signal?.throwIfAborted();
    let startedMs: number | undefined;
    for (let plans = 0; plans < PLANS_MAX; plans++) {
      const nowMs = this.#deps.clock.now();
      let chain = this.#known(request, nowMs);
      let others = NO_OTHERS;
      const hasWaited = chain === undefined || request.also !== undefined || startedMs !== undefined;
      startedMs ??= nowMs;
      try {
        chain ??= await this.configCache.chain(request.entityId, request.resource, nowMs);
        if (request.also !== undefined) others = await this.#others(request, nowMs);
      } catch (error) {
        if (!(error instanceof RateLimiterUnavailable)) throw error;
        // Not even the limits are known.
        return this.#unavailable(request, [], error);
      }
      const timeoutMs = timeLeft(this.#settings, hasWaited ? this.#deps.clock.now() - startedMs : 0);
      const plan = this.#planned(request, chain, others, { nowMs, timeoutMs });
      if (plan === "stale") continue;
      if (plan.ok === false) return plan;
      const sent = this.#dispatch(plan);
      const taken = sent instanceof Promise ? await sent : sent;
      if (taken.kind === "stale") {
        this.configCache.expire(taken.buckets);
        continue;
      }
      const outcome = this.#outcome(plan, taken);
      if (request.signal?.aborted) {
        if (outcome.ok) await outcome.lease.rollback();
        request.signal.throwIfAborted();
      }
      return outcome;
    }
    throw configChurn(request);
  }

  /** One attempt, synchronously. */
  attemptSync(request: AcquireRequest): Outcome {
    checkRequest(request);
    const fast = this.#fastPath(request);
    if (fast !== undefined) return fast;
    const { buckets } = this.#deps.scope;
    if (buckets.takeSync === undefined) {
      throw new ValidationError(
        "sync_unsupported",
        `The store ${this.#deps.store.name} cannot answer synchronously; use tryAcquire.`,
      );
    }
    request.signal?.throwIfAborted();
    for (let plans = 0; plans < PLANS_MAX; plans++) {
      const nowMs = this.#deps.clock.now();
      let chain = this.#known(request, nowMs);
      let others = NO_OTHERS;
      try {
        chain ??= this.configCache.chainSync(request.entityId, request.resource, nowMs);
        if (request.also !== undefined) others = this.#othersSync(request, nowMs);
      } catch (error) {
        if (!(error instanceof RateLimiterUnavailable)) throw error;
        return this.#unavailable(request, [], error);
      }
      const plan = this.#planned(request, chain, others, { nowMs, timeoutMs: this.#settings.timeoutMs });
      if (plan === "stale") continue;
      if (plan.ok === false) return plan;
      const reply = plan.claims.length === 0 ? [] : buckets.takeSync(plan.claims, plan);
      const taken = this.#client.conclude(plan.claims, reply, nowMs);
      if (taken instanceof Promise) throw new TypeError("A store that takes synchronously must take all or nothing.");
      if (taken.kind === "stale") this.configCache.expire(taken.buckets);
      else return this.#outcome(plan, taken);
    }
    throw configChurn(request);
  }

  /** How a request stands, without taking: for one whose turn never came while it waited. */
  async peek(request: AcquireRequest): Promise<Outcome> {
    const nowMs = this.#deps.clock.now();
    let demands: Demand[] = [];
    try {
      demands = demandsOf(request.consume, await this.chain(request, nowMs));
      for (const [resource, consume] of alsoOf(request)) {
        demands.push(...demandsOf(consume, await this.chain({ entityId: request.entityId, resource }, nowMs)));
      }
      // Where nothing is asked for nothing can be short, and nobody is overtaken.
      if (claimsOf(demands).length === 0) return await this.attempt(request);
      const refusal = refusalOf(await this.observe(demands, nowMs), nowMs, nowMs, this.#deps.calendar);
      checkRefusal(demands, refusal);
      this.#publisher.refused(request, refusal, false);
      return refusal;
    } catch (error) {
      if (!(error instanceof RateLimiterUnavailable)) throw error;
      return this.#unavailable(request, demands, error);
    }
  }

  /** The levels that a question is about, as configuration has them now. */
  async chain(question: Question, nowMs: number): Promise<readonly ChainLink[]> {
    let chain = this.#known(question, nowMs);
    if (chain !== undefined && this.#outdated(chain)) {
      this.configCache.expire();
      chain = undefined;
    }
    chain ??= await this.configCache.chain(question.entityId, question.resource, nowMs);
    if (question.limits === undefined) return chain;
    const [entity, ...parents] = chain as [ChainLink, ...ChainLink[]];
    return [this.#requestLimits.override(entity, question.limits, nowMs), ...parents];
  }

  /** The buckets of a chain as they are stored, with the limits of now brought to them in thought. */
  async observe(demands: readonly Demand[], nowMs: number): Promise<ObservedBucket[]> {
    const states = await this.#deps.scope.buckets.read(demands.map(({ link }) => link.bucket));
    return demands.map(({ bucket, set, origin, take, bypass }, i) => {
      const state = bucketFor(states[i], { set, origin }, nowMs, this.#deps.calendar);
      return { bucket, state, take, taken: false, bypass };
    });
  }

  // The same as an attempt, for the plainest request there is on a store in memory: no plan is made, and hardly an object.
  // Whatever is not plain, and whatever is not granted, goes the long way.
  #fastPath(request: AcquireRequest): Granted | undefined {
    const { buckets } = this.#deps.scope;
    if (buckets.takeOne === undefined) return undefined;
    if (request.limits !== undefined || request.also !== undefined || request.signal !== undefined) return undefined;
    const nowMs = this.#deps.clock.now();
    const link = this.configCache.singleLink(request.entityId, request.resource, nowMs);
    if (link === undefined || link.set.limits.length === 0) return undefined;
    const { id } = link.bucket;
    if (this.deny.knows(id) || this.#requestLimits.knows(id)) return undefined;
    let take: readonly Amount[];
    try {
      take = checkAmounts(request.consume, "consume", link.bucket, link.set.limits);
    } catch {
      // Perhaps only by configuration that has changed since: the long way finds out.
      return undefined;
    }
    if (take.length === 0) return undefined;
    const demand = demandOf(link, take, false);
    const answer = buckets.takeOne(demand, nowMs, link.generation);
    if (answer === undefined) return undefined;
    this.#onUnavailable = link.onUnavailable;
    const lease = new Lease(this.#maker, request.resource, [demand], [answer], NO_PARTS, false);
    this.#publisher.acquired(request, lease);
    return { ok: true, lease };
  }

  #known(question: Question, nowMs: number): readonly ChainLink[] | undefined {
    if (typeof question.entityId === "string" && typeof question.resource === "string") {
      const chain = this.configCache.chainKnown(question.entityId, question.resource, nowMs);
      // What is remembered was checked when it was read.
      if (chain !== undefined) return chain;
    }
    checkEntityId(question.entityId);
    checkResource(question.resource);
    return undefined;
  }

  #others(request: AcquireRequest, nowMs: number): Promise<PartChain[]> {
    return Promise.all(
      alsoOf(request).map(async ([resource, consume]) => ({
        consume,
        chain: await this.configCache.chain(request.entityId, resource, nowMs),
      })),
    );
  }

  #othersSync(request: AcquireRequest, nowMs: number): PartChain[] {
    return alsoOf(request).map(([resource, consume]) => ({
      consume,
      chain: this.configCache.chainSync(request.entityId, resource, nowMs),
    }));
  }

  /**
   * The plan; or the refusal that memory already knows; or `stale`, when configuration has moved on: the levels it would be
   * made of, remembered at different times, do not belong together.
   */
  #planned(request: AcquireRequest, chain: readonly ChainLink[], others: readonly PartChain[], at: PlanTime): Planned {
    if ((chain.length > 1 || others.length > 0) && !isOneReading(chain, others)) {
      this.configCache.expire();
      return "stale";
    }
    try {
      const plan = this.#plan(request, chain, others, at);
      return this.#recalled(plan) ?? plan;
    } catch (error) {
      // Nobody is told that a limit is unknown or too low, or a resource disabled, by configuration that is known to be old.
      const told = error instanceof ValidationError || error instanceof ResourceDisabled;
      if (!told || !this.#outdated(chain)) throw error;
      this.configCache.expire();
      return "stale";
    }
  }

  #plan(request: AcquireRequest, chain: readonly ChainLink[], others: readonly PartChain[], at: PlanTime): Plan {
    const entity = chain[0] as ChainLink;
    this.#onUnavailable = entity.onUnavailable;
    let disabled = disabledIn(chain);
    for (const other of others) disabled ??= disabledIn(other.chain);
    if (disabled !== undefined) throw disabled;
    const first =
      request.limits === undefined
        ? this.#requestLimits.stored(entity, at.nowMs)
        : this.#requestLimits.override(entity, request.limits, at.nowMs);
    const own = first === entity ? chain : [first, ...chain.slice(1)];
    return planOf(request, own, others, at);
  }

  #recalled(plan: Plan): Refusal | "stale" | undefined {
    const observed = this.deny.recall(plan.claims, plan.nowMs);
    if (observed === undefined && plan.claims.length > 0) return undefined;
    // The store is not asked, so it cannot tell that limits were raised, or that a resource was disabled.
    if (this.#outdated(plan.demands.map(({ link }) => link))) {
      this.configCache.expire();
      this.deny.clear();
      return "stale";
    }
    if (observed === undefined) return undefined;
    const refusal = refusalOf(observed, plan.nowMs, plan.nowMs, this.#deps.calendar);
    checkRefusal(plan.demands, refusal);
    this.#publisher.refused(plan.request, refusal, true);
    return refusal;
  }

  #outdated(levels: readonly ChainLink[]): boolean {
    const generation = this.#deps.scope.config.generation();
    return levels.some((link) => link.generation !== generation);
  }

  #dispatch(plan: Plan): Taken | Promise<Taken> {
    if (plan.claims.length === 0) return { kind: "granted", answers: [] };
    const reply = this.#deps.scope.buckets.take(plan.claims, plan);
    if (!(reply instanceof Promise)) return this.#client.conclude(plan.claims, reply, plan.nowMs);
    return this.#answered(plan, reply);
  }

  async #answered({ claims, nowMs }: Plan, reply: Promise<TakeReply>): Promise<Taken> {
    try {
      return await this.#client.conclude(claims, await reply, nowMs);
    } catch (error) {
      if (error instanceof RateLimiterUnavailable) return { kind: "unavailable", cause: error };
      throw error;
    }
  }

  // A lease goes on where it was taken, by the limits it was taken under, whatever configuration says meanwhile.
  async #takeMore(claims: readonly Claim[]): Promise<Taken> {
    const nowMs = this.#deps.clock.now();
    const context = {
      nowMs,
      timeoutMs: this.#settings.timeoutMs,
      generation: undefined,
      atomic: false,
      signal: undefined,
    };
    const reply = this.#deps.scope.buckets.take(claims.map(withoutConfigCheck), context);
    try {
      return await this.#client.conclude(claims, await reply, nowMs);
    } catch (error) {
      if (error instanceof RateLimiterUnavailable) return { kind: "unavailable", cause: error };
      throw error;
    }
  }

  #outcome(plan: Plan, taken: Exclude<Taken, { kind: "stale" }>): Outcome {
    const { request } = plan;
    switch (taken.kind) {
      case "granted": {
        const lease = this.#lease(plan, taken.answers);
        this.#publisher.acquired(request, lease);
        return { ok: true, lease };
      }
      case "refused":
        checkRefusal(plan.demands, taken.refusal);
        this.#publisher.refused(request, taken.refusal, false);
        return taken.refusal;
      case "unavailable":
        return this.#unavailable(request, plan.demands, taken.cause);
    }
  }

  #lease(plan: Plan, taken: readonly TakenAnswer[]): Lease {
    const { request, demands, parts } = plan;
    if (parts.length === 0) return new Lease(this.#maker, request.resource, demands, taken, NO_PARTS, false);
    const [first, ...others] = leaseParts(plan, taken);
    const { resource } = request;
    return new Lease(this.#maker, resource, first?.demands ?? [], first?.taken ?? [], others, false);
  }

  #unavailable(request: AcquireRequest, demands: readonly Demand[], cause: unknown): Granted {
    const { entityId, resource } = request;
    if (!this.#allows(demands[0]?.link)) {
      throw new RateLimiterUnavailable(
        `The limiter could not be reached for ${entityId} on ${resource}: ${reasonOf(cause)}. ` +
          'Try again, or let work through meanwhile with onUnavailable: "allow".',
        { cause },
      );
    }
    const reason = `the store was unavailable: ${reasonOf(cause)}`;
    this.#publisher.degraded(request, reason, cause);
    const own = demands.filter(({ bucket }) => bucket.resource === resource);
    const also = Object.keys(request.also ?? {}).map((name) => ({ resource: name, demands: [], taken: [] }));
    return { ok: true, lease: new Lease(this.#maker, resource, own, [], also, reason) };
  }

  #allows(link: ChainLink | undefined): boolean {
    return (this.#settings.onUnavailable ?? link?.onUnavailable ?? this.#onUnavailable) === "allow";
  }
}
