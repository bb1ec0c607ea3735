import { wholeTokens } from "../../bucket/level.ts";
import { resetsAtMs } from "../../domain/bucket/bucket-operations.ts";
import {
  availableMilli,
  type BucketState,
  bucketFor,
  findLimit,
  type LimitState,
} from "../../domain/bucket/bucket-state.ts";
import { ticketOf } from "../../domain/bucket/give-back.ts";
import type { Amount } from "../../domain/charge/amounts.ts";
import type { Limit } from "../../domain/limits/limit.ts";
import { BoundedMap } from "../../domain/names/bounded-map.ts";
import { ResourceDisabled } from "../../domain/names/errors.ts";
import type { Held } from "../../ports/bucket-store.ts";
import type { ChainLink } from "../acquire/config-cache.ts";
import type { Demand } from "../acquire/request.ts";
import { type Lease, partsOfLease } from "../lease/lease.ts";
import type { LimiterParts } from "../limiter/limiter-parts.ts";
import { notReached } from "../outage/outage.ts";

/** How often something was counted in its window. */
export interface WindowCount {
  readonly count: number;
  /** When the window ends, in ms since 1970. */
  readonly endsAtMs: number;
}

/** What became of one count more. `refused`: another limit of the chain, or a switch, stands in the way; nothing was counted. */
export type Counted =
  | ({ readonly kind: "counted" } & WindowCount)
  /** Let through without being counted (`setAccess(…, "bypass")`). */
  | { readonly kind: "bypassed" }
  /** `retryAtMs`: when it may pass again; undefined where that is not known. */
  | { readonly kind: "refused"; readonly retryAtMs: number | undefined };

/** Of how many entities the last count is remembered, twice that at most. */
const REMEMBERED_MAX = 5_000;

/**
 * Counts by entity in the windows of a soft quota that is brought with every request: what it has given is the count. Whoever asks
 * compares that with a limit of its own, so the capacity of the quota is always the same: a changed one would change the counts.
 */
export class WindowCounts {
  readonly #parts: LimiterParts;
  readonly #resource: string;
  readonly #limit: Limit;
  readonly #limits: readonly Limit[];
  readonly #one: readonly Amount[];
  /** What this process counted last, to be taken back by its own ticket: in one call, and never in a later window. */
  readonly #last = new BoundedMap<Held>(REMEMBERED_MAX);

  constructor(parts: LimiterParts, resource: string, limit: Limit) {
    this.#parts = parts;
    this.#resource = resource;
    this.#limit = limit;
    this.#limits = Object.freeze([limit]);
    this.#one = Object.freeze([{ limit: limit.name, milli: 1_000 }]);
  }

  /** Counts one more. Throws `RateLimiterUnavailable` in an outage, also where the limiter lets work through meanwhile. */
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

  /** The count of the window that is open; undefined where none is. */
  async read(entityId: string): Promise<WindowCount | undefined> {
    const { state, nowMs } = await this.#observed(entityId);
    return this.#isOpen(state, nowMs) ? this.#countIn(state, nowMs) : undefined;
  }

  /** Takes one count back, in the window in which it was counted. Where that has ended, nothing changes. */
  async takeBack(entityId: string): Promise<void> {
    const held = this.#last.get(entityId) ?? (await this.#heldNow(entityId));
    if (held !== undefined) await this.#parts.acquirer.client.giveBack([held], [this.#one], "release");
  }

  /** Ends the window, and forgets its count. */
  async reset(entityId: string): Promise<void> {
    const { acquirer, admin, deps } = this.#parts;
    const { bucket, set, origin } = await this.#link(entityId, "write");
    const idempotencyKey = deps.random.id();
    const limits = [this.#limit.name];
    const event = admin.event("bucket_reset", entityId, {}, { limits, idempotencyKey }, bucket.resource);
    await acquirer.client.reset({ bucket, set, origin, nowMs: event.atMs, idempotencyKey, event }, limits);
  }

  /** Another process counted it, or it was long ago: what is counted now. */
  async #heldNow(entityId: string): Promise<Held | undefined> {
    const { link, state, nowMs } = await this.#observed(entityId);
    if (!this.#isOpen(state, nowMs) || this.#countIn(state, nowMs).count <= 0) return undefined;
    return heldOf(link, ticketOf(state, this.#one, nowMs, this.#parts.deps.calendar));
  }

  async #observed(entityId: string): Promise<Observed> {
    const { deps } = this.#parts;
    const link = await this.#link(entityId, "question");
    const [stored] = await deps.scope.buckets.read([link.bucket]);
    // Not before: what the store answers may correct the clock.
    const nowMs = deps.clock.now();
    return { link, state: bucketFor(stored, link, nowMs, deps.calendar), nowMs };
  }

  async #link(entityId: string, purpose: "write" | "question"): Promise<ChainLink> {
    const { acquirer, deps } = this.#parts;
    const question = { entityId, resource: this.#resource, limits: this.#limits };
    const [link] = await acquirer.planner.chain(question, deps.clock.now(), purpose);
    return link as ChainLink;
  }

  /** Of a bucket whose window is open, or was when it was taken from. */
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

  /** 0 where no window is open. */
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
