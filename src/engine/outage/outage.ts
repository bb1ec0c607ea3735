import type { OnUnavailable } from "../../domain/config/config.ts";
import { RateLimiterUnavailable } from "../../domain/names/errors.ts";
import type { Claim } from "../../ports/bucket-store.ts";
import type { ChainLink } from "../acquire/config-cache.ts";
import { DenyMemory } from "../acquire/deny-memory.ts";
import type { GuardedDeps } from "../acquire/guarded-deps.ts";
import type { Outcome } from "../acquire/outcome.ts";
import { leaseParts, type Plan } from "../acquire/plan.ts";
import type { AcquireRequest, Demand } from "../acquire/request.ts";
import { type Listeners, StoreClient, type StoreClientDeps, type Taken } from "../acquire/store-client.ts";
import { Lease } from "../lease/lease.ts";
import type { LeaseMaker } from "../lease/lease-core.ts";
import type { LeasePart } from "../lease/lease-part.ts";
import { Renewals } from "../lease/renewals.ts";
import { reasonOf } from "../limiter/event-publisher.ts";
import type { Settings } from "../limiter/settings.ts";
import { type Refusal, unsure } from "../refusal/refusal.ts";

/** What was planned for a request when the store failed; the plan is undefined where there was none. */
interface Undecided {
  readonly demands: readonly Demand[];
  readonly plan: Plan | undefined;
}

/** What becomes of requests that the store does not decide: they are let through, blocked, or decided by a share in this process. */
export class Outages {
  readonly #settings: Settings;
  readonly #maker: LeaseMaker;
  /** Buckets of this process, where a share was asked for. */
  readonly #share: { readonly part: number; readonly maker: LeaseMaker } | undefined;
  /** What the system level last said about outages: it cannot be asked during one. */
  #lastStored: OnUnavailable | undefined;

  constructor(deps: GuardedDeps, settings: Settings, listeners: Listeners, maker: LeaseMaker) {
    this.#settings = settings;
    this.#maker = maker;
    const { onUnavailable } = settings;
    if (typeof onUnavailable !== "object") return;
    const { namespace, bucketsMax } = settings;
    const part = onUnavailable.share;
    const share = deps.outageShare({ namespace, share: part, bucketsMax });
    const { clock, calendar, scope } = deps;
    const buckets: StoreClientDeps["scope"]["buckets"] = {
      take: (...args) => share.take(...args),
      debit: (...args) => share.debit(...args),
      credit: (...args) => share.credit(...args),
      renew: (...args) => share.renew(...args),
      topUp: (...args) => scope.buckets.topUp(...args),
      reset: (...args) => scope.buckets.reset(...args),
    };
    // None of it is usage, so nothing of it is told as usage. A refusal is remembered by the buckets themselves.
    const silent = { charged: () => {}, consumed: () => {}, gaveBack: () => {}, degraded: () => {} };
    const heard = { ...listeners, deny: new DenyMemory(0, 2), publisher: silent };
    const client = new StoreClient({ clock, calendar, store: {}, scope: { buckets } }, settings, heard);
    const renewals = new Renewals(client, clock);
    this.#share = { part, maker: { ...maker, client, outage: () => "block", renewals } };
  }

  /** Configuration was read. */
  noteStored(onUnavailable: OnUnavailable | undefined): void {
    this.#lastStored = onUnavailable;
  }

  /** Whether a plan is worth making for a request whose limits could not be read. */
  get needsPlan(): boolean {
    return this.#share !== undefined;
  }

  /** What becomes of a request; throws `RateLimiterUnavailable` where it is blocked. */
  outcome(request: AcquireRequest, { demands, plan }: Undecided, cause: unknown): Outcome {
    const { publisher } = this.#maker;
    const reason = `the store was unavailable: ${reasonOf(cause)}`;
    if (this.#share !== undefined && plan !== undefined) {
      const taken = this.#asked(plan.claims, plan);
      if (taken.kind === "refused") return taken.refusal;
      if (taken.kind === "granted") {
        const told = this.#told(reason);
        publisher.degraded(request, "store_unavailable", told, cause);
        const [part, ...others] = leaseParts(plan, taken.answers);
        return { ok: true, lease: new Lease(this.#share.maker, part as LeasePart, others, told, request.signal) };
      }
    }
    if (!this.#allows(demands[0]?.link)) {
      publisher.unavailable(request, cause);
      throw notReached(request, cause);
    }
    publisher.degraded(request, "store_unavailable", reason, cause);
    const { part, others } = uncountedParts(request, demands, this.#maker.now());
    return { ok: true, lease: new Lease(this.#maker, part, others, reason, request.signal) };
  }

  /** What becomes of more that a lease asks for. A text: it is let through, and that is why. */
  ofMore(claims: readonly Demand[], reason: string): string | "block" | Refusal {
    if (this.#share === undefined) return this.#allows(claims[0]?.link) ? reason : "block";
    const taken = this.#asked(claims, { nowMs: this.#maker.now(), timeoutMs: this.#settings.timeoutMs });
    if (taken.kind === "refused") return taken.refusal;
    return taken.kind === "granted" ? this.#told(reason) : "block";
  }

  #told(reason: string): string {
    return `a share of ${this.#share?.part} in this process: ${reason}`;
  }

  #asked(claims: readonly Demand[], at: Pick<Plan, "nowMs" | "timeoutMs">): Taken {
    const context = { nowMs: at.nowMs, timeoutMs: at.timeoutMs, generation: undefined, atomic: false };
    // It answers without a promise, and takes all or nothing.
    const taken = this.#share?.maker.client.take(claims as readonly Claim[], claims, context, "async") as Taken;
    return taken.kind === "refused" ? { kind: "refused", refusal: unsure(taken.refusal) } : taken;
  }

  #allows(link: ChainLink | undefined): boolean {
    const { onUnavailable } = this.#settings;
    return (onUnavailable ?? link?.onUnavailable ?? this.#lastStored) === "allow";
  }
}

/** The store could not be reached, and work is not let through meanwhile. */
export function notReached({ entityId, resource }: AcquireRequest, cause: unknown): RateLimiterUnavailable {
  return new RateLimiterUnavailable(
    `The store is unavailable for ${entityId} on ${resource}: ${reasonOf(cause)}. ` +
      'Try again, or let requests through during outages with onUnavailable: "allow".',
    { cause },
  );
}

/** What a lease holds on each resource that was let through uncounted: nothing. */
function uncountedParts(
  { entityId, resource, also }: AcquireRequest,
  demands: readonly Demand[],
  nowMs: number,
): { readonly part: LeasePart; readonly others: readonly LeasePart[] } {
  const nothing = { entityId, taken: [], isShadowed: false, takenAtMs: nowMs };
  const own = demands.filter(({ bucket }) => bucket.resource === resource);
  const others = Object.keys(also ?? {}).map((name) => ({ resource: name, demands: [], ...nothing }));
  return { part: { resource, demands: own, ...nothing }, others };
}
