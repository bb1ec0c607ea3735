import type { RefusalCount, RefusalTotal } from "../../domain/charge/refusal-count.ts";
import type { LoggedRefusal } from "../../domain/charge/refusal-log.ts";
import type { UsageSnapshot, UsageSummary, UsageTotal } from "../../domain/charge/usage.ts";
import type { UsageFormat } from "../../domain/charge/usage-export.ts";
import { type Overview, overview } from "../overview/overview.ts";
import type { RefusalLogRequest } from "../refusal/logged-refusals.ts";
import type { RefusalRequest, RefusalTotalsRequest } from "../refusal/refusal-counts.ts";
import { exportUsage, usage, usageSummary, usageTotals, type WithTotals } from "../usage/usage-questions.ts";
import { type BucketListing, type BucketQuery, bucketsListed } from "./bucket-listing.ts";
import { type ResourceCapacity, resourceCapacity } from "./inspection.ts";
import type { LimiterParts } from "./limiter-parts.ts";
import { type AuditListing, auditListed, type Listing, type ListOptions, type UsageRequest } from "./listing.ts";
import { StoredLimits } from "./stored-limits.ts";

/** What a limiter tells of its namespace: changes, usage, refusals, buckets. */
export class LookingBack extends StoredLimits {
  readonly #parts: LimiterParts;

  /** @internal */
  constructor(parts: LimiterParts) {
    super(parts);
    this.#parts = parts;
  }

  /** Changes of the configuration, newest first: of one entity, or of the namespace. */
  auditEvents(query: { readonly entityId?: string } & ListOptions = {}): AuditListing {
    return auditListed(this.#parts.deps, query);
  }

  /** Tokens that were used, by window, oldest first. */
  usage(query: UsageRequest & WithTotals & ListOptions): Listing<UsageSnapshot> {
    return usage(this.#parts, query);
  }

  /** Usage added up over all windows, of an entity, a resource or the whole namespace. */
  usageSummary(query: UsageRequest): Promise<UsageSummary> {
    return usageSummary(this.#parts, query);
  }

  /** Usage added up for each entity or each resource, in the order of their names. */
  usageTotals(query: UsageRequest & { readonly by: "entity" | "resource" }): Promise<UsageTotal[]> {
    return usageTotals(this.#parts, query);
  }

  /**
   * Usage as text, piece by piece, in constant memory: `"csv"` with a row for each limit, `"ndjson"` with a snapshot
   * on each line, or `"json"` as one document.
   */
  exportUsage(query: UsageRequest & WithTotals & { readonly format: UsageFormat }): AsyncIterable<string> {
    return exportUsage(this.#parts, query);
  }

  /** How many requests were refused, by window (UTC), oldest first: who asked, for what, and which limit refused. */
  refusals(query: RefusalRequest): Listing<RefusalCount> {
    return this.#parts.acquirer.refusals.list(query);
  }

  /** Refused requests one by one, newest first: of each entity and hour the first 20 and the last 20, for 48 hours. */
  refusalLog(query: RefusalLogRequest = {}): Listing<LoggedRefusal> {
    return this.#parts.acquirer.refusals.log(query);
  }

  /** Refusals added up by entity, by resource or by limit, the most refused first. */
  refusalTotals(query: RefusalTotalsRequest): Promise<RefusalTotal[]> {
    return this.#parts.acquirer.refusals.totals(query);
  }

  /**
   * Buckets and what they hold now: of an entity, of a resource, of an entity on a resource, or all. A bucket from
   * which nothing was taken is full and not listed.
   */
  listBuckets(query: BucketQuery & ListOptions = {}): Listing<BucketListing> {
    return bucketsListed(this.#parts.deps, query);
  }

  /** How it is going: requests of a day, who is refused most, what is nearest to its end, slots, thresholds, shadows. */
  overview(): Promise<Overview> {
    return overview(this.#parts);
  }

  /** What all entities together have left of one limit on a resource. */
  resourceCapacity(resource: string, limitName: string): Promise<ResourceCapacity> {
    return resourceCapacity(this.#parts, resource, limitName);
  }
}
