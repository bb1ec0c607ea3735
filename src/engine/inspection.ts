import { wholeTokens } from "../bucket/level.ts";
import type { Tokens } from "../domain/amounts.ts";
import { acrossBoundaries, availableMilli, findLimit } from "../domain/bucket-state.ts";
import { ValidationError } from "../domain/errors.ts";
import { checkEntityId, checkLimitName, checkResource, shown } from "../domain/names.ts";
import { summarize, type UsageSnapshot, type UsageSummary, type UsageWindow, windowStartMs } from "../domain/usage.ts";
import type { UsageQuery } from "../ports/usage-store.ts";
import type { Acquirer, Question } from "./acquirer.ts";
import { type Listing, type ListOptions, listing } from "./listing.ts";
import { fitsAtMs } from "./refusal.ts";
import { demandOf, demandsOf, noLimits } from "./request.ts";
import type { EngineDeps } from "./settings.ts";

/** What one limit of one level holds. Whole tokens; `available` is negative in debt. */
export interface Availability {
  /** The entity, or a parent of it. */
  readonly entityId: string;
  /** On which resource. */
  readonly resource: string;
  /** The limit's name. */
  readonly limit: string;
  /** Whole tokens, negative in debt. */
  readonly available: number;
  /** Whole tokens: the most it holds at present. */
  readonly capacity: number;
}

/** Which usage is asked for. */
export interface UsageRequest {
  /** Absent: of all. */
  readonly entityId?: string;
  /** Absent: of all. */
  readonly resource?: string;
  /** How long each window is. */
  readonly window: UsageWindow;
  /** The window that contains this instant is the first; absent: from the beginning. */
  readonly fromMs?: number;
  /** Windows that start before this instant; absent: to the end. */
  readonly toMs?: number;
}

/** What all buckets of a resource hold of one limit. */
export interface ResourceCapacity {
  /** Which resource. */
  readonly resource: string;
  /** The limit's name. */
  readonly limit: string;
  /** Whole tokens. */
  readonly totalCapacity: number;
  /** Whole tokens. */
  readonly totalAvailable: number;
  /** How much of the capacity is taken, in percent. */
  readonly utilizationPct: number;
  /** Each entity with a bucket. */
  readonly entities: readonly {
    readonly entityId: string;
    readonly capacity: number;
    readonly available: number;
    readonly utilizationPct: number;
  }[];
}

/** Questions that change nothing. */
export class Inspection {
  readonly #deps: EngineDeps;
  readonly #acquirer: Acquirer;

  constructor(deps: EngineDeps, acquirer: Acquirer) {
    this.#deps = deps;
    this.#acquirer = acquirer;
  }

  async available(question: Question): Promise<Availability[]> {
    const nowMs = this.#deps.clock.now();
    const chain = await this.#acquirer.chain(question, nowMs);
    if (chain[0]?.set.limits.length === 0) throw noLimits(question.entityId, question.resource);
    const observed = await this.#acquirer.observe(
      chain.map((link) => demandOf(link, [], false)),
      nowMs,
    );
    return observed.flatMap(({ bucket, state }, i) =>
      (chain[i]?.set.limits ?? []).flatMap(({ name }) => {
        const limit = findLimit(state, name);
        if (limit === undefined) return [];
        return [
          {
            entityId: bucket.entityId,
            resource: bucket.resource,
            limit: name,
            available: wholeTokens(availableMilli(state, limit, nowMs)),
            capacity: wholeTokens(limit.terms.capacityMilli),
          },
        ];
      }),
    );
  }

  async timeUntilAvailable(question: Question & { readonly consume: Tokens }): Promise<number> {
    const nowMs = this.#deps.clock.now();
    const chain = await this.#acquirer.chain(question, nowMs);
    try {
      const observed = await this.#acquirer.observe(demandsOf(question.consume, chain), nowMs);
      return fitsAtMs(observed, nowMs, this.#deps.calendar) - nowMs;
    } catch (error) {
      if (error instanceof ValidationError && error.code === "amount_above_capacity") return Number.POSITIVE_INFINITY;
      throw error;
    }
  }

  usage(request: UsageRequest, options: ListOptions): Listing<UsageSnapshot> {
    const query = usageQuery(request);
    return listing((page) => this.#deps.scope.usage.query(query, page), options);
  }

  async usageSummary(request: UsageRequest): Promise<UsageSummary> {
    const snapshots: UsageSnapshot[] = [];
    for await (const snapshot of this.usage(request, {})) snapshots.push(snapshot);
    return summarize(snapshots);
  }

  async resourceCapacity(resource: string, limitName: string): Promise<ResourceCapacity> {
    checkResource(resource);
    checkLimitName(limitName);
    const nowMs = this.#deps.clock.now();
    const entities: ResourceCapacity["entities"][number][] = [];
    const buckets = listing((page) => this.#deps.scope.buckets.listByResource(resource, page), {});
    for await (const { key, state: stored } of buckets) {
      // Resets and windows count from their instant on, whether or not anybody has come since.
      const state = acrossBoundaries(stored, nowMs, this.#deps.calendar);
      const limit = findLimit(state, limitName);
      if (limit === undefined || !limit.configured) continue;
      const capacity = wholeTokens(limit.terms.capacityMilli);
      const available = wholeTokens(availableMilli(state, limit, nowMs));
      entities.push({ entityId: key.entityId, capacity, available, utilizationPct: usedPct(capacity, available) });
    }
    const totalCapacity = entities.reduce((sum, entity) => sum + entity.capacity, 0);
    const totalAvailable = entities.reduce((sum, entity) => sum + entity.available, 0);
    return {
      resource,
      limit: limitName,
      totalCapacity,
      totalAvailable,
      utilizationPct: usedPct(totalCapacity, totalAvailable),
      entities,
    };
  }
}

function usedPct(capacity: number, available: number): number {
  return capacity === 0 ? 0 : ((capacity - available) / capacity) * 100;
}

function usageQuery(request: UsageRequest): UsageQuery {
  const { entityId, resource, window, fromMs, toMs } = request;
  if (window !== "hourly" && window !== "daily" && window !== "monthly") {
    throw new ValidationError("window_invalid", `window is ${shown(window)}; give "hourly", "daily" or "monthly".`);
  }
  for (const [name, value] of Object.entries({ fromMs, toMs })) {
    if (value !== undefined && (typeof value !== "number" || Number.isNaN(value))) {
      throw new ValidationError("instant_invalid", `${name} is ${shown(value)}; give milliseconds since 1970.`);
    }
  }
  return {
    ...(entityId === undefined ? {} : { entityId: checkEntityId(entityId) }),
    ...(resource === undefined ? {} : { resource: checkResource(resource) }),
    window,
    fromMs: fromMs === undefined || !Number.isFinite(fromMs) ? 0 : windowStartMs(window, fromMs),
    toMs: toMs ?? Number.MAX_SAFE_INTEGER,
  };
}
