import type { BucketKey } from "../../domain/bucket/bucket-key.ts";
import { withoutShadowed } from "../../domain/bucket/bucket-questions.ts";
import { type Amount, type Tokens, tokensByName } from "../../domain/charge/amounts.ts";
import { TOTAL_RESOURCE } from "../../domain/config/totals.ts";
import type { Crossed } from "../../domain/limits/thresholds.ts";
import { RateLimiterUnavailable, ResourceDisabled } from "../../domain/names/errors.ts";
import { given } from "../../domain/names/given.ts";
import type { Claim, TakenAnswer } from "../../ports/bucket-store.ts";
import type {
  AcquiredEvent,
  AcquireEndedEvent,
  ChargedEvent,
  DegradedKind,
  Events,
  GaveBackEvent,
  LeaseEndedEvent,
} from "../../ports/events.ts";
import type { Clock } from "../../ports/system.ts";
import type { AcquireRequest, Demand } from "../acquire/request.ts";
import { type LeasePart, shadowedIn } from "../lease/lease-part.ts";
import { basisOf, type Refusal } from "../refusal/refusal.ts";
import { isInShadow } from "../refusal/refused.ts";
import type { EngineDeps, Settings } from "./settings.ts";

interface About {
  readonly entityId: string;
  readonly resource: string;
  readonly requestId?: string;
  readonly signal?: AbortSignal;
}

/** A request for tokens, and the tokens that it names. */
interface Asking extends About, Pick<AcquireRequest, "consume" | "also"> {}

type Result = AcquireEndedEvent["result"];

/** Publishes the events of requests and leases. A channel without subscribers costs one look at `active`. */
export class EventPublisher {
  readonly #events: Events;
  readonly #namespace: string;
  readonly #storeName: string;
  readonly #clock: Clock;
  // The channels that every take looks at.
  readonly #acquired: Events["acquired"];
  readonly #acquireEnded: Events["acquireEnded"];
  readonly #leaseOpened: Events["leaseOpened"];
  readonly #leaseEnded: Events["leaseEnded"];
  readonly #disabled: Events["disabled"];

  constructor({ events, clock, store }: Pick<EngineDeps, "events" | "clock" | "store">, { namespace }: Settings) {
    this.#events = events;
    this.#namespace = namespace;
    this.#storeName = store.name;
    this.#clock = clock;
    this.#acquired = events.acquired;
    this.#acquireEnded = events.acquireEnded;
    this.#leaseOpened = events.leaseOpened;
    this.#leaseEnded = events.leaseEnded;
    this.#disabled = events.disabled;
  }

  /** True if the end of requests has subscribers. Without any, a take is neither timed nor wrapped. */
  get isWatched(): boolean {
    return this.#acquireEnded.active || this.#leaseOpened.active || this.#disabled.active;
  }

  /** Runs a request whose caller gets the lease, and publishes its end. */
  watchAcquire<Answer extends OutcomeLike>(request: About, work: () => Promise<Answer>): Promise<Answer> {
    return this.watch(request, work, (outcome) => this.#answered(request, outcome));
  }

  /** `watchAcquire` without a promise. */
  watchAcquireSync<Answer extends OutcomeLike>(request: About, work: () => Answer): Answer {
    const startedMs = this.#steadyMs();
    try {
      const outcome = work();
      this.#ended(request, this.#answered(request, outcome), startedMs, undefined);
      return outcome;
    } catch (error) {
      this.#threw(request, error, startedMs);
      throw error;
    }
  }

  /** Runs a request. `resultOf` names the result of its answer; undefined publishes nothing, as for a replayed answer. */
  async watch<Answer>(
    request: About,
    work: () => Promise<Answer>,
    resultOf: (answer: Answer) => Result | undefined,
  ): Promise<Answer> {
    const startedMs = this.#steadyMs();
    try {
      const answer = await work();
      this.#ended(request, resultOf(answer), startedMs, undefined);
      return answer;
    } catch (error) {
      this.#threw(request, error, startedMs);
      throw error;
    }
  }

  waitBegan(request: About): void {
    const { waitBegan } = this.#events;
    if (waitBegan.active) waitBegan.publish(this.#on(request));
  }

  waitEnded(request: About, waitedMs: number): void {
    const { waitEnded } = this.#events;
    if (waitEnded.active) waitEnded.publish({ ...this.#on(request), waitedMs });
  }

  /** One event for each bucket that was taken from, so that they add up to usage. */
  acquired(request: Asking, part: LeasePart, others: readonly LeasePart[], waitedMs: number | undefined): void {
    if (!this.#acquired.active) return;
    let totals: Map<string, TotalTake> | undefined;
    // A service subscribes, so this is part of every take: allocate nothing but the events.
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
        this.#acquired.publish(role === "entity" ? { ...event, ...askedBy(request, waitedMs) } : event);
      }
    }
    if (totals === undefined) return;
    for (const { bucket, take, shadowed } of totals.values()) {
      this.#acquired.publish(this.#acquiredFrom(bucket, request.requestId, take, "total", shadowed));
    }
  }

  refused(about: Asking, refusal: Refusal): void {
    if (!this.#events.refused.active) return;
    const { statuses, primary, retryAfterMs } = refusal;
    const event = {
      ...this.#on(about),
      ...askedBy(about, undefined),
      statuses,
      primary,
      retryAfterMs,
      remembered: basisOf(refusal).isRemembered,
    };
    this.#events.refused.publish(isInShadow(about) ? { ...event, shadow: true } : event);
  }

  /** A lease took more. Publishes the taken amounts, without those that passed by shadows. */
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

  /** An outage has blocked a request. */
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

  #answered({ entityId, resource }: About, outcome: OutcomeLike): Result {
    if (!outcome.ok) return "refused";
    if (this.#leaseOpened.active) {
      this.#leaseOpened.publish({ namespace: this.#namespace, entityId, resource, lease: outcome.lease });
    }
    return "acquired";
  }

  #threw(request: About, error: unknown, startedMs: number): void {
    if (error instanceof ResourceDisabled && this.#disabled.active) {
      this.#disabled.publish({ ...this.#on(request), level: error.level });
    }
    const result = resultOfError(request, error);
    this.#ended(request, result, startedMs, result === "canceled" ? undefined : error);
  }

  /** An invalid request has no result and is not published: its names cannot be trusted. */
  #ended(request: About, result: Result | undefined, startedMs: number, error: unknown): void {
    if (result === undefined || !this.#acquireEnded.active) return;
    // The clock of a test may be stepped back.
    const durationMs = Math.max(0, this.#steadyMs() - startedMs);
    const event = { ...this.#on(request), result, durationMs, store: this.#storeName };
    this.#acquireEnded.publish(error === undefined ? event : { ...event, error });
  }

  #steadyMs(): number {
    return this.#clock.steadyMs === undefined ? this.#clock.now() : this.#clock.steadyMs();
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
    const namespace = this.#namespace;
    return requestId === undefined ? { namespace, entityId, resource } : { namespace, entityId, resource, requestId };
  }
}

/** An `Outcome`. */
type OutcomeLike = { readonly ok: true; readonly lease: object } | { readonly ok: false };

function resultOfError(request: About, error: unknown): Result | undefined {
  if (error instanceof ResourceDisabled) return "disabled";
  if (error instanceof RateLimiterUnavailable) return "unavailable";
  // An abort reaches the caller as the reason of its signal, whatever that is.
  const signal = request?.signal;
  return signal?.aborted && error === signal.reason ? "canceled" : undefined;
}

/** A request that names nothing asks for one of `requests`. */
const ONE_REQUEST: Tokens = Object.freeze({ requests: 1 });

/** The part of an event by which the request can be made again. */
function askedBy(
  { consume: asked = ONE_REQUEST, also }: Asking,
  waitedMs: number | undefined,
): Required<Pick<AcquiredEvent, "asked">> & Pick<AcquiredEvent, "also" | "waitedMs"> {
  if (also === undefined && waitedMs === undefined) return { asked };
  return { asked, ...given({ also, waitedMs }) };
}

interface TotalTake {
  readonly bucket: BucketKey;
  readonly take: Amount[];
  readonly shadowed: readonly string[] | undefined;
}

/** Adds the amounts of further resources to the take of a total. */
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
  // The reason becomes part of a sentence.
  return reason.replace(/\.$/, "");
}
