import type { BucketKey } from "../../domain/bucket/bucket-key.ts";
import { TOTAL_RESOURCE } from "../../domain/config/totals.ts";
import { RateLimiterUnavailable, ValidationError } from "../../domain/names/errors.ts";
import { given } from "../../domain/names/given.ts";
import { checkResource } from "../../domain/names/names.ts";
import { type Mode, runAsyncOr, runSync, type Steps, waitFor } from "../../domain/steps.ts";
import type { BucketsMaybeInPlace, Claim, Returned, TakenAnswer, Undecided } from "../../ports/bucket-store.ts";
import { Lease } from "../lease/lease.ts";
import type { LeaseMaker } from "../lease/lease-ledger.ts";
import { type LeasePart, SinglePart } from "../lease/lease-part.ts";
import { Renewals } from "../lease/renewals.ts";
import { EventPublisher, reasonOf } from "../limiter/event-publisher.ts";
import type { Lifecycle } from "../limiter/lifecycle.ts";
import { knownChain } from "../limiter/question.ts";
import type { EngineDeps, Settings } from "../limiter/settings.ts";
import { Outages } from "../outage/outage.ts";
import { type Waiting, WaitingRoom } from "../outage/waiting.ts";
import { type Refusal, refusalOf } from "../refusal/refusal.ts";
import { RefusalCounts } from "../refusal/refusal-counts.ts";
import { isInShadow } from "../refusal/refused.ts";
import { besideBuckets, CallerUsage } from "../usage/caller-usage.ts";
import type { Granted, Outcome } from "./acquiring.ts";
import { alsoOf } from "./also.ts";
import { enabled, frozenError } from "./chain-link.ts";
import { ConfigCache, type HowRead, type ReadSettings } from "./config-cache.ts";
import { type Deadline, deadlineAfter, keptBy } from "./deadline.ts";
import { DenyMemory } from "./deny-memory.ts";
import type { GuardedDeps } from "./guarded-deps.ts";
import { NearResources } from "./near-resources.ts";
import {
  claimsOf,
  configChurn,
  drafting,
  isByConfig,
  leaseParts,
  ownDemands,
  type PartsDraft,
  PLANS_MAX,
  type Plan,
  type Replanned,
  readAgain,
  timeLeft,
  unreadIn,
} from "./plan.ts";
import { NO_OTHERS, otherChains, Planner } from "./planner.ts";
import { type AcquireRequest, checkRefusal, checkRequest, type Demand } from "./request.ts";
import { type Listeners, StoreClient, type Taken } from "./store-client.ts";

/** The levels of a lease, that of the entity first. */
type LeaseChain = readonly { readonly bucket: BucketKey }[];

const NO_PARTS: readonly LeasePart[] = Object.freeze([]);

/** Turns a request into a lease or a refusal: plans the chain, looks in memory, asks the store, reads its answers. */
export class Acquirer {
  readonly configCache: ConfigCache;
  readonly deny: DenyMemory;
  readonly room: WaitingRoom;
  readonly client: StoreClient;
  readonly nearResources: NearResources;
  /** Observers of writes; stored leases notify them, too. */
  readonly listeners: Listeners;
  readonly refusals: RefusalCounts;
  readonly callers: CallerUsage;
  readonly publisher: EventPublisher;
  readonly planner: Planner;
  readonly #deps: EngineDeps;
  readonly #settings: Settings;
  readonly #lifecycle: Lifecycle;
  readonly #maker: LeaseMaker;
  readonly #outages: Outages;

  constructor(deps: GuardedDeps, settings: Settings, lifecycle: Lifecycle) {
    this.#deps = deps;
    this.#lifecycle = lifecycle;
    this.#settings = settings;
    this.configCache = new ConfigCache(deps.scope.config, settings.configTtlMs, settings.bucketsMax);
    this.deny = new DenyMemory(settings.denyMemoryMs, settings.bucketsMax);
    this.nearResources = new NearResources(deps.scope.config, deps.clock, settings.configTtlMs);
    this.publisher = new EventPublisher(deps, settings);
    this.refusals = new RefusalCounts(deps, settings, this.publisher);
    this.callers = new CallerUsage(deps, settings, this.publisher);
    const { returns, clock, scope, random } = deps;
    const { namespace } = settings;
    const { deny, configCache } = this;
    this.room = new WaitingRoom({ lifecycle, clock, returns, namespace, buckets: scope.buckets, deny, random });
    const returned = (returned: Returned) => returns.tell({ namespace, returned });
    this.listeners = { deny, returned, publisher: this.publisher, lifecycle };
    this.client = new StoreClient(deps, settings, this.listeners);
    const stop = scope.buckets.watchThresholds?.((crossed) => this.publisher.threshold(crossed));
    if (stop !== undefined) lifecycle.onClosed(stop);
    this.#maker = {
      client: this.client,
      takeMore: (claims, chain) => this.takeMore(claims, chain),
      calendar: deps.calendar,
      now: () => clock.now(),
      outage: (claims, reason) => this.#outages.ofMore(claims, reason),
      publisher: this.publisher,
      renewals: new Renewals(this.client, clock),
      callers: this.callers,
    };
    this.#outages = new Outages(deps, settings, this.listeners, this.#maker, configCache);
    this.planner = new Planner(deps, settings, { lifecycle, configCache, deny });
  }

  /** One attempt, without waiting for tokens. `waiting` is given for an attempt of a request that waits. */
  attempt(request: AcquireRequest, waiting: Waiting | undefined, draft?: PartsDraft): Promise<Outcome> {
    // Not an async function: its frame would cost as much as a take from memory.
    try {
      this.#lifecycle.requireOpen();
      // A draft is written in the store's transaction, which only the steps use.
      const outcome = draft ? undefined : (this.#fastPath(request, waiting) ?? this.#firstPlan(request, waiting));
      if (outcome !== undefined) return Promise.resolve(outcome);
    } catch (error) {
      return this.nearResources.rethrow(error, request);
    }
    return this.#bySteps(request, waiting, draft, undefined);
  }

  /** Tries only the fast path, for a request without subscribers. Undefined: nothing has happened, call `attempt`. */
  attemptAtOnce(request: AcquireRequest): Granted | undefined {
    return this.#lifecycle.isOpen && !this.publisher.isWatched ? this.#fastPath(request, undefined) : undefined;
  }

  /** One attempt, synchronously. */
  attemptSync(request: AcquireRequest): Outcome {
    this.#lifecycle.requireOpen();
    if (request?.wait !== undefined) throw notSync("tryAcquireSync cannot wait; leave `wait` out, or use tryAcquire.");
    const granted = this.#fastPath(request, undefined);
    if (granted !== undefined) return granted;
    if (this.#deps.scope.buckets.takeSync === undefined) {
      throw notSync(`The store ${this.#deps.store.name} cannot answer synchronously; use tryAcquire.`);
    }
    return runSync(this.#steps(request, "sync", undefined, undefined, undefined));
  }

  /** Takes more for a lease, by the limits it was taken under. Throws if the namespace is frozen. */
  async takeMore(claims: readonly Claim[], chain: LeaseChain, undecided?: Undecided): Promise<Taken> {
    try {
      await this.requireThawed(chain);
    } catch (error) {
      if (error instanceof RateLimiterUnavailable) return { kind: "unavailable", cause: error };
      throw error;
    }
    return this.client.takeMore(claims, chain, { generation: undefined, undecided });
  }

  /** Throws if the namespace of a lease is frozen. Answers the generation of configuration that says it is not. */
  async requireThawed([asker]: LeaseChain): Promise<number | undefined> {
    const { bucket } = asker as LeaseChain[number];
    let settings: Pick<ReadSettings, "frozen" | "generation">;
    try {
      const read = this.configCache.settings(bucket, this.#deps.clock.now());
      settings = read instanceof Promise ? await this.#inTime(read) : read;
    } catch (error) {
      if (error instanceof RateLimiterUnavailable) throw error;
      // The levels do not go together, or the limiter closes. The lease goes on, by what is known.
      settings = { frozen: this.configCache.lastSettings?.frozen, generation: undefined };
    }
    if (settings.frozen !== undefined) throw frozenError(bucket, settings.frozen);
    return settings.generation;
  }

  async #inTime<Value>(read: Promise<Value>): Promise<Value> {
    const deadline = deadlineAfter(this.#deps.clock, this.#settings.timeoutMs);
    try {
      return (await deadline.bound(read)) as Value;
    } finally {
      deadline.end();
    }
  }

  /** Publishes and counts a refused request, once: not for an attempt of a request that goes on waiting. `waitedMs` undefined: it did not. */
  refused(request: AcquireRequest, refusal: Refusal, waitedMs?: number): void {
    this.publisher.refused(request, refusal);
    // A request in shadow went on, so it is not counted as refused.
    if (!isInShadow(request)) this.refusals.counted(request, refusal, waitedMs);
  }

  /** The refusal of a request whose turn never came while it waited, read without taking. */
  async peek(request: AcquireRequest, waiting: Waiting): Promise<Outcome> {
    const { planner } = this;
    const askedMs = this.#deps.clock.now();
    let demands: Demand[] = [];
    try {
      demands = [...planner.demands(request, enabled(await planner.chain(request, askedMs, "question")))];
      for (const { consume, ...part } of alsoOf(request)) {
        const chain = await planner.chain(part, askedMs, "question");
        const { consume: _, ...others } = request;
        demands.push(...planner.demands({ ...others, ...given({ consume }) }, enabled(chain)));
      }
      // A request without amounts cannot be short and overtakes no other, so it need not wait for its turn.
      if (claimsOf(demands).length === 0) return await this.attempt(request, waiting);
      const { observed, nowMs } = await planner.observe(demands);
      const refusal = refusalOf(observed, demands, { askedMs: nowMs, toldMs: nowMs }, this.#deps.calendar);
      checkRefusal(refusal);
      return refusal;
    } catch (error) {
      if (error instanceof RateLimiterUnavailable) return this.unavailable(request, demands, error);
      if (!isByConfig(error) || !planner.isOutdated(demands.map(({ link }) => link))) throw error;
      this.configCache.expire();
      return this.peek(request, waiting);
    }
  }

  /** The end of a lease could not be stored. An outage was published before; anything else is published here. */
  notStored(request: AcquireRequest, error: unknown): void {
    if (error instanceof RateLimiterUnavailable) return;
    this.publisher.degraded(
      request,
      "lease_not_stored",
      `the end of a lease could not be stored: ${reasonOf(error)}`,
      error,
    );
  }

  /**
   * The steps for a plain request on a store in memory, without a plan and nearly without allocations. Undefined if the request is
   * not plain or not granted: nothing has happened then, and it goes through the steps.
   */
  #fastPath(request: AcquireRequest, waiting: Waiting | undefined): Granted | undefined {
    const buckets: BucketsMaybeInPlace = this.#deps.scope.buckets;
    if (buckets.takeOne === undefined) return undefined;
    const nowMs = this.#deps.clock.now();
    const link = this.planner.plainLink(request, nowMs);
    const take = link && this.planner.plainTake(request, link);
    if (link === undefined || take === undefined) return undefined;
    const answer = buckets.takeOne(link, take, nowMs, link.generation);
    if (answer === undefined) return undefined;
    const beside = besideBuckets(request.consume, link, take, undefined);
    return this.#granted(request, new SinglePart(link, take, answer, nowMs, beside), NO_PARTS, waiting);
  }

  /**
   * The first plan of the steps for a plain request on a store that answers with a promise, without the generator: that costs a fifth
   * of such a take. Undefined if the request is not plain: nothing has happened then.
   */
  #firstPlan(request: AcquireRequest, waiting: Waiting | undefined): Promise<Outcome> | undefined {
    const sinceRead = this.configCache.reads;
    const plan = this.planner.plainPlan(request);
    if (plan === undefined) return undefined;
    const { link, take } = plan.demands[0] as Demand;
    return this.client.takeThen(plan.claims, plan.demands, plan, (taken) => {
      if (taken.kind === "granted") {
        const answer = taken.answers[0] as TakenAnswer;
        const beside = besideBuckets(request.consume, link, take, undefined);
        const part = new SinglePart(link, take, answer, answer.readingMs ?? plan.nowMs, beside);
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

  /** An attempt, from the request to its outcome. `replanned` is given if its first plan met changed configuration. */
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
    // A question may have cached the chain of the totals, which would pass as a resource.
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
          if (hasWaited) deadline ??= deadlineAfter(this.#deps.clock, timeLeft(this.#settings, nowMs - startedMs));
          chain ??= yield* keptBy(deadline, this.configCache.chain(entityId, resource, nowMs, mode, how));
          if (request.also !== undefined)
            others = yield* keptBy(deadline, otherChains(this.configCache, request, { nowMs, mode, how }));
        } catch (error) {
          if (!(error instanceof RateLimiterUnavailable)) throw error;
          return this.#ended(request, this.unavailable(request, [], error), waiting);
        }
        const timeoutMs = timeLeft(this.#settings, hasWaited ? this.#deps.clock.now() - startedMs : 0);
        const plan = this.planner.planned(request, chain, others, { nowMs, timeoutMs, sinceRead });
        if (plan === "unsure") how = "consistent";
        if (plan === "stale" || plan === "unsure") continue;
        if (plan.ok === false) return this.#ended(request, plan, waiting);
        const unread = unreadIn(plan, chain, others, sinceRead);
        if (unread.length > 0) {
          this.configCache.expire(unread);
          how = "consistent";
          continue;
        }
        const answer = this.client.take(plan.claims, ownDemands(plan), drafting(plan, draft), mode);
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

  /** An attempt of a request that goes on waiting is not published. */
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
    this.publisher.acquired(request, part, others, waiting?.waitedMs());
    this.callers.granted(request.resource, part, others);
    return { ok: true, lease };
  }

  /** The outcome of a request that the store did not decide. Throws `RateLimiterUnavailable` if it is blocked. */
  unavailable(request: AcquireRequest, demands: readonly Demand[], cause: unknown, planned?: Plan): Outcome {
    const plan = planned ?? (this.#outages.needsPlan ? this.planner.lastPlan(request) : undefined);
    return this.#outages.outcome(request, { demands, plan }, cause);
  }
}

function notSync(message: string): ValidationError {
  return new ValidationError("sync_unsupported", message);
}
