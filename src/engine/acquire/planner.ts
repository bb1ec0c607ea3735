import type { ChargeRules } from "../../domain/charge/charges.ts";
import { howLeavingOut } from "../../domain/charge/leaving-out.ts";
import { entityMissing } from "../../domain/config/entity.ts";
import { ValidationError } from "../../domain/names/errors.ts";
import { checkBucketResource } from "../../domain/names/names.ts";
import { runAsync } from "../../domain/steps.ts";
import type { Lifecycle } from "../limiter/lifecycle.ts";
import { knownChain, type Question } from "../limiter/question.ts";
import type { EngineDeps, Settings } from "../limiter/settings.ts";
import type { Outages } from "../outage/outage.ts";
import { type Observation, type Refusal, refusalOf, remembered } from "../refusal/refusal.ts";
import type { ChainLink, ConfigCache } from "./config-cache.ts";
import type { DenyMemory } from "./deny-memory.ts";
import { observed } from "./observed.ts";
import { lastChains } from "./other-chains.ts";
import {
  enabled,
  isByConfig,
  isOneReading,
  notJustRead,
  type PartChain,
  PLANS_MAX,
  type Plan,
  type Planned,
  type PlanTime,
  planOf,
  takable,
} from "./plan.ts";
import {
  type AcquireRequest,
  type Asked,
  checkRefusal,
  checkRequest,
  type Demand,
  demandsFor,
  neverIn,
} from "./request.ts";
import type { Purpose, RequestLimits } from "./request-limits.ts";
import type { Taken } from "./store-client.ts";
import { type UnnamedRules, unnamedRules } from "./unnamed-limits.ts";

const NO_LINKS: readonly ChainLink[] = [];

/** What a planner goes by; the acquirer's own. */
interface PlannerParts {
  readonly deps: EngineDeps;
  readonly settings: Settings;
  readonly lifecycle: Lifecycle;
  readonly configCache: ConfigCache;
  readonly requestLimits: RequestLimits;
  readonly deny: DenyMemory;
  /** Hears whether the entity's configuration lets requests pass during an outage. */
  readonly outages: Pick<Outages, "noteStored">;
}

/** Makes plans of requests and questions, by configuration and by what is remembered. It asks no bucket, but for `observe`. */
export class Planner {
  readonly #parts: PlannerParts;
  readonly #deps: EngineDeps;
  readonly #settings: Settings;
  readonly rules: UnnamedRules;

  constructor(parts: PlannerParts) {
    this.#parts = parts;
    this.#deps = parts.deps;
    this.#settings = parts.settings;
    this.rules = unnamedRules(parts.deps, parts.settings);
  }

  /**
   * The plan; or the refusal that memory already knows; or `stale`, when configuration has changed: the links it would be
   * made of, remembered at different times, do not belong together; or `unsure`, when it would be told off by what is remembered.
   */
  planned(request: AcquireRequest, chain: readonly ChainLink[], others: readonly PartChain[], at: PlanTime): Planned {
    if ((chain.length > 1 || others.length > 0) && !isOneReading(chain, others)) {
      this.#parts.configCache.expire();
      return "stale";
    }
    try {
      const plan = this.#plan(request, chain, others, at, this.rules.take);
      return this.#recalled(plan) ?? plan;
    } catch (error) {
      // Configuration that is known to be out of date must not decide that a limit is unknown or too low, or a resource off.
      if (!isByConfig(error)) throw error;
      if (this.isOutdated(chain)) {
        this.#parts.configCache.expire();
        return "stale";
      }
      // Where only an answer of the store tells of changes, another process may have made some since they were read.
      if (!(error instanceof ValidationError)) throw error;
      const unread = this.#knowsAtOnce() ? NO_LINKS : notJustRead(chain, others, at.sinceRead);
      if (unread.length > 0) {
        this.#parts.configCache.expire(unread);
        return "unsure";
      }
      const leaving = howLeavingOut(request);
      if (error.code !== "limit_unknown" || leaving === undefined) throw error;
      const plan = this.#plan(request, chain, others, at, this.rules[leaving]);
      return this.#recalled(plan) ?? plan;
    }
  }

  #plan(
    request: AcquireRequest,
    chain: readonly ChainLink[],
    others: readonly PartChain[],
    at: PlanTime,
    rules: ChargeRules,
  ): Plan {
    const entity = chain[0] as ChainLink;
    this.#requireCreated(entity);
    this.#parts.outages.noteStored(entity.onUnavailable);
    enabled(chain);
    for (const other of others) enabled(other.chain);
    const inForce = (one: readonly ChainLink[], limits: AcquireRequest["limits"]) =>
      this.#parts.requestLimits.inForce(one, limits, at.nowMs, "write");
    const further = others.map((other) => ({ ...other, chain: inForce(other.chain, undefined) }));
    return takable(planOf(request, inForce(chain, request.limits), further, at, rules), this.#deps.store);
  }

  isUnknown({ created }: ChainLink): boolean {
    return !created && this.#settings.unknownEntities === "refuse";
  }

  #requireCreated(link: ChainLink): void {
    if (!this.isUnknown(link)) return;
    // Another process may create it at any time, and must not have to wait until this one forgets that it was not there.
    this.#parts.configCache.expire([link]);
    throw entityMissing(link.bucket.entityId);
  }

  #recalled(plan: Plan): Refusal | "stale" | undefined {
    const observed = this.#parts.deny.recall(plan.claims, plan.nowMs);
    if (observed === undefined && plan.claims.length > 0) return undefined;
    // The store is not asked, so it cannot tell that limits were raised, or that a resource was disabled.
    if (this.isOutdated(plan.demands.map(({ link }) => link))) {
      this.#parts.configCache.expire();
      this.#parts.deny.clear();
      return "stale";
    }
    if (observed === undefined) return undefined;
    const refusal = refusalOf(observed, plan.demands, { askedMs: plan.nowMs, toldMs: plan.nowMs }, this.#deps.calendar);
    checkRefusal(refusal);
    return remembered(refusal);
  }

  /**
   * What the store made of a plan; `stale`, where a refusal would be thrown as one for ever by configuration that another process may
   * have changed since it was read. Where changes are counted, the store has compared.
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

  /** By configuration that was read before the outage, however old; undefined where it is not known. */
  lastPlan(request: AcquireRequest): Plan | undefined {
    const known = lastChains(this.#parts.configCache, request);
    if (known === undefined) return undefined;
    const at = { nowMs: this.#deps.clock.now(), timeoutMs: this.#settings.timeoutMs, sinceRead: 0 };
    const rules = this.rules[howLeavingOut(request) ?? "take"];
    return this.#plan(request, known.chain, known.others, at, rules);
  }

  /** The chain that a question is about, as configuration is stored now: no bucket will tell that what is remembered has changed. */
  async chain(question: Question, nowMs: number, purpose: Purpose): Promise<readonly ChainLink[]> {
    this.#parts.lifecycle.requireOpen();
    checkRequest(question);
    const chain = await this.#chainNow(question, nowMs);
    this.#requireCreated(chain[0] as ChainLink);
    return this.#parts.requestLimits.inForce(chain, question.limits, nowMs, purpose);
  }

  async #chainNow(question: Question, nowMs: number): Promise<readonly ChainLink[]> {
    const { configCache } = this.#parts;
    const { config } = this.#deps.scope;
    const sinceRead = configCache.reads;
    // Names that are none are told before anything is asked.
    let chain = knownChain(configCache, question, nowMs, checkBucketResource);
    if (config.askGeneration !== undefined) await config.askGeneration();
    // Where the store counts no changes, only reading tells.
    const how = config.generation() === undefined ? "consistent" : "any";
    if (how === "consistent") chain = undefined;
    for (let tries = 1; ; tries++) {
      chain ??= await runAsync(
        configCache.chain(question.entityId, question.resource, nowMs, "async", how, how === "any" ? 0 : sinceRead),
      );
      // Also a parent may be remembered from before a change.
      if (!this.isOutdated(chain) || tries === PLANS_MAX) return chain;
      configCache.expire();
      chain = undefined;
    }
  }

  /** What an acquire of the amounts would take from a chain, level by level. */
  demands(asked: Asked, chain: readonly ChainLink[]): readonly Demand[] {
    return demandsFor(asked, chain, this.rules[howLeavingOut(asked) ?? "question"]);
  }

  /** The buckets of a chain as they are stored, with the limits of now brought to them in thought. */
  observe(demands: readonly Demand[]): Promise<Observation> {
    return observed(this.#deps, demands);
  }
}
