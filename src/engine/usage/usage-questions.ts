import {
  type UsageSnapshot,
  type UsageSummary,
  UsageTally,
  type UsageTotal,
  type UsageUnderTotals,
} from "../../domain/charge/usage.ts";
import { exportedUsage, type UsageFormat } from "../../domain/charge/usage-export.ts";
import { TOTAL_RESOURCE } from "../../domain/config/totals.ts";
import { ValidationError } from "../../domain/names/errors.ts";
import { given } from "../../domain/names/given.ts";
import { KnownNames, requireOption } from "../../domain/names/known-names.ts";
import { shown } from "../../domain/names/names.ts";
import type { Page, PageRequest } from "../../domain/names/paging.ts";
import { sortedByTurns } from "../../domain/names/sorting.ts";
import type { UsageQuery } from "../../ports/usage-store.ts";
import type { LimiterParts } from "../limiter/limiter-parts.ts";
import { type Listing, type ListOptions, listing, type UsageRequest, usageQuery } from "../limiter/listing.ts";
import { joinedPage, type WhichOfBook } from "./joined-usage.ts";

/** Whether rows of totals are wanted, too. */
export interface WithTotals {
  /** Whether rows of totals over all resources (`"*"`) are among the others. They repeat what resources count. Default: `false`. */
  readonly totals?: boolean;
}

const USAGE_REQUEST = new KnownNames<UsageRequest & WithTotals & ListOptions>({
  ...{ entityId: true, resource: true, window: true, tz: true, fromMs: true, toMs: true },
  ...{ totals: true, limit: true, cursor: true },
});

const SUM_REQUEST = new KnownNames<UsageRequest & ListOptions>({
  ...{ entityId: true, resource: true, window: true, tz: true, fromMs: true, toMs: true },
  ...{ limit: true, cursor: true },
});

export function usage(parts: LimiterParts, request: UsageRequest & WithTotals & ListOptions): Listing<UsageSnapshot> {
  const { limit, cursor, totals, ...about } = USAGE_REQUEST.check(request, "The query of usage");
  requireOption("totals", totals, totals === undefined || typeof totals === "boolean", "true or false");
  const query = usageQuery(about, parts.deps);
  // A total repeats the charges of its resources.
  const isShown = query.resource !== undefined || totals === true ? undefined : isOnResource;
  return rowsOf(parts, query, "all", isShown, given({ limit, cursor }));
}

function isOnResource({ resource }: UsageSnapshot): boolean {
  return resource !== TOTAL_RESOURCE;
}

function rowsOf(
  { deps, acquirer }: LimiterParts,
  query: UsageQuery,
  which: WhichOfBook,
  isShown: ((row: UsageSnapshot) => boolean) | undefined,
  options: ListOptions,
): Listing<UsageSnapshot> {
  const { pages } = acquirer.callers;
  const buckets = async (page: PageRequest): Promise<Page<UsageSnapshot>> => {
    const found = await deps.scope.usage.query(query, page);
    return isShown === undefined ? found : { ...found, items: found.items.filter(isShown) };
  };
  // Totals are counted by their buckets alone.
  if (pages === undefined || query.resource === TOTAL_RESOURCE) return listing(buckets, options);
  const book = (page: PageRequest) => pages(query, page);
  return listing((page) => joinedPage({ buckets, book }, query, which, page), options);
}

/**
 * Usage to be added up, with the rows of totals. Sums over entities have of the book only what no level counted: buckets count a request
 * at every level that it was charged to.
 */
export function rowsToSum(
  parts: LimiterParts,
  request: UsageRequest & ListOptions,
  by: "entity" | "resource" | undefined,
): Listing<UsageSnapshot> {
  const { limit, cursor, ...about } = SUM_REQUEST.check(request, "The query of usage");
  const query = usageQuery(about, parts.deps);
  const which = query.entityId !== undefined || by === "entity" ? "all" : "alone";
  return rowsOf(parts, query, which, undefined, given({ limit, cursor }));
}

/** Adds up rows on resources and rows of totals apart. */
export class UsageSums {
  readonly #resource: string | undefined;
  readonly #tally = new UsageTally();
  #inTotal: UsageTally | undefined;

  /** `resource`: the one that was asked for. */
  constructor(resource: string | undefined) {
    this.#resource = resource;
  }

  /** True if the row is one of the resources that were asked for. */
  add(row: UsageSnapshot): boolean {
    if (row.resource !== TOTAL_RESOURCE || this.#resource !== undefined) {
      this.#tally.add(row);
      return true;
    }
    this.#inTotal ??= new UsageTally();
    this.#inTotal.add(row);
    return false;
  }

  summary(): UsageSummary {
    const summary = this.#tally.summary();
    if (this.#inTotal === undefined) return summary;
    const { total, requests } = this.#inTotal.summary();
    const inTotal: UsageUnderTotals = { total, requests };
    return { ...summary, inTotal };
  }
}

export async function usageSummary(parts: LimiterParts, request: UsageRequest): Promise<UsageSummary> {
  const sums = new UsageSums(request.resource);
  for await (const row of rowsToSum(parts, request, undefined)) sums.add(row);
  return sums.summary();
}

export async function usageTotals(
  parts: LimiterParts,
  request: UsageRequest & { readonly by: "entity" | "resource" },
): Promise<UsageTotal[]> {
  const { by, ...query } = request;
  if (by !== "entity" && by !== "resource") {
    throw new ValidationError("option_invalid", `by is ${shown(by)}; give "entity" or "resource".`);
  }
  const all = new Map<string, UsageSums>();
  for await (const row of rowsToSum(parts, query, by)) {
    if (by === "resource" && query.resource === undefined && !isOnResource(row)) continue;
    const name = by === "entity" ? row.entityId : row.resource;
    const sums = all.get(name) ?? new UsageSums(query.resource);
    all.set(name, sums);
    sums.add(row);
  }
  const { turns } = parts.deps;
  const totals: UsageTotal[] = [];
  for (const name of await sortedByTurns(
    all.keys(),
    (a, b) => (a < b ? -1 : 1),
    () => turns.next(),
  )) {
    const summary = (all.get(name) as UsageSums).summary();
    totals.push(by === "entity" ? { entityId: name, ...summary } : { resource: name, ...summary });
    if (totals.length % TOTALS_PER_TURN === 0) await turns.next();
  }
  return totals;
}

const TOTALS_PER_TURN = 1_000;

export function exportUsage(
  parts: LimiterParts,
  request: UsageRequest & WithTotals & { readonly format: UsageFormat },
): AsyncIterable<string> {
  const { format, ...query } = request;
  return exportedUsage(usage(parts, query), format, query.tz);
}
