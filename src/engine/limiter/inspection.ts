import { wholeTokens } from "../../bucket/level.ts";
import { isIdle } from "../../domain/bucket/bucket-questions.ts";
import { acrossBoundaries, availableMilli, findLimit } from "../../domain/bucket/bucket-state.ts";
import { amountsOf } from "../../domain/charge/amounts.ts";
import { noLimits } from "../../domain/charge/charge-errors.ts";
import {
  HOUR_MS,
  type UsageSnapshot,
  type UsageSummary,
  UsageTally,
  type UsageTotal,
} from "../../domain/charge/usage.ts";
import { exportedUsage, type UsageFormat } from "../../domain/charge/usage-export.ts";
import { TOTAL_RESOURCE } from "../../domain/config/totals.ts";
import { ValidationError } from "../../domain/names/errors.ts";
import { KnownNames } from "../../domain/names/known-names.ts";
import { checkLimitName, checkResource, shown } from "../../domain/names/names.ts";
import type { Page, PageRequest } from "../../domain/names/paging.ts";
import { sortedByTurns } from "../../domain/names/sorting.ts";
import { runAsync } from "../../domain/steps.ts";
import type { Acquirer } from "../acquire/acquirer.ts";
import type { ChainLink } from "../acquire/config-cache.ts";
import type { GuardedDeps } from "../acquire/guarded-deps.ts";
import { disabledIn } from "../acquire/plan.ts";
import { demandOf, withTotals } from "../acquire/request.ts";
import { fitsAtMs } from "../refusal/refusal.ts";
import { type Availability, availabilityOf } from "./availability.ts";
import { type Listing, type ListOptions, listing } from "./listing.ts";
import type { Question, RequestQuestion } from "./question.ts";
import { type UsageRequest, usageQuery } from "./usage-query.ts";

export type { UsageRequest } from "./usage-query.ts";

/** What all buckets of a resource hold of one limit. */
export interface ResourceCapacity {
  /** The resource. */
  readonly resource: string;
  /** The limit's name. */
  readonly limit: string;
  /**
   * Capacity of the entities below that are not charged to another one of the list. A child takes from the tokens of
   * its parent, so it adds nothing.
   */
  readonly totalCapacity: number;
  /** Whole tokens that these entities hold. */
  readonly totalAvailable: number;
  /** How much of the capacity is taken, in percent. */
  readonly utilizationPct: number;
  /** Each entity that has a bucket. */
  readonly entities: readonly {
    /** Its id. */
    readonly entityId: string;
    /** Whole tokens: the most its bucket holds at present. */
    readonly capacity: number;
    /** Whole tokens that it holds. */
    readonly available: number;
    /** How much of the capacity is taken, in percent. */
    readonly utilizationPct: number;
    /** The parent in this list that it is charged to. The totals count the parent and leave this one out. */
    readonly within?: string;
  }[];
}

const USAGE_REQUEST = new KnownNames<UsageRequest & ListOptions>({
  ...{ entityId: true, resource: true, window: true, fromMs: true, toMs: true },
  ...{ limit: true, cursor: true },
});

/** Questions that change nothing. */
export class Inspection {
  readonly #deps: GuardedDeps;
  readonly #acquirer: Acquirer;

  constructor(deps: GuardedDeps, acquirer: Acquirer) {
    this.#deps = deps;
    this.#acquirer = acquirer;
  }

  async available(question: Question): Promise<Availability[]> {
    const chain = withTotals(await this.#acquirer.planner.chain(question, this.#deps.clock.now(), "question"));
    if (chain.every(({ charged }) => charged.limits.length === 0)) throw noLimits(chain);
    const { observed, nowMs } = await this.#acquirer.planner.observe(chain.map((link) => demandOf(link, [], false)));
    return observed.flatMap(({ state }, i) => availabilityOf(chain[i] as ChainLink, state, nowMs));
  }

  async timeUntilAvailable(question: RequestQuestion): Promise<number> {
    const { planner } = this.#acquirer;
    const chain = await planner.chain(question, this.#deps.clock.now(), "question");
    // What is no amount is none, whatever is switched off.
    amountsOf(question.consume ?? {}, "consume");
    if (disabledIn(chain) !== undefined) return Number.POSITIVE_INFINITY;
    const { observed, nowMs } = await planner.observe(planner.demands(question, chain));
    return fitsAtMs(observed, nowMs, this.#deps.calendar) - nowMs;
  }

  async isAvailable(): Promise<boolean> {
    try {
      await this.#deps.store.ping();
      return true;
    } catch {
      return false;
    }
  }

  usage(request: UsageRequest & ListOptions): Listing<UsageSnapshot> {
    const { limit, cursor, ...about } = USAGE_REQUEST.check(request, "The query of usage");
    const query = usageQuery(about, this.#deps.clock.now());
    // A total is charged what its resources are charged: sums over all of them leave it out, and who asks for it by name is shown it.
    const isShown = ({ resource }: UsageSnapshot) => query.resource !== undefined || resource !== TOTAL_RESOURCE;
    const asked = async (page: PageRequest): Promise<Page<UsageSnapshot>> => {
      const found = await this.#deps.scope.usage.query(query, page);
      return { ...found, items: found.items.filter(isShown) };
    };
    return listing(asked, {
      ...(limit === undefined ? {} : { limit }),
      ...(cursor === undefined ? {} : { cursor }),
    });
  }

  async usageSummary(request: UsageRequest): Promise<UsageSummary> {
    const tally = new UsageTally();
    for await (const snapshot of this.usage(request)) tally.add(snapshot);
    return tally.summary();
  }

  async usageTotals(request: UsageRequest & { readonly by: "entity" | "resource" }): Promise<UsageTotal[]> {
    const { by, ...query } = request;
    if (by !== "entity" && by !== "resource") {
      throw new ValidationError("option_invalid", `by is ${shown(by)}; give "entity" or "resource".`);
    }
    const tallies = new Map<string, UsageTally>();
    for await (const snapshot of this.usage(query)) {
      const name = by === "entity" ? snapshot.entityId : snapshot.resource;
      const tally = tallies.get(name) ?? new UsageTally();
      tallies.set(name, tally);
      tally.add(snapshot);
    }
    const { turns } = this.#deps;
    const totals: UsageTotal[] = [];
    for (const name of await sortedByTurns(
      tallies.keys(),
      (a, b) => (a < b ? -1 : 1),
      () => turns.next(),
    )) {
      const summary = (tallies.get(name) as UsageTally).summary();
      totals.push(by === "entity" ? { entityId: name, ...summary } : { resource: name, ...summary });
      if (totals.length % TOTALS_PER_TURN === 0) await turns.next();
    }
    return totals;
  }

  exportUsage(request: UsageRequest & { readonly format: UsageFormat }): AsyncIterable<string> {
    const { format, ...query } = request;
    return exportedUsage(this.usage(query), format);
  }

  async resourceCapacity(resource: string, limitName: string): Promise<ResourceCapacity> {
    checkResource(resource);
    checkLimitName(limitName);
    const nowMs = this.#deps.clock.now();
    const held: ResourceCapacity["entities"][number][] = [];
    const buckets = listing((page) => this.#deps.bucketLists.listByResource(resource, page), {});
    for await (const { key, state: stored, expires } of buckets) {
      if (expires && isIdle(stored, HOUR_MS, nowMs, this.#deps.calendar)) continue;
      // Resets and windows count from their instant on, whether or not anybody has come since.
      const state = acrossBoundaries(stored, nowMs, this.#deps.calendar);
      const limit = findLimit(state, limitName);
      if (limit === undefined || !limit.configured) continue;
      const capacity = wholeTokens(limit.terms.capacityMilli);
      const available = wholeTokens(availableMilli(state, limit, nowMs));
      held.push({ entityId: key.entityId, capacity, available, utilizationPct: usedPct(capacity, available) });
    }
    const entities = await this.#nested(held, resource, nowMs);
    const apart = entities.filter(({ within }) => within === undefined);
    const totalCapacity = apart.reduce((sum, entity) => sum + entity.capacity, 0);
    const totalAvailable = apart.reduce((sum, entity) => sum + entity.available, 0);
    return {
      resource,
      limit: limitName,
      totalCapacity,
      totalAvailable,
      utilizationPct: usedPct(totalCapacity, totalAvailable),
      entities,
    };
  }

  /** The same, each with the nearest of the others that it is charged to. */
  async #nested<Held extends { readonly entityId: string }>(
    all: readonly Held[],
    resource: string,
    nowMs: number,
  ): Promise<(Held & { readonly within?: string })[]> {
    if (all.length < 2) return [...all];
    const listed = new Set(all.map(({ entityId }) => entityId));
    const nested: (Held & { readonly within?: string })[] = [];
    for (let from = 0; from < all.length; from += CHAINS_AT_ONCE) {
      // A store that answers at once would keep the thread until all are read.
      if (from % CHAINS_PER_TURN === 0) await this.#deps.turns.next();
      const some = all.slice(from, from + CHAINS_AT_ONCE).map(async (one) => {
        const chain = this.#acquirer.configCache.chain(one.entityId, resource, nowMs, "async", "any");
        const [, ...parents] = await runAsync(chain);
        const within = parents.find(({ bucket }) => listed.has(bucket.entityId))?.bucket.entityId;
        return within === undefined ? one : { ...one, within };
      });
      nested.push(...(await Promise.all(some)));
    }
    return nested;
  }
}

/** How many sums are made before other work has its turn. */
const TOTALS_PER_TURN = 1_000;

/** How many chains are read at the same time, where they have to be read over a network. */
const CHAINS_AT_ONCE = 16;
/** How many are read before other work has its turn. */
const CHAINS_PER_TURN = 4 * CHAINS_AT_ONCE;

function usedPct(capacity: number, available: number): number {
  // Multiplied first: 29 of 100 are 29, not 28.999999999999996.
  return capacity === 0 ? 0 : ((capacity - available) * 100) / capacity;
}
