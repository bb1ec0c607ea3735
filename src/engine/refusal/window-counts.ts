import { wholeTokens } from "../../bucket/level.ts";
import { resetsAtMs } from "../../domain/bucket/bucket-operations.ts";
import { availableMilli, type BucketState, findLimit, type LimitState } from "../../domain/bucket/bucket-state.ts";
import { ticketOf } from "../../domain/bucket/give-back.ts";
import type { Amount } from "../../domain/charge/amounts.ts";
import type { Limit } from "../../domain/limits/limit.ts";
import { BoundedMap } from "../../domain/names/bounded-map.ts";
import { ResourceDisabled } from "../../domain/names/errors.ts";
import type { Held } from "../../ports/bucket-store.ts";
import type { ChainLink } from "../acquire/chain-link.ts";
import { type Demand, demandOf } from "../acquire/request.ts";
import { type Lease, partsOfLease } from "../lease/lease.ts";
import type { LimiterParts } from "../limiter/limiter-parts.ts";
import { notReached } from "../outage/outage.ts";
import type { ObservedBucket } from "./refusal.ts";

/** A count and its window. */
export interface WindowCount {
  readonly count: number;
  /** When the window ends, in ms since 1970. */
  readonly endsAtMs: number;
}

/** The result of one more count. `refused`: another limit of the chain refused, or access is disabled; nothing was counted. */
export type Counted =
  | ({ readonly kind: "counted" } & WindowCount)
  /** Granted without a count (`setAccess(…, "bypass")`). */
  | { readonly kind: "bypassed" }
  /** `retryAtMs` is undefined if the wait is unknown. */
  | { readonly kind: "refused"; readonly retryAtMs: number | undefined };

/** The cache holds 5,000 to 10,000 entities. */
const REMEMBERED_MAX = 5_000;

/**
 * Counts by entity in the windows of a soft quota that every request brings: the tokens it gave are the count. Callers compare the count
 * with limits of their own. The capacity of the quota never changes, because that would change the counts.
 */
export class WindowCounts {
  readonly #parts: LimiterParts;
  readonly #resource: string;
  readonly #limit: Limit;
  readonly #limits: readonly Limit[];
  readonly #one: readonly Amount[];
  /** The last count of this process, to be taken back by its ticket: in one call, and never in a later window. */
  readonly #last = new BoundedMap<Held>(REMEMBERED_MAX);

  constructor(parts: LimiterParts, resource: string, limit: Limit) {
    this.#parts = parts;
    this.#resource = resource;
    this.#limit = limit;
    this.#limits = Object.freeze([limit]);
    this.#one = Object.freeze([{ limit: limit.name, milli: 1_000 }]);
  }

  /** Counts one more. Throws `RateLimiterUnavailable` in an outage, even if the limiter lets requests through. */
  async add(entityId: string): Promise<Counted> {
    const request = { entityId, resource: this.#resource, limits: this.#limits, consume: { [this.#limit.name]: 1 } };
    let lease: Lease;
    try {
      const outcome = await this.#parts.acquirer.attempt(request, undefined);
      if (!outcome.ok) return { kind: "refused", retryAtMs: this.#at(outcome.retryAfterMs) };
      lease = outcome.lease;
    } catch (error) {
      if (error instanceof ResourceDisabled) return { kind: "refused", retryAtMs: undefined };
      throw error;
    }
    await lease.settle();
    const [part] = partsOfLease(lease);
    const [answer] = part?.taken ?? [];
    if (lease.degraded !== false || part === undefined || answer === undefined) {
      throw notReached(request, lease.degraded);
    }
    if (lease.bypassed) return { kind: "bypassed" };
    const { link } = part.demands[0] as Demand;
    this.#last.set(entityId, heldOf(link, answer.ticket));
    return { kind: "counted", ...this.#countIn(answer.state, part.takenAtMs) };
  }

  /** The count of the open window; undefined if none is open. */
  async read(entityId: string): Promise<WindowCount | undefined> {
    const { state, nowMs } = await this.#observed(entityId);
    return this.#isOpen(state, nowMs) ? this.#countIn(state, nowMs) : undefined;
  }

  /** Takes one count back in its window. If that has ended, nothing changes. */
  async takeBack(entityId: string): Promise<void> {
    const held = this.#last.get(entityId) ?? (await this.#heldNow(entityId));
    if (held !== undefined) await this.#parts.acquirer.client.giveBack([held], [this.#one], "release");
  }

  async reset(entityId: string): Promise<void> {
    const { acquirer, admin, deps } = this.#parts;
    const { bucket, set, origin } = await this.#link(entityId, "write");
    const idempotencyKey = deps.random.id();
    const limits = [this.#limit.name];
    const event = admin.event("bucket_reset", entityId, {}, { limits, idempotencyKey }, bucket.resource);
    const operation = { bucket, set, origin, nowMs: event.atMs, idempotencyKey, event };
    await acquirer.client.operate(bucket, () => deps.scope.buckets.reset(operation, limits));
  }

  /** For a count by another process, or of long ago: the present state. */
  async #heldNow(entityId: string): Promise<Held | undefined> {
    const { link, state, nowMs } = await this.#observed(entityId);
    if (!this.#isOpen(state, nowMs) || this.#countIn(state, nowMs).count <= 0) return undefined;
    return heldOf(link, ticketOf(state, this.#one, nowMs, this.#parts.deps.calendar));
  }

  async #observed(entityId: string): Promise<Observed> {
    const link = await this.#link(entityId, "question");
    const { observed, nowMs } = await this.#parts.acquirer.planner.observe([demandOf(link, [], false)]);
    const { state } = observed[0] as ObservedBucket;
    return { link, state, nowMs };
  }

  async #link(entityId: string, purpose: "write" | "question"): Promise<ChainLink> {
    const { acquirer, deps } = this.#parts;
    const question = { entityId, resource: this.#resource, limits: this.#limits };
    const [link] = await acquirer.planner.chain(question, deps.clock.now(), purpose);
    return link as ChainLink;
  }

  /** The count of a bucket whose window is open, or was at the take. */
  #countIn(state: BucketState, nowMs: number): WindowCount {
    const held = this.#heldIn(state);
    const given = this.#limit.capacity - wholeTokens(availableMilli(state, held, nowMs));
    return { count: given, endsAtMs: this.#endMs(held, nowMs) };
  }

  #isOpen(state: BucketState, nowMs: number): boolean {
    return nowMs < this.#endMs(this.#heldIn(state), nowMs);
  }

  #heldIn(state: BucketState): LimitState {
    return findLimit(state, this.#limit.name) as LimitState;
  }

  /** 0 if no window is open. */
  #endMs(held: LimitState, nowMs: number): number {
    return resetsAtMs(held, nowMs, this.#parts.deps.calendar) ?? 0;
  }

  #at(retryAfterMs: number): number | undefined {
    return Number.isFinite(retryAfterMs) ? this.#parts.deps.clock.now() + retryAfterMs : undefined;
  }
}

interface Observed {
  readonly link: ChainLink;
  readonly state: BucketState;
  readonly nowMs: number;
}

function heldOf({ bucket, set, origin }: ChainLink, ticket: Held["ticket"]): Held {
  return { bucket, set, origin, ticket, bypass: false };
}
