import { RateLimiterUnavailable } from "../../domain/names/errors.ts";
import type { Claim } from "../../ports/bucket-store.ts";
import type { Outcome } from "../acquire/acquiring.ts";
import { alsoOf } from "../acquire/also.ts";
import type { ChainLink } from "../acquire/chain-link.ts";
import type { ConfigCache } from "../acquire/config-cache.ts";
import { DenyMemory } from "../acquire/deny-memory.ts";
import type { GuardedDeps } from "../acquire/guarded-deps.ts";
import { byPart, leaseParts, type Plan } from "../acquire/plan.ts";
import type { AcquireRequest, Demand } from "../acquire/request.ts";
import { type Listeners, StoreClient, type Taken } from "../acquire/store-client.ts";
import { Lease } from "../lease/lease.ts";
import type { LeaseMaker } from "../lease/lease-ledger.ts";
import type { LeasePart } from "../lease/lease-part.ts";
import { Renewals } from "../lease/renewals.ts";
import { reasonOf } from "../limiter/event-publisher.ts";
import type { Settings } from "../limiter/settings.ts";
import { type Refusal, unsure } from "../refusal/refusal.ts";
import { OutageShare } from "./outage-share.ts";

interface Undecided {
  readonly demands: readonly Demand[];
  readonly plan: Plan | undefined;
}

/** The share knows no configuration: nothing is compared. */
const UNCOMPARED = { generation: undefined, undecided: undefined };

/** Decides requests that the store does not answer: lets them through, blocks them, or asks a share in this process. */
export class Outages {
  readonly #settings: Settings;
  readonly #maker: LeaseMaker;
  /** The buckets of this process, if `onUnavailable` is a share. */
  readonly #share: { readonly part: number; readonly maker: LeaseMaker } | undefined;
  readonly #configCache: Pick<ConfigCache, "lastSettings">;

  constructor(
    deps: GuardedDeps,
    settings: Settings,
    listeners: Listeners,
    maker: LeaseMaker,
    configCache: Pick<ConfigCache, "lastSettings">,
  ) {
    this.#settings = settings;
    this.#configCache = configCache;
    this.#maker = maker;
    const { onUnavailable } = settings;
    if (typeof onUnavailable !== "object") return;
    const { namespace, bucketsMax } = settings;
    const part = onUnavailable.share;
    const { clock, calendar, outageShares } = deps;
    const key = `${namespace}\n${part}`;
    const share = outageShares.get(key) ?? new OutageShare(part, calendar, bucketsMax);
    outageShares.set(key, share);
    // Takes from the share are no usage, so they publish none. The share answers from memory, so it needs no deny memory.
    const silent = { charged: () => {}, consumed: () => {}, gaveBack: () => {}, degraded: () => {} };
    const heard = { ...listeners, deny: new DenyMemory(0, 2), publisher: silent };
    const client = new StoreClient({ clock, calendar, store: {}, scope: { buckets: share } }, settings, heard);
    const renewals = new Renewals(client, clock);
    const callers = { changed: <Use>(_at: unknown, use: Use) => use };
    const takeMore: LeaseMaker["takeMore"] = (claims, chain) => client.takeMore(claims, chain, UNCOMPARED);
    this.#share = { part, maker: { ...maker, client, takeMore, outage: () => "block", renewals, callers } };
  }

  /** True if a request whose limits could not be read needs a plan from older configuration. */
  get needsPlan(): boolean {
    return this.#share !== undefined;
  }

  /** The outcome of a request; throws `RateLimiterUnavailable` if it is blocked. */
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
    const own = plan === undefined ? undefined : (byPart(plan)[0] ?? []);
    const { part, others } = uncountedParts(request, own ?? demands, this.#maker.now());
    return { ok: true, lease: new Lease(this.#maker, part, others, reason, request.signal) };
  }

  /** Decides a `consume` of a lease. A text lets it through, and is the reason. */
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
    // The share answers synchronously, and takes all or nothing.
    const taken = this.#share?.maker.client.take(claims as readonly Claim[], claims, context, "async") as Taken;
    return taken.kind === "refused" ? { kind: "refused", refusal: unsure(taken.refusal) } : taken;
  }

  #allows(link: ChainLink | undefined): boolean {
    const { onUnavailable } = this.#settings;
    return (onUnavailable ?? link?.onUnavailable ?? this.#configCache.lastSettings?.onUnavailable) === "allow";
  }
}

/** The store could not be reached, and requests are blocked. */
export function notReached({ entityId, resource }: AcquireRequest, cause: unknown): RateLimiterUnavailable {
  return new RateLimiterUnavailable(
    `The store is unavailable for ${entityId} on ${resource}: ${reasonOf(cause)}. ` +
      'Try again, or let requests through during outages with onUnavailable: "allow".',
    { cause },
  );
}

/** The parts of a lease that was let through uncounted: they hold nothing. */
function uncountedParts(
  request: AcquireRequest,
  demands: readonly Demand[],
  nowMs: number,
): { readonly part: LeasePart; readonly others: readonly LeasePart[] } {
  const { entityId, resource } = request;
  const nothing = { taken: [], isShadowed: false, takenAtMs: nowMs, beside: undefined };
  const own = demands.filter(({ bucket }) => bucket.resource === resource);
  const others = alsoOf(request).map((part) => {
    return { entityId: part.entityId, resource: part.resource, demands: [], ...nothing };
  });
  return { part: { entityId, resource, demands: own, ...nothing }, others };
}
