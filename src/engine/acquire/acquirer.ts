import { TOTAL_RESOURCE } from "../../domain/config/totals.ts";
import { RateLimiterUnavailable } from "../../domain/names/errors.ts";
import { checkResource } from "../../domain/names/names.ts";
import { type Mode, runAsyncOr, runSync, type Steps, waitFor } from "../../domain/steps.ts";
import type { Returned, TakenAnswer } from "../../ports/bucket-store.ts";
import type { BucketsMaybeInPlace } from "../../ports/in-place-takes.ts";
import { Lease } from "../lease/lease.ts";
import type { LeaseMaker } from "../lease/lease-core.ts";
import { type LeasePart, SinglePart } from "../lease/lease-part.ts";
import { Renewals } from "../lease/renewals.ts";
import { EventPublisher, reasonOf } from "../limiter/event-publisher.ts";
import type { Lifecycle } from "../limiter/lifecycle.ts";
import { peek } from "../limiter/peek.ts";
import { knownChain } from "../limiter/question.ts";
import type { EngineDeps, Settings } from "../limiter/settings.ts";
import { Outages } from "../outage/outage.ts";
import { type Waiting, WaitingRoom } from "../outage/waiting.ts";
import type { Refusal } from "../refusal/refusal.ts";
import { RefusalCounts } from "../refusal/refusal-counts.ts";
import { AcquireWatch } from "./acquire-watch.ts";
import { ConfigCache, type HowRead } from "./config-cache.ts";
import { Deadline, keptBy } from "./deadline.ts";
import { DenyMemory } from "./deny-memory.ts";
import type { GuardedDeps } from "./guarded-deps.ts";
import { NearResources } from "./near-resources.ts";
import { NO_OTHERS, otherChains } from "./other-chains.ts";
import type { Granted, Outcome } from "./outcome.ts";
import { amountsIfValid, isPlain, plainPlan } from "./plain-request.ts";
import {
  configChurn,
  drafting,
  leaseParts,
  type PartsDraft,
  PLANS_MAX,
  type Plan,
  type Replanned,
  readAgain,
  timeLeft,
  unreadIn,
} from "./plan.ts";
import { Planner } from "./planner.ts";
import { type AcquireRequest, checkRefusal, checkRequest, type Demand } from "./request.ts";
import { RequestLimits } from "./request-limits.ts";
import { isInShadow } from "./shadow.ts";
import { type Listeners, StoreClient, type Taken } from "./store-client.ts";
import { cannotWait, storeNotSync } from "./sync-request.ts";

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
  readonly planner: Planner;
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
    this.requestLimits = new RequestLimits(deps, settings.bucketsMax);
    this.configCache = new ConfigCache(deps.scope.config, settings.configTtlMs, settings.bucketsMax);
    this.deny = new DenyMemory(settings.denyMemoryMs, settings.bucketsMax);
    this.nearResources = new NearResources(deps.scope.config, deps.clock, settings.configTtlMs);
    this.#publisher = new EventPublisher(deps.events, settings);
    this.refusals = new RefusalCounts(deps, settings, this.#publisher);
    const { returns, clock, scope, events } = deps;
    const { namespace } = settings;
    this.watch = new AcquireWatch({ events, clock, namespace, storeName: deps.store.name });
    this.room = new WaitingRoom({
      ...{ lifecycle, clock, returns, namespace, buckets: scope.buckets, deny: this.deny, random: deps.random },
    });
    const returned = (returned: Returned) => returns.tell({ namespace, returned });
    this.listeners = { deny: this.deny, returned, publisher: this.#publisher, lifecycle };
    this.client = new StoreClient(deps, settings, this.listeners);
    const stop = scope.buckets.watchThresholds?.((crossed) => this.#publisher.threshold(crossed));
    if (stop !== undefined) lifecycle.onClosed(stop);
    this.#maker = {
      client: this.client,
      calendar: deps.calendar,
      now: () => deps.clock.now(),
      outage: (claims, reason) => this.#outages.ofMore(claims, reason),
      publisher: this.#publisher,
      renewals: new Renewals(this.client, clock),
    };
    this.#outages = new Outages(deps, settings, this.listeners, this.#maker);
    const known = { configCache: this.configCache, requestLimits: this.requestLimits, deny: this.deny };
    this.planner = new Planner({ deps, settings, lifecycle, ...known, outages: this.#outages });
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
    this.#publisher.degraded(
      request,
      "lease_not_stored",
      `the end of a lease could not be stored: ${reasonOf(error)}`,
      error,
    );
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
    if (stored === undefined || this.planner.isUnknown(stored) || this.deny.knows(stored)) return undefined;
    const link = this.requestLimits.inPlace(stored, request.limits, nowMs);
    if (link === undefined) return undefined;
    const take = amountsIfValid(request, link, this.planner.rules.take);
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
    const { link, take } = plan.demands[0] as Demand;
    this.#outages.noteStored(link.onUnavailable);
    return this.client.takeThen(plan.claims, plan.demands, plan, (taken) => {
      if (taken.kind === "granted") {
        const answer = taken.answers[0] as TakenAnswer;
        const part = new SinglePart(link, take, answer, answer.readingMs ?? plan.nowMs);
        return this.#granted(request, part, NO_PARTS, waiting);
      }
      const certain = this.planner.certain(taken, link.singleChain, NO_OTHERS, sinceRead);
      if (certain.kind !== "stale") return this.#ended(request, this.#outcome(plan, certain, waiting), waiting);
      const how = readAgain(this.configCache, certain, link.singleChain, NO_OTHERS);
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
        const plan = this.planner.planned(request, chain, others, { nowMs, timeoutMs, sinceRead });
        if (plan === "unsure") how = "consistent";
        if (plan === "stale" || plan === "unsure") continue;
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
        const reply = answer instanceof Promise ? ((yield answer) as Taken) : answer;
        const taken = this.planner.certain(reply, chain, others, sinceRead);
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

  #ended(request: AcquireRequest, outcome: Outcome, waiting: Waiting | undefined): Outcome {
    if (!outcome.ok && waiting === undefined) this.refused(request, outcome);
    return outcome;
  }

  #outcome(plan: Plan, taken: Exclude<Taken, { kind: "stale" }>, waiting: Waiting | undefined): Outcome {
    const { request } = plan;
    switch (taken.kind) {
      case "granted": {
        const parts = leaseParts(plan, taken.answers);
        const others = parts.length === 1 ? NO_PARTS : parts.slice(1);
        return this.#granted(request, parts[0] as LeasePart, others, waiting);
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
    const plan = planned ?? (this.#outages.needsPlan ? this.planner.lastPlan(request) : undefined);
    return this.#outages.outcome(request, { demands, plan }, cause);
  }
}
