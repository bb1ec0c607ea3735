import type { Tokens } from "../domain/amounts.ts";
import { ALONE } from "../domain/charges.ts";
import { entityMissing } from "../domain/entity.ts";
import { RateLimiterUnavailable } from "../domain/errors.ts";
import { checkBucketResource, checkResource } from "../domain/names.ts";
import { TOTAL_RESOURCE } from "../domain/totals.ts";
import type { Returned } from "../ports/bucket-store.ts";
import type { BucketsMaybeInPlace } from "../ports/in-place-takes.ts";
import { AcquireWatch } from "./acquire-watch.ts";
import { type ChainLink, ConfigCache, type HowRead } from "./config-cache.ts";
import { Deadline, keptBy } from "./deadline.ts";
import { DenyMemory } from "./deny-memory.ts";
import { EventPublisher, reasonOf } from "./event-publisher.ts";
import type { GuardedDeps } from "./guarded-deps.ts";
import { Lease } from "./lease.ts";
import { type LeasePart, SinglePart } from "./lease-part.ts";
import type { LeaseMaker } from "./lease-resource.ts";
import type { Lifecycle } from "./lifecycle.ts";
import { NearResources } from "./near-resources.ts";
import { observed } from "./observed.ts";
import { lastChains, NO_OTHERS, otherChains } from "./other-chains.ts";
import { Outages } from "./outage.ts";
import type { Granted, Outcome } from "./outcome.ts";
import { peek } from "./peek.ts";
import { amountsIfValid, isPlain, plainPlan } from "./plain-request.ts";
import {
  configChurn,
  drafting,
  enabled,
  isByConfig,
  isOneReading,
  leaseParts,
  type PartChain,
  type PartsDraft,
  PLANS_MAX,
  type Plan,
  type Planned,
  type PlanTime,
  planOf,
  type Replanned,
  readAgain,
  takable,
  timeLeft,
  unreadIn,
} from "./plan.ts";
import { knownChain, type Question } from "./question.ts";
import { type Observation, type Refusal, refusalOf, remembered } from "./refusal.ts";
import { RefusalCounts } from "./refusal-counts.ts";
import { type AcquireRequest, checkRefusal, checkRequest, type Demand, demandsOf } from "./request.ts";
import { type Purpose, RequestLimits } from "./request-limits.ts";
import type { EngineDeps, Settings } from "./settings.ts";
import { isInShadow } from "./shadow.ts";
import { type Mode, runAsync, runAsyncOr, runSync, type Steps, waitFor } from "./steps.ts";
import { type Listeners, StoreClient, type Taken } from "./store-client.ts";
import { cannotWait, storeNotSync } from "./sync-request.ts";
import { type Waiting, WaitingRoom } from "./waiting.ts";

const NO_PARTS: readonly LeasePart[] = Object.freeze([]);

/** Makes leases and refusals of requests: plans the chain, looks in memory, asks the store, reads its answers. */
export class Acquirer {
  readonly configCache: ConfigCache;
  readonly deny: DenyMemory;
  readonly room: WaitingRoom;
  readonly client: StoreClient;
  readonly nearResources: NearResources;
  /** Who hears of writes: stored leases tell them of theirs. */
  readonly listeners: Listeners;
  readonly refusals: RefusalCounts;
  readonly watch: AcquireWatch;
  readonly requestLimits: RequestLimits;
  readonly #deps: EngineDeps;
  readonly #settings: Settings;
  readonly #publisher: EventPublisher;
  readonly #lifecycle: Lifecycle;
  readonly #maker: LeaseMaker;
  readonly #outages: Outages;

  constructor(deps: GuardedDeps, settings: Settings, lifecycle: Lifecycle) {
    this.#deps = deps;
    this.#lifecycle = lifecycle;
    this.#settings = settings;
    this.requestLimits = new RequestLimits(deps.calendar, settings.bucketsMax);
    this.configCache = new ConfigCache(deps.scope.config, settings.configTtlMs, settings.bucketsMax);
    this.deny = new DenyMemory(settings.denyMemoryMs, settings.bucketsMax);
    this.nearResources = new NearResources(deps.scope.config, deps.clock, settings.configTtlMs);
    this.#publisher = new EventPublisher(deps.events, settings);
    this.refusals = new RefusalCounts(deps, settings, this.#publisher);
    const { returns, clock, scope, events } = deps;
    const { namespace } = settings;
    this.watch = new AcquireWatch({ events, clock, namespace, storeName: deps.store.name });
    this.room = new WaitingRoom({ lifecycle, clock, returns, namespace, buckets: scope.buckets, deny: this.deny });
    const returned = (returned: Returned) => returns.tell({ namespace, returned });
    this.listeners = { deny: this.deny, returned, publisher: this.#publisher, lifecycle };
    this.client = new StoreClient(deps, settings, this.listeners);
    this.#maker = {
      client: this.client,
      calendar: deps.calendar,
      now: () => deps.clock.now(),
      outage: (claims, reason) => this.#outages.ofMore(claims, reason),
      publisher: this.#publisher,
    };
    this.#outages = new Outages(deps, settings, this.listeners, this.#maker);
  }

  /** One attempt, without waiting for tokens. `waiting`: it is one of several, of a request that waits. */
  attempt(request: AcquireRequest, waiting: Waiting | undefined, draft?: PartsDraft): Promise<Outcome> {
    // Not an async function: its frame would cost as much as a take from memory.
    try {
      this.#lifecycle.requireOpen();
      // What is written down with the take needs the store's transaction.
      const outcome = draft ? undefined : (this.#fastPath(request, waiting) ?? this.#firstPlan(request, waiting));
      if (outcome !== undefined) return Promise.resolve(outcome);
    } catch (error) {
      return this.nearResources.rethrow(error, request);
    }
    return this.#bySteps(request, waiting, draft, undefined);
  }

  /** The shortest way alone, for a request to which nobody listens: undefined where it needs another, and nothing has happened. */
  attemptAtOnce(request: AcquireRequest): Granted | undefined {
    return this.#lifecycle.isOpen && !this.watch.isActive ? this.#fastPath(request, undefined) : undefined;
  }

  /** One attempt, synchronously. */
  attemptSync(request: AcquireRequest): Outcome {
    this.#lifecycle.requireOpen();
    if (request?.wait !== undefined) throw cannotWait();
    const granted = this.#fastPath(request, undefined);
    if (granted !== undefined) return granted;
    if (this.#deps.scope.buckets.takeSync === undefined) throw storeNotSync(this.#deps.store.name);
    return runSync(this.#steps(request, "sync", undefined, undefined, undefined));
  }

  /** A request has ended refused. Once for each: an attempt of a request that goes on waiting is none. */
  refused(request: AcquireRequest, refusal: Refusal): void {
    this.#publisher.refused(request, refusal);
    // It went on: the counts are of requests that did not.
    if (!isInShadow(request)) this.refusals.counted(request, refusal);
  }

  /** How a request stands, without taking: for one whose turn never came while it waited. */
  peek(request: AcquireRequest, waiting: Waiting): Promise<Outcome> {
    return peek(this, this.#deps, request, waiting);
  }

  /** The end of a lease could not be stored. An outage was published where it was met; anything else is told here. */
  notStored(request: AcquireRequest, error: unknown): void {
    if (error instanceof RateLimiterUnavailable) return;
    this.#publisher.degraded(request, `the end of a lease could not be stored: ${reasonOf(error)}`, error);
  }

  /** The chain that a question is about, as configuration has it now. */
  async chain(question: Question, nowMs: number, purpose: Purpose): Promise<readonly ChainLink[]> {
    this.#lifecycle.requireOpen();
    checkRequest(question);
    let chain = knownChain(this.configCache, question, nowMs, checkBucketResource);
    if (chain !== undefined && this.isOutdated(chain)) {
      this.configCache.expire();
      chain = undefined;
    }
    chain ??= await runAsync(this.configCache.chain(question.entityId, question.resource, nowMs, "async", "any"));
    this.#requireCreated(chain[0] as ChainLink);
    return this.requestLimits.inForce(chain, question.limits, nowMs, purpose);
  }

  /** What an acquire of the amounts would take from a chain, level by level. */
  demands(consume: Tokens | undefined, chain: readonly ChainLink[]): Demand[] {
    return demandsOf(consume, chain, this.#settings, ALONE);
  }

  /** The buckets of a chain as they are stored, with the limits of now brought to them in thought. */
  observe(demands: readonly Demand[]): Promise<Observation> {
    return observed(this.#deps, demands);
  }

  /**
   * The steps below for the plainest request on a store in memory, without a plan and with hardly an object. What is not
   * plain, and what is not granted, goes through the steps: nothing has happened then.
   */
  #fastPath(request: AcquireRequest, waiting: Waiting | undefined): Granted | undefined {
    const buckets: BucketsMaybeInPlace = this.#deps.scope.buckets;
    if (buckets.takeOne === undefined || !isPlain(request) || request.resource === TOTAL_RESOURCE) return undefined;
    const nowMs = this.#deps.clock.now();
    const stored = this.configCache.singleLink(request.entityId, request.resource, nowMs);
    if (stored === undefined || this.isUnknown(stored) || this.deny.knows(stored.bucket.id)) return undefined;
    const link = this.requestLimits.inPlace(stored, request.limits, nowMs);
    if (link === undefined) return undefined;
    const take = amountsIfValid(request, link, this.#settings);
    if (take === undefined || take.length === 0) return undefined;
    const answer = buckets.takeOne(link, take, nowMs, link.generation);
    if (answer === undefined) return undefined;
    this.#outages.noteStored(link.onUnavailable);
    return this.#granted(request, new SinglePart(link, take, answer, nowMs), NO_PARTS, waiting);
  }

  /**
   * The first plan of the steps for the plainest request on a store that answers with a promise, without the generator: a fifth of such a
   * take. Undefined where it is not plain, and nothing has happened.
   */
  #firstPlan(request: AcquireRequest, waiting: Waiting | undefined): Promise<Outcome> | undefined {
    const sinceRead = this.configCache.reads;
    const plan = plainPlan(request, this.#deps, this.#settings, this);
    if (plan === undefined) return undefined;
    const { link } = plan.demands[0] as Demand;
    this.#outages.noteStored(link.onUnavailable);
    return Promise.resolve(this.client.take(plan.claims, plan.demands, plan, "async")).then((taken) => {
      if (taken.kind !== "stale") return this.#ended(request, this.#outcome(plan, taken, waiting), waiting);
      const how = readAgain(this.configCache, taken, link.singleChain, NO_OTHERS);
      return this.#bySteps(request, waiting, undefined, { startedMs: plan.nowMs, sinceRead, how });
    });
  }

  #bySteps(
    request: AcquireRequest,
    waiting: Waiting | undefined,
    draft: PartsDraft | undefined,
    replanned: Replanned | undefined,
  ): Promise<Outcome> {
    const steps = this.#steps(request, "async", waiting, draft, replanned);
    return runAsyncOr(steps, (error) => this.nearResources.rethrow(error, request));
  }

  /** An attempt, from the request to its outcome; `replanned`: its first plan met configuration that has changed. */
  *#steps(
    request: AcquireRequest,
    mode: Mode,
    waiting: Waiting | undefined,
    draft: PartsDraft | undefined,
    replanned: Replanned | undefined,
  ): Steps<Outcome> {
    checkRequest(request);
    request.signal?.throwIfAborted();
    const { entityId, resource } = request;
    // It may be remembered from a question, which is then known to be a resource.
    if (resource === TOTAL_RESOURCE) checkResource(resource);
    const startedMs = replanned?.startedMs ?? this.#deps.clock.now();
    const sinceRead = replanned?.sinceRead ?? this.configCache.reads;
    let how: HowRead = replanned?.how ?? "any";
    let deadline: Deadline | undefined;
    try {
      for (let plans = replanned === undefined ? 0 : 1; plans < PLANS_MAX; plans++) {
        const nowMs = plans === 0 ? startedMs : this.#deps.clock.now();
        let chain = how === "any" ? knownChain(this.configCache, request, nowMs, checkResource) : undefined;
        const hasWaited = plans > 0 || chain === undefined || request.also !== undefined;
        let others = NO_OTHERS;
        try {
          if (hasWaited) deadline ??= new Deadline(this.#deps.clock, timeLeft(this.#settings, nowMs - startedMs));
          chain ??= yield* keptBy(deadline, this.configCache.chain(entityId, resource, nowMs, mode, how));
          if (request.also !== undefined)
            others = yield* keptBy(deadline, otherChains(this.configCache, request, { nowMs, mode, how }));
        } catch (error) {
          if (!(error instanceof RateLimiterUnavailable)) throw error;
          // Not even the limits are known.
          const outcome = this.unavailable(request, [], error);
          if (!outcome.ok && waiting === undefined) this.refused(request, outcome);
          return outcome;
        }
        const timeoutMs = timeLeft(this.#settings, hasWaited ? this.#deps.clock.now() - startedMs : 0);
        const plan = this.#planned(request, chain, others, { nowMs, timeoutMs, sinceRead });
        if (plan === "stale") continue;
        if (plan.ok === false) {
          if (waiting === undefined) this.refused(request, plan);
          return plan;
        }
        const unread = unreadIn(plan, chain, others, sinceRead);
        if (unread.length > 0) {
          this.configCache.expire(unread);
          how = "consistent";
          continue;
        }
        const answer = this.client.take(plan.claims, plan.demands, drafting(plan, draft), mode);
        const taken = answer instanceof Promise ? ((yield answer) as Taken) : answer;
        if (taken.kind === "stale") {
          if (readAgain(this.configCache, taken, chain, others) === "consistent") how = "consistent";
          continue;
        }
        const outcome = this.#outcome(plan, taken, waiting);
        if (request.signal?.aborted) {
          if (outcome.ok) yield* waitFor(outcome.lease.rollback());
          request.signal.throwIfAborted();
        }
        return this.#ended(request, outcome, waiting);
      }
    } finally {
      deadline?.end();
    }
    throw configChurn(request);
  }

  /**
   * The plan; or the refusal that memory already knows; or `stale`, when configuration has changed: the links it would be
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
      // Configuration that is known to be out of date must not decide that a limit is unknown or too low, or a resource off.
      if (!isByConfig(error) || !this.isOutdated(chain)) throw error;
      this.configCache.expire();
      return "stale";
    }
  }

  #plan(request: AcquireRequest, chain: readonly ChainLink[], others: readonly PartChain[], at: PlanTime): Plan {
    const entity = chain[0] as ChainLink;
    this.#requireCreated(entity);
    this.#outages.noteStored(entity.onUnavailable);
    enabled(chain);
    for (const other of others) enabled(other.chain);
    const inForce = (one: readonly ChainLink[], limits: AcquireRequest["limits"]) =>
      this.requestLimits.inForce(one, limits, at.nowMs, "write");
    const further = others.map((other) => ({ ...other, chain: inForce(other.chain, undefined) }));
    return takable(planOf(request, inForce(chain, request.limits), further, at, this.#settings), this.#deps.store);
  }

  isUnknown({ created }: ChainLink): boolean {
    return !created && this.#settings.unknownEntities === "refuse";
  }

  #requireCreated(link: ChainLink): void {
    if (!this.isUnknown(link)) return;
    // Another process may create it at any time, and must not have to wait until this one forgets that it was not there.
    this.configCache.expire([link]);
    throw entityMissing(link.bucket.entityId);
  }

  #recalled(plan: Plan): Refusal | "stale" | undefined {
    const observed = this.deny.recall(plan.claims, plan.nowMs);
    if (observed === undefined && plan.claims.length > 0) return undefined;
    // The store is not asked, so it cannot tell that limits were raised, or that a resource was disabled.
    if (this.isOutdated(plan.demands.map(({ link }) => link))) {
      this.configCache.expire();
      this.deny.clear();
      return "stale";
    }
    if (observed === undefined) return undefined;
    const refusal = refusalOf(observed, plan.demands, { askedMs: plan.nowMs, toldMs: plan.nowMs }, this.#deps.calendar);
    checkRefusal(refusal);
    return remembered(refusal);
  }

  isOutdated(levels: readonly ChainLink[]): boolean {
    const generation = this.#deps.scope.config.generation();
    return levels.some((link) => link.generation !== generation);
  }

  #ended(request: AcquireRequest, outcome: Outcome, waiting: Waiting | undefined): Outcome {
    if (!outcome.ok && waiting === undefined) this.refused(request, outcome);
    return outcome;
  }

  #outcome(plan: Plan, taken: Exclude<Taken, { kind: "stale" }>, waiting: Waiting | undefined): Outcome {
    const { request } = plan;
    switch (taken.kind) {
      case "granted": {
        const [part, ...others] = leaseParts(plan, taken.answers);
        return this.#granted(request, part as LeasePart, others, waiting);
      }
      case "refused":
        checkRefusal(taken.refusal);
        return taken.refusal;
      case "unavailable":
        return this.unavailable(request, plan.demands, taken.cause, plan);
    }
  }

  #granted(
    request: AcquireRequest,
    part: LeasePart,
    others: readonly LeasePart[],
    waiting: Waiting | undefined,
  ): Granted {
    const lease = new Lease(this.#maker, part, others, false, request.signal);
    this.#publisher.acquired(request, part, others, waiting?.waitedMs());
    return { ok: true, lease };
  }

  /** The store did not decide a request: what becomes of it. Throws `RateLimiterUnavailable` where it is blocked. */
  unavailable(request: AcquireRequest, demands: readonly Demand[], cause: unknown, planned?: Plan): Outcome {
    const plan = planned ?? (this.#outages.needsPlan ? this.#lastPlan(request) : undefined);
    return this.#outages.outcome(request, { demands, plan }, cause);
  }

  /** By configuration that was read before the outage, however old; undefined where it is not known. */
  #lastPlan(request: AcquireRequest): Plan | undefined {
    const known = lastChains(this.configCache, request);
    if (known === undefined) return undefined;
    const at = { nowMs: this.#deps.clock.now(), timeoutMs: this.#settings.timeoutMs, sinceRead: 0 };
    return this.#plan(request, known.chain, known.others, at);
  }
}
