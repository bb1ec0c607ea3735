import { type BucketState, findLimit } from "../../domain/bucket/bucket-state.ts";
import { checkHold, checkHoldIn, hardSlotLimits, slotLimits } from "../../domain/bucket/slot-time.ts";
import type { Also, Amount, Tokens } from "../../domain/charge/amounts.ts";
import { aboveCapacity } from "../../domain/charge/charge-errors.ts";
import {
  ALONE,
  type Among,
  askedBy,
  type ChargeRules,
  chargeOf,
  chargesOf,
  countedAmong,
} from "../../domain/charge/charges.ts";
import { adjustOfSlots, holdNeeded } from "../../domain/limits/kinds/concurrent.ts";
import { rulesOf } from "../../domain/limits/kinds/table.ts";
import type { Limit } from "../../domain/limits/limit.ts";
import { checkLeave } from "../../domain/limits/limit-numbers.ts";
import type { LimitSet } from "../../domain/limits/limit-set.ts";
import { ValidationError } from "../../domain/names/errors.ts";
import { given } from "../../domain/names/given.ts";
import { KnownNames } from "../../domain/names/known-names.ts";
import { shown } from "../../domain/names/names.ts";
import type { Claim } from "../../ports/bucket-store.ts";
import { basisOf, isCertainlyNever, type Refusal } from "../refusal/refusal.ts";
import type { ChainLink } from "./chain-link.ts";

/** True if one of the limits grants slots. */
function hasSlotLimits({ limits, isBeyondRates }: LimitSet): boolean {
  return isBeyondRates && limits.some((limit) => rulesOf(limit).holdsSlots);
}

/** Throws if an adjustment would take slots of a hard limit: a debt would exceed what may run at once. `charges` has one entry per level. */
export function refuseSlots(
  levels: readonly { readonly link: Pick<ChainLink, "charged" | "bucket"> }[],
  charges: readonly (readonly Amount[])[],
): void {
  for (const [level, { link }] of levels.entries()) {
    const [slots] = link.charged.isBeyondRates ? hardSlotLimits(link.charged.limits, charges[level] ?? []) : [];
    if (slots !== undefined) throw adjustOfSlots(slots.name, link.bucket);
  }
}

/** Drops the amounts of slots: there is no debt of slots. */
export function withoutSlots({ limits, isBeyondRates }: LimitSet, amounts: readonly Amount[]): readonly Amount[] {
  if (!isBeyondRates) return amounts;
  const slots = slotLimits(limits, amounts);
  return amounts.filter(({ limit }) => slots.every(({ name }) => name !== limit));
}

/** Like `withoutSlots`, by the limits that the bucket has in force. */
export function withoutSlotsOn(state: BucketState, amounts: readonly Amount[]): readonly Amount[] {
  return amounts.filter(({ limit: name }) => {
    const held = findLimit(state, name);
    return held === undefined || !rulesOf(held.limit).holdsSlots;
  });
}

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
   * The further parts that are taken, all or none: resources of the entity, with their tokens by measure; or a list of at most
   * 15 parts, which may be of other entities. Each entity's parts are charged as a request of its own. `lease.resource(name)` and
   * `lease.part({ entityId, resource })` hold them. Default: nothing.
   */
  readonly also?: Also;
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

/** The amounts of a request, the share to leave, and the hold of its slots. */
export type Asked = Pick<AcquireRequest, "consume" | "leavePercent" | "holdMs">;

/** A claim on one level, with the link that it was made of. */
export interface Demand extends Claim {
  readonly link: ChainLink;
}

export function demandOf(link: ChainLink, take: readonly Amount[], bypass: boolean): Demand {
  const { bucket, set, origin, limits } = link;
  if (limits === set.limits) return { link, bucket, set, origin, take, bypass };
  return { link, bucket, set, origin, take, bypass, limits };
}

/** A later demand of a lease on the same bucket, with the `leavePercent` and `holdMs` of its request. */
export function furtherDemand({ link, bypass, leavePercent, holdMs }: Demand, take: readonly Amount[]): Demand {
  return { ...demandOf(link, take, bypass), ...given({ leavePercent, holdMs }) };
}

/**
 * Checks the amounts against the limits of the chain and turns tokens into millitokens, level by level. Levels without limits stay
 * if a level above them has some, because names such as `day^1` count levels. Parents above the last level with limits are left out.
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

/** The demands of a request that names no further resources. */
export function demandsFor(asked: Asked, chain: readonly ChainLink[], rules: ChargeRules): readonly Demand[] {
  return askedAs(demandsOf(asked.consume, chain, rules, ALONE), asked);
}

/**
 * The longest hold of a stored lease whose request names none; 0 charges at once. A symbol, so that no caller can set it.
 */
export const HELD_AT_MOST: unique symbol = Symbol("held at most, in ms");

type HowAsked = Omit<Asked, "consume"> & { readonly [HELD_AT_MOST]?: number };

function heldAtMost(demand: Demand, mostMs: number): Demand {
  if (mostMs > 0) return withHold(demand, mostMs);
  const { set, take, bypass, bucket } = demand;
  if (bypass || !hasSlotLimits(set)) return demand;
  const [slots] = hardSlotLimits(set.limits, take);
  if (slots !== undefined) throw holdNeeded(slots.name, bucket);
  // Nothing is held, so soft limits on concurrency take nothing.
  return { ...demand, take: withoutSlots(set, take) };
}

/** Sets the hold of the slots that the demand takes, and of those that its lease takes later. */
function withHold(demand: Demand, holdMs: number): Demand {
  return demand.bypass || !hasSlotLimits(demand.set) ? demand : { ...demand, holdMs };
}

/** Adds `leavePercent` and the hold of the request to its demands. */
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

/** Adds the bucket of the totals after each level; a bypassed level has none. */
export function withTotals(chain: readonly ChainLink[]): readonly ChainLink[] {
  if (chain.every(({ totals }) => totals === undefined)) return chain;
  return chain.flatMap((link) =>
    link.totals === undefined || link.access === "bypass" ? [link] : [link, link.totals],
  );
}

const REQUEST = new KnownNames<AcquireRequest>({
  ...{ entityId: true, resource: true, consume: true, limits: true, also: true },
  ...{ wait: true, atomic: true, leavePercent: true, holdMs: true, requestId: true, signal: true },
});

/**
 * True if all names of a request are known. Every acquire calls this, and nearly every request has three names, so they are counted
 * rather than looked up. A question accepts the names of a request, too.
 */
export function hasOnlyKnownNames(request: Partial<AcquireRequest>): boolean {
  let names = 0;
  for (const _ in request) names++;
  const { entityId, resource, consume, limits } = request;
  const usual = limits === undefined ? 3 : 4;
  if (names === usual && entityId !== undefined && resource !== undefined && consume !== undefined) return true;
  return REQUEST.areAll(request);
}

/** Throws for a request or question that is no object, or has an unknown name. */
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
 * The error of a request that can never be granted: it asks for more than a limit can hold, in any of its windows and with top-ups.
 * Only a bucket that was read for this request proves that: limits may have been raised, a quota topped up.
 */
export function neverIn(refusal: Refusal): ValidationError | undefined {
  for (const one of basisOf(refusal).by) {
    // An older image proves nothing: then it is an ordinary refusal.
    if (one.seen !== "now") continue;
    for (const { limit: name, milli } of one.take) {
      const held = findLimit(one.state, name);
      if (held === undefined || !isCertainlyNever(one, held, milli)) continue;
      return aboveCapacity(held, { milli, leavePercent: one.leavePercent }, one.bucket, refusal.levels[0] ?? "");
    }
  }
  return undefined;
}

// Not on the error itself: its members are the public interface.
const NEVER = new WeakMap<ValidationError, Refusal>();

/** Throws if the request can never be granted. */
export function checkRefusal(refusal: Refusal): void {
  const never = neverIn(refusal);
  if (never === undefined) return;
  NEVER.set(never, refusal);
  throw never;
}

/** The refusal of an error that `checkRefusal` has thrown; undefined for any other. */
export function refusalOfNever(error: ValidationError): Refusal | undefined {
  return NEVER.get(error);
}
