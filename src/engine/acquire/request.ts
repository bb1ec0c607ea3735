import { findLimit } from "../../domain/bucket/bucket-state.ts";
import { checkHold, checkHoldIn, hardSlotLimits } from "../../domain/bucket/hold-time.ts";
import { holdNeeded } from "../../domain/bucket/slot-errors.ts";
import { aboveCapacity } from "../../domain/charge/above-capacity.ts";
import type { Amount, Tokens } from "../../domain/charge/amounts.ts";
import {
  ALONE,
  type Among,
  askedBy,
  type ChargeRules,
  chargeOf,
  chargesOf,
  countedAmong,
} from "../../domain/charge/charges.ts";
import { checkLeave } from "../../domain/limits/floor.ts";
import type { Limit } from "../../domain/limits/limit.ts";
import { ValidationError } from "../../domain/names/errors.ts";
import { KnownNames } from "../../domain/names/known-names.ts";
import { checkResource, shown } from "../../domain/names/names.ts";
import type { Claim } from "../../ports/bucket-store.ts";
import { isCertainlyNever, observedIn, type Refusal } from "../refusal/refusal.ts";
import type { ChainLink } from "./config-cache.ts";
import { hasSlotLimits, withoutSlots } from "./slot-amounts.ts";

/** What to take, and for whom. TypeScript infers the measures from `limits`, so that a misspelled one does not compile. */
export interface AcquireRequest<Measure extends string = string> {
  /** The entity that asks. */
  readonly entityId: string;
  /** The resource that it asks for. */
  readonly resource: string;
  /**
   * Whole tokens by measure. Every limit that counts the measure takes them, at every level. `requests` is 1 unless it
   * is named. With 0 nothing is taken, but a limit in debt refuses. It may be left out where a limit counts
   * `requests`. Default: `{ requests: 1 }`.
   */
  readonly consume?: Tokens<NoInfer<Measure> | "requests">;
  /** Limits for this request, in place of the stored limits of `entityId`. Default: the stored limits. */
  readonly limits?: readonly Limit<string, Measure>[];
  /**
   * Further resources, with their tokens by measure. All are taken, or none; `lease.resource(name)` holds them.
   * Default: none.
   */
  readonly also?: Readonly<Record<string, Tokens>>;
  /**
   * How long to wait for tokens before refusing, in ms. Requests of one process wait in the order in which they came,
   * those that must leave less (`leavePercent`) first. Default: no wait.
   */
  readonly wait?: { readonly maxMs: number };
  /** Whether all levels are taken from in one transaction, where the store would not do so by itself. Default: `false`. */
  readonly atomic?: boolean;
  /**
   * How much must be left for others, from 0 to 99: the request is refused unless so many percent of the capacity in
   * force remain of every hard limit that it takes from, at every level. Default: 0.
   */
  readonly leavePercent?: number;
  /**
   * How long the request holds slots of limits on how many are at once, in ms: from 1,000, at most each limit's own `holdMs`. Default:
   * as long as each limit says.
   */
  readonly holdMs?: number;
  /** A name of the request, for events. Default: none. */
  readonly requestId?: string;
  /** Ends the wait when it is aborted, and reaches the function of `withLease`. Default: none. */
  readonly signal?: AbortSignal;
}

/** What is asked for: how much, what must be left, and for how long slots are held. */
export type Asked = Pick<AcquireRequest, "consume" | "leavePercent" | "holdMs">;

/** What a request wants of one level: a claim that remembers where it came from. */
export interface Demand extends Claim {
  readonly link: ChainLink;
}

export function demandOf(link: ChainLink, take: readonly Amount[], bypass: boolean): Demand {
  const { bucket, set, origin, limits } = link;
  if (limits === set.limits) return { link, bucket, set, origin, take, bypass };
  return { link, bucket, set, origin, take, bypass, limits };
}

/** What a lease asks for later: of the same bucket, leaving as much, and holding slots for as long as its request said. */
export function furtherDemand({ link, bypass, leavePercent, holdMs }: Demand, take: readonly Amount[]): Demand {
  return {
    ...demandOf(link, take, bypass),
    ...(leavePercent === undefined ? {} : { leavePercent }),
    ...(holdMs === undefined ? {} : { holdMs }),
  };
}

/**
 * Checks the amounts against the limits of the chain, once, and turns tokens into millitokens, level by level. The entity that
 * asks comes first, also where it has no limits. So does a parent that stands below others with limits: those are called by how many levels
 * up they are. The parents above all limits are left out.
 */
export function demandsOf(
  consume: Tokens | undefined,
  chain: readonly ChainLink[],
  rules: ChargeRules,
  among: Among,
): Demand[] {
  const entity = chain[0] as ChainLink;
  if (chain.length === 1 && entity.totals === undefined) {
    return [demandOf(entity, chargeOf(consume, entity, rules), entity.access === "bypass")];
  }
  const reached = withTotals(chain);
  const charges = chargesOf(askedBy(consume), reached, rules, among);
  const buckets = reached.map((link) => countedAmong(link, among));
  const last = buckets.findLastIndex(({ limits }) => limits.length > 0);
  const demands: Demand[] = [];
  for (let i = 0; i <= Math.max(0, last); i++) {
    const link = buckets[i] as ChainLink;
    demands.push(demandOf(link, charges[i] as readonly Amount[], link.access === "bypass"));
  }
  return demands;
}

/** What a request that names no further resources wants of a chain, and must leave there. */
export function demandsFor(asked: Asked, chain: readonly ChainLink[], rules: ChargeRules): readonly Demand[] {
  return askedAs(demandsOf(asked.consume, chain, rules, ALONE), asked);
}

/**
 * Of a stored lease whose request does not say how long it is held: so long at most. 0: it is charged at once. No name that a caller could
 * give.
 */
export const HELD_AT_MOST: unique symbol = Symbol("held at most, in ms");

type HowAsked = Omit<Asked, "consume"> & { readonly [HELD_AT_MOST]?: number };

function heldAtMost(demand: Demand, mostMs: number): Demand {
  if (mostMs > 0) return withHold(demand, mostMs);
  const { set, take, bypass, bucket } = demand;
  if (bypass || !hasSlotLimits(set)) return demand;
  const [slots] = hardSlotLimits(set.limits, take);
  if (slots !== undefined) throw holdNeeded(slots.name, bucket);
  // Nothing is held: of limits on how many are at once that refuse nothing, nothing is taken.
  return { ...demand, take: withoutSlots(set, take) };
}

/** The demand with a hold of its own, for the slots that it takes and for those that its lease takes later. */
function withHold(demand: Demand, holdMs: number): Demand {
  return demand.bypass || !hasSlotLimits(demand.set) ? demand : { ...demand, holdMs };
}

/** The demands of a request that must leave something, or says how long it holds slots. */
export function askedAs(demands: readonly Demand[], asked: HowAsked): readonly Demand[] {
  const { leavePercent, holdMs, [HELD_AT_MOST]: mostMs } = asked;
  const percent = checkLeave(leavePercent);
  const holding =
    mostMs !== undefined
      ? demands.map((demand) => heldAtMost(demand, mostMs))
      : holdMs === undefined
        ? demands
        : demands.map((demand) => holdingFor(demand, checkHold(holdMs)));
  return percent === 0 ? holding : holding.map((demand) => ({ ...demand, leavePercent: percent }));
}

function holdingFor(demand: Demand, holdMs: number | undefined): Demand {
  if (holdMs === undefined) return demand;
  if (!demand.bypass) checkHoldIn(hardSlotLimits(demand.set.limits, demand.take), holdMs);
  return withHold(demand, holdMs);
}

/** The buckets that a request is charged to: of each level its own, then that of its totals, which nothing bypassed reaches. */
export function withTotals(chain: readonly ChainLink[]): readonly ChainLink[] {
  if (chain.every(({ totals }) => totals === undefined)) return chain;
  return chain.flatMap((link) =>
    link.totals === undefined || link.access === "bypass" ? [link] : [link, link.totals],
  );
}

/** The further resources of a request, checked. */
export function alsoOf({ resource, also }: AcquireRequest): readonly (readonly [resource: string, consume: Tokens])[] {
  if (also === undefined) return [];
  if (typeof also !== "object" || also === null || Array.isArray(also)) {
    throw new ValidationError(
      "also_invalid",
      `also is ${shown(also)}; give an object of resources, { "gpu": { slots: 1 } }.`,
    );
  }
  const parts = Object.entries(also);
  if (parts.length >= RESOURCES_MAX) {
    throw new ValidationError(
      "also_invalid",
      `The request names ${parts.length + 1} resources; at most ${RESOURCES_MAX} are allowed.`,
    );
  }
  for (const [name] of parts) {
    if (checkResource(name) !== resource) continue;
    throw new ValidationError("also_invalid", `${name} is the resource of the request and in also; name it once.`);
  }
  return parts;
}

/** At most this many resources in one request. */
const RESOURCES_MAX = 16;

const REQUEST = new KnownNames<AcquireRequest>({
  ...{ entityId: true, resource: true, consume: true, limits: true, also: true },
  ...{ wait: true, atomic: true, leavePercent: true, holdMs: true, requestId: true, signal: true },
});

/**
 * Whether all names of a request are known. Every acquire asks this, and nearly every request has three names, which are counted
 * rather than looked up. A question may be asked with the request that it is about, so the names are those of a request there, too.
 */
export function hasOnlyKnownNames(request: Partial<AcquireRequest>): boolean {
  let names = 0;
  for (const _ in request) names++;
  const { entityId, resource, consume, limits } = request;
  const usual = limits === undefined ? 3 : 4;
  if (names === usual && entityId !== undefined && resource !== undefined && consume !== undefined) return true;
  return REQUEST.areAll(request);
}

/** Throws for a request, or a question, that is none or has a name that would be ignored. */
export function checkRequest(request: unknown): void {
  if (typeof request !== "object" || request === null) {
    throw new ValidationError(
      "request_invalid",
      `The request is ${shown(request)}; give { entityId, resource, consume }.`,
    );
  }
  if (!hasOnlyKnownNames(request)) REQUEST.check(request as AcquireRequest, "The request");
  const { signal, atomic, leavePercent, holdMs } = request as Record<string, unknown>;
  checkLeave(leavePercent);
  checkHold(holdMs);
  if (signal !== undefined && typeof (signal as AbortSignal | null)?.throwIfAborted !== "function") {
    throw new ValidationError("request_invalid", `signal is ${shown(signal)}; give an AbortSignal.`);
  }
  if (atomic !== undefined && typeof atomic !== "boolean") {
    throw new ValidationError("request_invalid", `atomic is ${shown(atomic)}; give true or false.`);
  }
}

const WAIT = new KnownNames<{ readonly maxMs: number }>({ maxMs: true });

export function checkWait(wait: { readonly maxMs: number } | undefined): number {
  if (wait === undefined) return 0;
  if (typeof wait !== "object" || wait === null) {
    throw new ValidationError("wait_invalid", `wait is ${shown(wait)}; give { maxMs }.`);
  }
  const { maxMs } = WAIT.check(wait, "wait");
  if (typeof maxMs !== "number" || !(maxMs >= 0)) {
    throw new ValidationError("wait_invalid", `wait.maxMs is ${shown(maxMs)}; give milliseconds, 0 or more.`);
  }
  return maxMs;
}

/**
 * The error of a refusal that will never be anything else: more was asked for than a limit can hold, in any of its windows and with
 * what was bought. Only the bucket tells, looked at for this request: limits may have been raised, a quota topped up.
 */
export function neverIn(refusal: Refusal): ValidationError | undefined {
  for (const one of observedIn(refusal)) {
    // As of an earlier moment it is a refusal that says so.
    if (one.seen !== "now") continue;
    for (const { limit: name, milli } of one.take) {
      const held = findLimit(one.state, name);
      if (held === undefined || !isCertainlyNever(one, held, milli)) continue;
      return aboveCapacity(held, { milli, leavePercent: one.leavePercent }, one.bucket, refusal.levels[0] ?? "");
    }
  }
  return undefined;
}

/** Throws for a refusal that will never be anything else. */
export function checkRefusal(refusal: Refusal): void {
  const never = neverIn(refusal);
  if (never !== undefined) throw never;
}
