import { isIdle, shadowedOf, withoutShadowed } from "../../domain/bucket/bucket-questions.ts";
import {
  acrossBoundaries,
  advanced,
  type BucketState,
  bucketFor,
  debitFrom,
  findLimit,
  takeBy,
  touched,
} from "../../domain/bucket/bucket-state.ts";
import { giveBack, PLAIN_TICKET, ticketOf } from "../../domain/bucket/give-back.ts";
import { hasRoom } from "../../domain/bucket/search.ts";
import { renewSlots } from "../../domain/bucket/slot-time.ts";
import type { Amount } from "../../domain/charge/amounts.ts";
import { capacityMaxMilli, isHard } from "../../domain/limits/limit.ts";
import { type LimitedBucket, type LimitSet, type SourcedLimits, sharedLimits } from "../../domain/limits/limit-set.ts";
import type { Calendar } from "../../domain/limits/schedule.ts";
import { RateLimiterUnavailable } from "../../domain/names/errors.ts";
import type {
  Answer,
  BucketStore,
  CallContext,
  Claim,
  Held,
  RenewReply,
  TakeReply,
  WriteReply,
} from "../../ports/bucket-store.ts";

/**
 * Buckets in this process that decide during an outage, by a share of every limit. They stay when the store is back, so that the next
 * outage continues where the last one ended. Nothing is charged to the store.
 */
export class OutageShare implements Pick<BucketStore, "take" | "debit" | "credit" | "refund" | "renew"> {
  readonly #share: number;
  readonly #calendar: Calendar;
  readonly #bucketsMax: number;
  readonly #states = new Map<string, BucketState>();
  readonly #sets = new WeakMap<LimitSet, LimitSet>();
  #sweptAtMs = Number.NEGATIVE_INFINITY;

  constructor(share: number, calendar: Calendar, bucketsMax: number) {
    this.#share = share;
    this.#calendar = calendar;
    this.#bucketsMax = bucketsMax;
  }

  /** Takes all claims or none. Throws `RateLimiterUnavailable` if the share of a limit can never grant its amount. */
  take(claims: readonly Claim[], { nowMs }: CallContext): TakeReply {
    const before = claims.map((claim) => this.#standing(claim, nowMs));
    for (const [i, claim] of claims.entries()) this.#requireRoom(claim, before[i] as BucketState, nowMs);
    const shadowed = claims.map(({ take, bypass, leavePercent }, i) =>
      bypass ? [] : shadowedOf(before[i] as BucketState, take, nowMs, leavePercent),
    );
    const takes = claims.map(({ take }, i) => withoutShadowed(take, shadowed[i] ?? []));
    const after = claims.map((claim, i) => {
      const state = before[i] as BucketState;
      return claim.bypass ? touched(state) : takeBy(state, takes[i] ?? [], nowMs, claim);
    });
    if (after.includes(undefined)) {
      return before.map((state, i): Answer => ({ kind: after[i] === undefined ? "short" : "skipped", state }));
    }
    return claims.map(({ bucket, bypass, holdMs }, i): Answer => {
      const state = after[i] as BucketState;
      this.#states.set(bucket.id, state);
      const ticket = bypass ? PLAIN_TICKET : ticketOf(state, takes[i] ?? [], nowMs, this.#calendar, holdMs);
      return { kind: "taken", state, ticket: { ...ticket, shadowed: shadowed[i] ?? [] }, shadowed: shadowed[i] ?? [] };
    });
  }

  debit(held: Held, amounts: readonly Amount[], { nowMs }: CallContext): WriteReply {
    const before = advanced(this.#standing(held, nowMs), nowMs, this.#calendar);
    const state = held.bypass ? before : debitFrom(before, amounts, nowMs);
    if (state === undefined) return { kind: "tooDeep" };
    this.#states.set(held.bucket.id, state);
    const ticket = held.bypass ? PLAIN_TICKET : ticketOf(state, amounts, nowMs, this.#calendar);
    return { kind: "applied", state, ticket };
  }

  renew(held: Held, amounts: readonly Amount[], { nowMs }: CallContext): RenewReply {
    const before = this.#states.get(held.bucket.id);
    if (before === undefined) return { kind: "lost" };
    const state = acrossBoundaries(before, nowMs, this.#calendar);
    const renewed = renewSlots(state, amounts, held.ticket, { nowMs, holdMs: held.holdMs });
    if (renewed === undefined) return { kind: "lost" };
    this.#states.set(held.bucket.id, renewed.state);
    return { kind: "renewed", ticket: renewed.ticket };
  }

  credit(held: Held, amounts: readonly Amount[], { nowMs }: CallContext): WriteReply {
    const before = this.#states.get(held.bucket.id);
    if (before === undefined) return { kind: "gone" };
    if (held.bypass) return { kind: "applied", state: before };
    const state = giveBack(acrossBoundaries(before, nowMs, this.#calendar), amounts, held.ticket, nowMs);
    this.#states.set(held.bucket.id, state);
    return { kind: "applied", state };
  }

  /** Only leases give back to the share: it knows nothing of what was taken from the store. */
  refund(): WriteReply {
    return { kind: "gone" };
  }

  #standing({ bucket, set, origin }: LimitedBucket, nowMs: number): BucketState {
    // The history of changes belongs to the store: here the current limits apply from now on.
    const { asOfMs, generation } = origin;
    const own: SourcedLimits = { set: this.#setOf(set), origin: { asOfMs, generation } };
    return bucketFor(this.#states.get(bucket.id), own, nowMs, this.#calendar);
  }

  #setOf(set: LimitSet): LimitSet {
    let shared = this.#sets.get(set);
    if (shared === undefined) {
      shared = sharedLimits(set, this.#share);
      this.#sets.set(set, shared);
    }
    return shared;
  }

  #requireRoom({ bucket, take, bypass, leavePercent = 0 }: Claim, state: BucketState, nowMs: number): void {
    const { entityId, resource } = bucket;
    if (!this.#states.has(bucket.id) && !this.#hasRoomAt(nowMs)) {
      throw new RateLimiterUnavailable(
        `A share of ${this.#share} is kept of at most ${this.#bucketsMax} buckets, and ${entityId} on ${resource} is one more.`,
      );
    }
    if (bypass) return;
    for (const { limit, milli } of take) {
      const held = findLimit(state, limit);
      if (held === undefined || !isHard(held.limit)) continue;
      const mostMilli = capacityMaxMilli(held.limit);
      if (mostMilli > 0 && hasRoom(mostMilli, { milli, leavePercent })) continue;
      throw new RateLimiterUnavailable(
        `A share of ${this.#share} of "${limit}" for ${entityId} on ${resource} is ${mostMilli / 1000}, and ${milli / 1000} were asked for.`,
      );
    }
  }

  /** Drops buckets that are full again, which equal new ones. No other is dropped: it would begin anew. */
  #hasRoomAt(nowMs: number): boolean {
    if (this.#states.size < this.#bucketsMax) return true;
    if (Math.abs(nowMs - this.#sweptAtMs) < SWEEP_PAUSE_MS) return false;
    this.#sweptAtMs = nowMs;
    for (const [id, state] of this.#states) if (isIdle(state, 0, nowMs, this.#calendar)) this.#states.delete(id);
    return this.#states.size < this.#bucketsMax;
  }
}

const SWEEP_PAUSE_MS = 10_000;
