import type { BucketKey } from "../../domain/bucket/bucket-key.ts";
import { type Amount, tokensByName } from "../../domain/charge/amounts.ts";
import { TOTAL_RESOURCE } from "../../domain/config/totals.ts";
import { withoutShadowed } from "../../domain/limits/shadow.ts";
import type { Crossed } from "../../domain/limits/thresholds.ts";
import { RateLimiterUnavailable } from "../../domain/names/errors.ts";
import type { Claim, TakenAnswer } from "../../ports/bucket-store.ts";
import type { AcquiredEvent, ChargedEvent, DegradedKind, GaveBackEvent, LeaseEndedEvent } from "../../ports/events.ts";
import type { Clock } from "../../ports/system.ts";
import type { Demand } from "../acquire/request.ts";
import { isInShadow } from "../acquire/shadow.ts";
import { type LeasePart, shadowedIn } from "../lease/lease-part.ts";
import { isRemembered, type Refusal } from "../refusal/refusal.ts";
import type { EngineDeps, Settings } from "./settings.ts";

interface About {
  readonly entityId: string;
  readonly resource: string;
  readonly requestId?: string;
}

/** Publishes what became of requests and leases. A channel without subscribers costs one look at `active`. */
export class EventPublisher {
  readonly #events: EngineDeps["events"];
  readonly #acquired: EngineDeps["events"]["acquired"];
  readonly #leaseEnded: EngineDeps["events"]["leaseEnded"];
  readonly #namespace: string;

  constructor(events: EngineDeps["events"], settings: Settings) {
    this.#events = events;
    this.#acquired = events.acquired;
    this.#leaseEnded = events.leaseEnded;
    this.#namespace = settings.namespace;
  }

  /** One event for each bucket that was taken from, so that they add up to what usage counts. */
  acquired(request: About, part: LeasePart, others: readonly LeasePart[], waitedMs: number | undefined): void {
    if (!this.#acquired.active) return;
    let totals: Map<string, TotalTake> | undefined;
    // Where somebody listens, as a service does, this is part of every take: nothing is made here but what is published.
    for (let i = 0; i <= others.length; i++) {
      const own = i === 0 ? part : (others[i - 1] as LeasePart);
      const { demands } = own;
      const shadowed = own.isShadowed ? shadowedIn(own) : undefined;
      for (let level = 0; level < demands.length; level++) {
        const { bucket, take } = demands[level] as Demand;
        if (bucket.resource === TOTAL_RESOURCE) {
          totals ??= new Map();
          if (take.length > 0) addTo(totals, bucket, take, shadowed?.[level]);
          continue;
        }
        const role = i > 0 ? "also" : level > 0 ? "parent" : "entity";
        if (take.length === 0 && role !== "entity") continue;
        const event = this.#acquiredFrom(bucket, request.requestId, take, role, shadowed?.[level]);
        this.#acquired.publish(role === "entity" && waitedMs !== undefined ? { ...event, waitedMs } : event);
      }
    }
    if (totals === undefined) return;
    for (const { bucket, take, shadowed } of totals.values()) {
      this.#acquired.publish(this.#acquiredFrom(bucket, request.requestId, take, "total", shadowed));
    }
  }

  refused(about: About, refusal: Refusal): void {
    if (!this.#events.refused.active) return;
    const { statuses, primary, retryAfterMs } = refusal;
    const remembered = isRemembered(refusal);
    const event = { ...this.#on(about), statuses, primary, retryAfterMs, remembered };
    this.#events.refused.publish(isInShadow(about) ? { ...event, shadow: true } : event);
  }

  /** A lease took more: what was taken, not what was asked for. */
  consumed({ bucket, take }: Pick<Claim, "bucket" | "take">, { shadowed }: Pick<TakenAnswer, "shadowed">): void {
    const taken = shadowed.length === 0 ? take : withoutShadowed(take, shadowed);
    if (taken.length > 0) this.charged(bucket, taken, "consume");
  }

  charged(about: About, amounts: readonly Amount[], reason: ChargedEvent["reason"]): void {
    if (this.#events.charged.active) {
      this.#events.charged.publish({ ...this.#on(about), amounts: tokensByName(amounts), reason });
    }
  }

  threshold({ bucket: { entityId, resource }, ...crossed }: Crossed): void {
    if (!this.#events.threshold.active) return;
    this.#events.threshold.publish({ namespace: this.#namespace, entityId, resource, ...crossed });
  }

  gaveBack(
    about: About,
    amounts: readonly Amount[],
    { reason, confirmed }: Pick<GaveBackEvent, "reason" | "confirmed">,
  ): void {
    if (this.#events.gaveBack.active) {
      this.#events.gaveBack.publish({ ...this.#on(about), amounts: tokensByName(amounts), reason, confirmed });
    }
  }

  /** An outage has blocked. */
  unavailable(about: About, cause: unknown): void {
    if (this.#events.unavailable.active) {
      this.#events.unavailable.publish({ ...this.#on(about), reason: reasonOf(cause), cause });
    }
  }

  degraded({ entityId, resource }: About, kind: DegradedKind, reason: string, cause: unknown): void {
    if (this.#events.degraded.active) {
      this.#events.degraded.publish({ namespace: this.#namespace, entityId, resource, kind, reason, cause });
    }
  }

  leaseEnded(lease: object, part: LeasePart, status: LeaseEndedEvent["status"], clock: Pick<Clock, "now">): void {
    if (!this.#leaseEnded.active) return;
    const { entityId, resource, takenAtMs } = part;
    const heldMs = Math.max(0, clock.now() - takenAtMs);
    this.#leaseEnded.publish({ namespace: this.#namespace, entityId, resource, lease, status, heldMs });
  }

  #acquiredFrom(
    { entityId, resource }: BucketKey,
    requestId: string | undefined,
    take: readonly Amount[],
    role: AcquiredEvent["role"],
    shadowed: readonly string[] | undefined,
  ): AcquiredEvent {
    const namespace = this.#namespace;
    if (shadowed !== undefined && shadowed.length > 0) {
      const rest = requestId === undefined ? {} : { requestId };
      const taken = tokensByName(withoutShadowed(take, shadowed));
      return { namespace, entityId, resource, ...rest, consumed: taken, role, shadowed };
    }
    const consumed = tokensByName(take);
    return requestId === undefined
      ? { namespace, entityId, resource, consumed, role }
      : { namespace, entityId, resource, requestId, consumed, role };
  }

  #on({ entityId, resource, requestId }: About) {
    return { namespace: this.#namespace, entityId, resource, ...(requestId === undefined ? {} : { requestId }) };
  }
}

interface TotalTake {
  readonly bucket: BucketKey;
  readonly take: Amount[];
  /** The resources share one take from it. */
  readonly shadowed: readonly string[] | undefined;
}

/** What further resources of the request add to a total is one with what the first took. */
function addTo(
  totals: Map<string, TotalTake>,
  bucket: BucketKey,
  take: readonly Amount[],
  shadowed: readonly string[] | undefined,
): void {
  const known = totals.get(bucket.id);
  if (known === undefined) totals.set(bucket.id, { bucket, take: [...take], shadowed });
  else known.take.push(...take);
}

/** One line about a fault, for messages. */
export function reasonOf(cause: unknown): string {
  if (cause instanceof RateLimiterUnavailable && cause.cause !== undefined) return reasonOf(cause.cause);
  const reason = cause instanceof Error ? cause.message : String(cause);
  // It goes on in a sentence.
  return reason.replace(/\.$/, "");
}
