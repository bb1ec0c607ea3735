import { bringLimits, freshBucket } from "../domain/bucket-state.ts";
import type { OnUnavailable } from "../domain/config.ts";
import { ConflictError, RateLimiterUnavailable, ValidationError } from "../domain/errors.ts";
import type { Limit } from "../domain/limit.ts";
import { checkEntityId, checkResource } from "../domain/names.ts";
import type { Claim, TakeContext, TakeReply } from "../ports/bucket-store.ts";
import { DenyMemory } from "./deny-memory.ts";
import { GivenLimits } from "./given-limits.ts";
import { Lease, type LeaseMaker } from "./lease.ts";
import { type Level, Levels } from "./levels.ts";
import { type Refusal, refusalOf, type Sight } from "./refusal.ts";
import { type AcquireRequest, checkRequest, type Demand, demandsOf } from "./request.ts";
import type { Settings, World } from "./settings.ts";
import { type Taken, Taker } from "./taker.ts";
import { reasonOf, Teller } from "./teller.ts";
import { WaitingRoom } from "./waiting.ts";

export interface Granted<Name extends string = string> {
  readonly ok: true;
  readonly lease: Lease<Name>;
}

export type Outcome<Name extends string = string> = Granted<Name> | Refusal;

/** A question about an entity on a resource that takes nothing. */
export interface Question {
  readonly entityId: string;
  readonly resource: string;
  /** Answer for these limits in place of the stored ones. */
  readonly limits?: readonly Limit[];
}

/** A request worked out against its chain; handed to the store as the context of its claims. */
interface Plan extends TakeContext {
  readonly request: AcquireRequest;
  readonly demands: readonly Demand[];
  readonly claims: readonly Claim[];
}

/** How often a plan is made anew because configuration changed under it, before giving up. */
const PLANS_MAX = 50;

/** The acquire loop: plan the chain, look in memory, ask the store, read its answers. */
export class Acquirer {
  readonly levels: Levels;
  readonly deny: DenyMemory;
  readonly room = new WaitingRoom();
  readonly #given = new GivenLimits();
  readonly #world: World;
  readonly #settings: Settings;
  readonly #taker: Taker;
  readonly #tell: Teller;
  readonly #maker: LeaseMaker;
  /** What the system level last said about outages: it cannot be asked during one. */
  #onUnavailable: OnUnavailable | undefined;

  constructor(world: World, settings: Settings) {
    this.#world = world;
    this.#settings = settings;
    this.levels = new Levels(world.scope.config, settings.configTtlMs);
    this.deny = new DenyMemory(settings.denyMemoryMs);
    this.#taker = new Taker(world, settings, this.deny, this.room);
    this.#tell = new Teller(world.events, settings);
    this.#maker = {
      taker: this.#taker,
      takeMore: (claims) => this.#takeMore(claims),
      allows: (level) => this.#allows(level),
      degraded: (level, reason, cause) => this.#tell.degraded(level.bucket, reason, cause),
    };
  }

  /** One attempt, without waiting for tokens. */
  async attempt(request: AcquireRequest): Promise<Outcome> {
    checkRequest(request);
    request.signal?.throwIfAborted();
    for (let plans = 0; plans < PLANS_MAX; plans++) {
      const nowMs = this.#world.clock.now();
      let chain = this.#known(request, nowMs);
      if (chain === undefined) {
        try {
          chain = await this.levels.chain(request.entityId, request.resource, nowMs);
        } catch (error) {
          if (!(error instanceof RateLimiterUnavailable)) throw error;
          // Not even the limits are known.
          return this.#unavailable(request, [], error);
        }
      }
      const plan = this.#planned(request, chain, nowMs);
      if (plan === "stale") continue;
      const remembered = this.#recalled(plan);
      if (remembered === "stale") continue;
      if (remembered !== undefined) return remembered;
      const sent = this.#sent(plan);
      const taken = sent instanceof Promise ? await sent : sent;
      if (taken.kind === "stale") {
        this.levels.expire();
        continue;
      }
      const outcome = this.#outcome(plan, taken);
      if (request.signal?.aborted) {
        if (outcome.ok) await outcome.lease.rollback();
        request.signal.throwIfAborted();
      }
      return outcome;
    }
    throw restless(request);
  }

  /** One attempt, synchronously. */
  attemptSync(request: AcquireRequest): Outcome {
    const { buckets } = this.#world.scope;
    if (buckets.takeSync === undefined) {
      throw new ValidationError(
        "sync_unsupported",
        `The store ${this.#world.store.name} cannot answer synchronously; use tryAcquire.`,
      );
    }
    checkRequest(request);
    request.signal?.throwIfAborted();
    for (let plans = 0; plans < PLANS_MAX; plans++) {
      const nowMs = this.#world.clock.now();
      let chain = this.#known(request, nowMs);
      try {
        chain ??= this.levels.chainSync(request.entityId, request.resource, nowMs);
      } catch (error) {
        if (!(error instanceof RateLimiterUnavailable)) throw error;
        return this.#unavailable(request, [], error);
      }
      const plan = this.#planned(request, chain, nowMs);
      if (plan === "stale") continue;
      const remembered = this.#recalled(plan);
      if (remembered === "stale") continue;
      if (remembered !== undefined) return remembered;
      const taken = this.#taker.conclude(plan.claims, buckets.takeSync(plan.claims, plan), nowMs);
      if (taken instanceof Promise) throw new TypeError("A store that takes synchronously must take all or nothing.");
      if (taken.kind === "stale") this.levels.expire();
      else return this.#outcome(plan, taken);
    }
    throw restless(request);
  }

  /** How a request stands, without taking: for one whose turn never came while it waited. */
  async peek(request: AcquireRequest): Promise<Outcome> {
    const nowMs = this.#world.clock.now();
    let demands: readonly Demand[] = [];
    try {
      demands = demandsOf(request, await this.chain(request, nowMs));
      // Where nothing is asked for nothing can be short, and nobody is overtaken.
      if (claimsOf(demands).length === 0) return await this.attempt(request);
      const refusal = refusalOf(await this.sights(demands, nowMs), nowMs, nowMs);
      this.#tell.refused(request, refusal, false);
      return refusal;
    } catch (error) {
      if (!(error instanceof RateLimiterUnavailable)) throw error;
      return this.#unavailable(request, demands, error);
    }
  }

  /** The levels that a question is about, as configuration has them now. */
  async chain(question: Question, nowMs: number): Promise<readonly Level[]> {
    let chain = this.#known(question, nowMs);
    if (chain !== undefined && this.#outdated(chain)) {
      this.levels.expire();
      chain = undefined;
    }
    chain ??= await this.levels.chain(question.entityId, question.resource, nowMs);
    if (question.limits === undefined) return chain;
    const [entity, ...parents] = chain as [Level, ...Level[]];
    return [this.#given.standIn(entity, question.limits, nowMs), ...parents];
  }

  /** The buckets of a chain as they are stored, with the limits of now brought to them in thought. */
  async sights(demands: readonly Demand[], nowMs: number): Promise<Sight[]> {
    const states = await this.#world.scope.buckets.read(demands.map(({ level }) => level.bucket));
    return demands.map(({ level: { bucket, set, origin }, take }, i) => {
      const stored = states[i];
      const state = stored === undefined ? freshBucket(set, origin, nowMs) : bringLimits(stored, set, origin, nowMs);
      return { bucket, state, take, taken: false };
    });
  }

  #known(question: Question, nowMs: number): Level[] | undefined {
    if (typeof question.entityId === "string" && typeof question.resource === "string") {
      const chain = this.levels.chainKnown(question.entityId, question.resource, nowMs);
      // What is remembered was checked when it was read.
      if (chain !== undefined) return chain;
    }
    checkEntityId(question.entityId);
    checkResource(question.resource);
    return undefined;
  }

  /** The plan; or `stale`, when the levels it would be made of, remembered at different times, do not belong together. */
  #planned(request: AcquireRequest, chain: readonly Level[], nowMs: number): Plan | "stale" {
    const { generation } = chain[0] as Level;
    for (let i = 1; i < chain.length; i++) {
      if (chain[i]?.generation === generation) continue;
      this.levels.expire();
      return "stale";
    }
    try {
      return this.#plan(request, chain, nowMs);
    } catch (error) {
      // Nobody is told that a limit is unknown, or too low, by configuration that is known to be old.
      if (!(error instanceof ValidationError) || !this.#outdated(chain)) throw error;
      this.levels.expire();
      return "stale";
    }
  }

  #plan(request: AcquireRequest, chain: readonly Level[], nowMs: number): Plan {
    const entity = chain[0] as Level;
    this.#onUnavailable = entity.onUnavailable;
    const first =
      request.limits === undefined
        ? this.#given.stored(entity, nowMs)
        : this.#given.standIn(entity, request.limits, nowMs);
    const demands = demandsOf(request, first === entity ? chain : [first, ...chain.slice(1)]);
    return {
      request,
      demands,
      claims: claimsOf(demands),
      nowMs,
      timeoutMs: this.#settings.timeoutMs,
      generation: entity.generation,
      atomic: request.atomic === true,
      signal: request.signal,
    };
  }

  #recalled(plan: Plan): Refusal | "stale" | undefined {
    const sights = this.deny.recall(plan.claims, plan.nowMs);
    if (sights === undefined) return undefined;
    // Raised limits count at once where the store can tell.
    if (this.#outdated(plan.demands.map(({ level }) => level))) {
      this.levels.expire();
      this.deny.clear();
      return "stale";
    }
    const refusal = refusalOf(sights, plan.nowMs, plan.nowMs);
    this.#tell.refused(plan.request, refusal, true);
    return refusal;
  }

  #outdated(levels: readonly Level[]): boolean {
    const generation = this.#world.scope.config.generation();
    return levels.some((level) => level.generation !== generation);
  }

  #sent(plan: Plan): Taken | Promise<Taken> {
    if (plan.claims.length === 0) return { kind: "granted", answers: [] };
    const reply = this.#world.scope.buckets.take(plan.claims, plan);
    if (!(reply instanceof Promise)) return this.#taker.conclude(plan.claims, reply, plan.nowMs);
    return this.#answered(plan, reply);
  }

  async #answered({ claims, nowMs }: Plan, reply: Promise<TakeReply>): Promise<Taken> {
    try {
      return await this.#taker.conclude(claims, await reply, nowMs);
    } catch (error) {
      if (error instanceof RateLimiterUnavailable) return { kind: "unavailable", cause: error };
      throw error;
    }
  }

  // A lease goes on where it was taken, by the limits it was taken under, whatever configuration says meanwhile.
  async #takeMore(claims: readonly Claim[]): Promise<Taken> {
    const nowMs = this.#world.clock.now();
    const context = {
      nowMs,
      timeoutMs: this.#settings.timeoutMs,
      generation: undefined,
      atomic: false,
      signal: undefined,
    };
    const reply = this.#world.scope.buckets.take(claims, context);
    try {
      return await this.#taker.conclude(claims, await reply, nowMs);
    } catch (error) {
      if (error instanceof RateLimiterUnavailable) return { kind: "unavailable", cause: error };
      throw error;
    }
  }

  #outcome({ request, demands }: Plan, taken: Exclude<Taken, { kind: "stale" }>): Outcome {
    switch (taken.kind) {
      case "granted": {
        const lease = new Lease(this.#maker, demands, taken.answers, false);
        this.#tell.acquired(request, lease);
        return { ok: true, lease };
      }
      case "refused":
        this.#tell.refused(request, taken.refusal, false);
        return taken.refusal;
      case "unavailable":
        return this.#unavailable(request, demands, taken.cause);
    }
  }

  #unavailable(request: AcquireRequest, demands: readonly Demand[], cause: unknown): Granted {
    const { entityId, resource } = request;
    if (!this.#allows(demands[0]?.level)) {
      throw new RateLimiterUnavailable(
        `The limiter could not be reached for ${entityId} on ${resource}: ${reasonOf(cause)}. ` +
          'Try again, or let work through meanwhile with onUnavailable: "allow".',
        { cause },
      );
    }
    const reason = `the store was unavailable: ${reasonOf(cause)}`;
    this.#tell.degraded(request, reason, cause);
    return { ok: true, lease: new Lease(this.#maker, demands, [], reason) };
  }

  #allows(level: Level | undefined): boolean {
    return (this.#settings.onUnavailable ?? level?.onUnavailable ?? this.#onUnavailable) === "allow";
  }
}

/** A level of which nothing is wanted is not asked; it stays in the plan, for it may be adjusted later. */
function claimsOf(demands: readonly Demand[]): readonly Demand[] {
  for (let i = 0; i < demands.length; i++) {
    if (demands[i]?.take.length === 0) return demands.filter(({ take }) => take.length > 0);
  }
  return demands;
}

function restless({ entityId, resource }: AcquireRequest): ConflictError {
  return new ConflictError(
    "config_restless",
    `The limits of ${entityId} on ${resource} changed ${PLANS_MAX} times while they were being applied; try again.`,
  );
}
