import { divCeil } from "../../bucket/integers.ts";
import { wholeTokens } from "../../bucket/level.ts";
import type { BucketKey } from "../../domain/bucket/bucket-key.ts";
import { resetsAtMs } from "../../domain/bucket/bucket-operations.ts";
import { availableMilli, type BucketState, findLimit, type LimitState } from "../../domain/bucket/bucket-state.ts";
import { walkOf } from "../../domain/bucket/earliest.ts";
import { withoutLast } from "../../domain/bucket/holds.ts";
import { boughtUntil, hasRoom, isNever, Search, type Walk } from "../../domain/bucket/search.ts";
import { type Amount, counting } from "../../domain/charge/amounts.ts";
import type { Status } from "../../domain/charge/status.ts";
import { kindOf } from "../../domain/limits/kinds/table.ts";
import { capacityMaxMilli, isHard, type Limit } from "../../domain/limits/limit.ts";
import { floorMilli, neededMilli } from "../../domain/limits/limit-numbers.ts";
import type { LimitsEnd } from "../../domain/limits/limit-set.ts";
import type { Calendar } from "../../domain/limits/schedule.ts";
import { given } from "../../domain/names/given.ts";
import type { Claim } from "../../ports/bucket-store.ts";

/** A refusal as a value. */
export interface Refusal {
  /** Always false. */
  readonly ok: false;
  /**
   * Every limit that the request asked for, also those that hold enough. A limit is left out if its bucket could not
   * be read and this process has never seen it.
   */
  readonly statuses: readonly Status[];
  /** The limit with the longest wait. */
  readonly primary: Status;
  /** Milliseconds until the request would fit; `Infinity`: never. */
  readonly retryAfterMs: number;
  /** Ids of the entity that asked, then of the parents that have limits there. Other entities of `also` are not among them. */
  readonly levels: readonly string[];
}

/** One bucket as it stood when it was asked, and what was asked of it. */
export interface ObservedBucket {
  readonly bucket: BucketKey;
  readonly state: BucketState;
  /** The limits that the request was planned with; the state may go by others. */
  readonly limits: readonly Limit[];
  /** The ends of overrides that lay ahead when the limits were read; absent: there were none. */
  readonly ends?: readonly LimitsEnd[];
  readonly take: readonly Amount[];
  readonly leavePercent: number;
  /** The amounts are already taken in `state`; a status shows the bucket before that. */
  readonly taken: boolean;
  /** The shadow limits of which a take took nothing. */
  readonly shadowed?: readonly string[];
  readonly bypass: boolean;
  readonly seen: SeenAt;
}

/** When a bucket was read: for this request, at an earlier time, or never (its state means nothing then). */
type SeenAt = "now" | { readonly atMs: number } | "never";

export interface Observation {
  readonly observed: readonly ObservedBucket[];
  readonly nowMs: number;
}

/** The times of a refusal: when the buckets were asked, and when the caller is answered; waits count from there. */
export interface RefusalTimes {
  readonly askedMs: number;
  readonly toldMs: number;
}

/** A bucket as a claim found it. */
export function observedBy(
  { bucket, set, origin: { ends }, limits = set.limits, take, bypass, leavePercent = 0 }: Claim,
  found: Pick<ObservedBucket, "state" | "taken" | "shadowed" | "seen">,
): ObservedBucket {
  return { bucket, limits, ...given({ ends }), take, leavePercent, bypass, ...found };
}

/** The basis of a refusal. Kept beside it: the members of a refusal are the public interface. */
interface Basis {
  readonly by: readonly ObservedBucket[];
  readonly toldMs: number;
  readonly isRemembered: boolean;
}

const BASES = new WeakMap<Refusal, Basis>();

const NO_BASIS: Basis = { by: [], toldMs: 0, isRemembered: false };

/** The buckets that a refusal was decided by, and when the caller was answered; empty for a refusal that was not made here. */
export function basisOf(refusal: Refusal): Basis {
  return BASES.get(refusal) ?? NO_BASIS;
}

/** Marks a refusal that came from the deny memory. */
export function remembered(refusal: Refusal): Refusal {
  BASES.set(refusal, { ...basisOf(refusal), isRemembered: true });
  return refusal;
}

/** A wait that the store did not confirm for this request is at most this long. */
export const UNSURE_MS = 1_000;

/** Bounds the waits of a refusal by an outage share: the store may be back any time, so ask again soon. */
export function unsure(refusal: Refusal): Refusal {
  const soon = <Wait extends { readonly retryAfterMs: number }>(one: Wait): Wait =>
    one.retryAfterMs <= UNSURE_MS ? one : { ...one, retryAfterMs: UNSURE_MS };
  const told: Refusal = { ...soon(refusal), statuses: refusal.statuses.map(soon), primary: soon(refusal.primary) };
  BASES.set(told, basisOf(refusal));
  return told;
}

/**
 * The status of every limit asked for, and when all of them fit together. The primary status is that of the limit with the longest
 * wait, which is the wait of the whole refusal. `chain` has every level, the caller first, also levels without amounts.
 */
export function refusalOf(
  observed: readonly ObservedBucket[],
  chain: readonly { readonly bucket: BucketKey }[],
  times: RefusalTimes,
  calendar: Calendar,
): Refusal {
  const seen = observed.filter((bucket) => bucket.seen !== "never");
  const { statuses, fitMs, last } = seen.length === 0 ? blind(observed) : examined(seen, times, calendar);
  const retryAfterMs = Math.max(1, fitMs - times.toldMs);
  const exceeded = statuses.findIndex((status) => status.exceeded);
  const waitedFor = last >= 0 ? last : Math.max(0, exceeded);
  const primary = { ...(statuses[waitedFor] as Status), retryAfterMs };
  statuses[waitedFor] = primary;
  const levels = [...new Set(chain.map(({ bucket }) => bucket.entityId))];
  const refusal: Refusal = { ok: false, statuses, primary, retryAfterMs, levels };
  BASES.set(refusal, { by: observed, toldMs: times.toldMs, isRemembered: false });
  return refusal;
}

/** The first instant at which all amounts fit together; `Infinity` if never. */
export function fitsAtMs(observed: readonly ObservedBucket[], nowMs: number, calendar: Calendar): number {
  // The search of a refusal, so that both agree.
  return examined(observed, { askedMs: nowMs, toldMs: nowMs }, calendar).fitMs;
}

/** The result of a search. `last` is the index of the status with the longest wait; -1: none. */
interface Examined {
  readonly statuses: Status[];
  readonly fitMs: number;
  readonly last: number;
}

function examined(observed: readonly ObservedBucket[], times: RefusalTimes, calendar: Calendar): Examined {
  // All limits and levels share its steps.
  const search = new Search(times.askedMs, calendar);
  const asked = observed.flatMap((bucket) => askedOf(bucket, search));
  const statuses = asked.map((one) => statusOf(one, times, calendar));
  const found = firstFit(asked, times.askedMs, calendar);
  const endMs = firstEndOf(observed, times.askedMs);
  if (endMs === undefined || found.fitMs <= endMs || observed.some(isNeverGranted)) return { statuses, ...found };
  // What applies then is decided then.
  const mostMs = Math.max(1, endMs - times.toldMs);
  const soon = (status: Status) => (status.retryAfterMs <= mostMs ? status : { ...status, retryAfterMs: mostMs });
  return { statuses: statuses.map(soon), fitMs: endMs, last: found.last };
}

/** The first end that lies ahead of any of the buckets; undefined: none does. */
function firstEndOf(observed: readonly ObservedBucket[], nowMs: number): number | undefined {
  const ends = observed.flatMap(({ ends = [] }) => ends.flatMap(({ atMs }) => (atMs > nowMs ? [atMs] : [])));
  return ends.length === 0 ? undefined : Math.min(...ends);
}

function isNeverGranted(observed: ObservedBucket): boolean {
  return observed.take.some(({ limit, milli }) => {
    const held = findLimit(observed.state, limit);
    return held !== undefined && isCertainlyNever(observed, held, milli);
  });
}

/** No bucket was read: the statuses show only the amounts. */
function blind(observed: readonly ObservedBucket[]): Examined {
  const statuses = observed.flatMap(({ bucket, state, take, leavePercent }) =>
    take.flatMap(({ limit: name, milli }): Status[] => {
      const limit = findLimit(state, name);
      if (limit === undefined) return [];
      const { entityId, resource } = bucket;
      const [capacity, requested] = [wholeTokens(limit.terms.capacityMilli), wholeTokens(milli)];
      const about = {
        ...{ entityId, resource, ...counting(limit.limit) },
        ...{ kind: kindOf(limit.limit), soft: limit.limit.soft === true, ...floorOf(limit, leavePercent) },
      };
      const shadow = limit.limit.shadow === true;
      return [{ ...about, shadow, available: 0, capacity, requested, exceeded: !shadow, retryAfterMs: shadow ? 0 : 1 }];
    }),
  );
  return { statuses, fitMs: 0, last: -1 };
}

interface Asked {
  readonly bucket: BucketKey;
  readonly state: BucketState;
  readonly limit: LimitState;
  readonly milli: number;
  readonly leavePercent: number;
  readonly bypass: boolean;
  readonly seen: SeenAt;
  /** The position of the search. */
  readonly walk: Walk;
}

function askedOf(observed: ObservedBucket, search: Search): Asked[] {
  const { bucket, state, take, leavePercent, taken, shadowed, bypass, seen } = observed;
  return take.flatMap(({ limit: name, milli }): Asked[] => {
    const before = taken && !bypass && shadowed?.includes(name) !== true ? withMore(state, name, milli) : state;
    const limit = findLimit(before, name);
    if (limit === undefined) return [];
    const walk = walkOf({ state: before, limit, milli, leavePercent }, search);
    return [{ bucket, state: before, limit, milli, leavePercent, bypass, seen, walk }];
  });
}

/**
 * True if a limit can never grant an amount, by the bucket, by the limits of the request, and by those that the end of an override leaves. If
 * the first two disagree, the bucket has newer limits (changed configuration, or those of another request), and it is an ordinary refusal.
 */
export function isCertainlyNever(
  one: Pick<ObservedBucket, "limits" | "ends" | "bypass" | "taken" | "leavePercent">,
  held: LimitState,
  milli: number,
): boolean {
  const { limits, ends = [], bypass, taken, leavePercent } = one;
  const demanded = { milli, leavePercent };
  if (bypass || taken || !isNever(held, demanded)) return false;
  return [limits, ...ends.map((end) => end.limits)].every((some) => {
    const own = some.find(({ name }) => name === held.name);
    const boughtMilli = held.quota?.topUpMilli ?? 0;
    return own !== undefined && isHard(own) && !hasRoom(capacityMaxMilli(own) + boughtMilli, demanded);
  });
}

/** The bucket before an amount was taken; each shard gets back what it has room for. */
function withMore(state: BucketState, name: string, milli: number): BucketState {
  const add = (some: number) => (held: LimitState) =>
    held.name === name
      ? { ...held, tokensMilli: held.tokensMilli + some, slices: withoutLast(held.slices, some) }
      : held;
  if (state.shards === undefined) return { ...state, limits: state.limits.map(add(milli)) };
  let left = milli;
  const shards = state.shards.map((shard) => {
    const held = findLimit(shard, name);
    const room = held === undefined ? 0 : held.terms.capacityMilli - availableMilli(shard, held, state.epochMs);
    const own = Math.min(left, room);
    left -= own;
    return { ...shard, limits: shard.limits.map(add(own)) };
  });
  return { ...state, shards };
}

function statusOf(
  { bucket, state, limit, milli, leavePercent, bypass, seen, walk }: Asked,
  { askedMs, toldMs }: RefusalTimes,
  calendar: Calendar,
): Status {
  const levelMilli = availableMilli(state, limit, askedMs);
  const { capacityMilli } = limit.terms;
  const exceeded = !bypass && isHard(limit.limit) && levelMilli < neededMilli(milli, capacityMilli, leavePercent);
  const resetMs = resetsAtMs(limit, Math.max(askedMs, state.epochMs), calendar);
  return {
    entityId: bucket.entityId,
    resource: bucket.resource,
    ...counting(limit.limit),
    available: wholeTokens(levelMilli),
    capacity: wholeTokens(capacityMilli),
    requested: wholeTokens(milli),
    ...floorOf(limit, leavePercent),
    exceeded,
    kind: kindOf(limit.limit),
    soft: limit.limit.soft === true,
    shadow: limit.limit.shadow === true,
    ...given({ resetsAtMs: resetMs }),
    retryAfterMs: exceeded ? Math.max(1, walk.next(askedMs).atMs - toldMs) : 0,
    ...(typeof seen === "object" ? { asOfMs: seen.atMs } : {}),
  };
}

/** The floor in tokens, rounded up, so that the shown number refuses as the exact one does. */
function floorOf({ limit, terms }: LimitState, leavePercent: number): Pick<Status, "floor"> {
  if (leavePercent === 0 || limit.soft) return {};
  return { floor: divCeil(floorMilli(terms.capacityMilli, leavePercent), 1000) };
}

/** A quarter of a million years. The largest limits take longer to fill, but dates, and so crons, end there. */
const CALENDAR_END_MS = 8_000_000_000_000_000;

// One limit may become short again while another is waited for. So the search goes round all limits until none of them moves it; the
// last one that did is the primary. Each move is at least a millisecond, and if limits never meet, their shared steps end the search.
function firstFit(asked: readonly Asked[], nowMs: number, calendar: Calendar): Pick<Examined, "fitMs" | "last"> {
  const never = asked.findIndex(({ limit, bypass, ...demanded }) => !bypass && isNever(limit, demanded));
  if (never >= 0) return { fitMs: Number.POSITIVE_INFINITY, last: never };
  // A window that never opens.
  const endless = asked.findIndex(({ walk, bypass }) => !bypass && walk.next(nowMs).atMs === Number.POSITIVE_INFINITY);
  if (endless >= 0) return { fitMs: Number.POSITIVE_INFINITY, last: endless };
  let fitMs = nowMs;
  let last = -1;
  for (let moved = true; moved; ) {
    moved = false;
    for (const [i, { walk, bypass }] of asked.entries()) {
      if (bypass) continue;
      const { atMs, found } = walk.next(fitMs);
      // The top-up has ended by then. A give-back to another limit might have let all fit before that end, so wait until the end at most.
      if (atMs === Number.POSITIVE_INFINITY && fitMs > nowMs) {
        return { fitMs: Math.min(fitMs, boughtEndMs(asked, nowMs, calendar)), last };
      }
      if (atMs > fitMs) [fitMs, last, moved] = [atMs, i, true];
      // The search ran out of steps, or left the calendar.
      if (!found || atMs > CALENDAR_END_MS) return { fitMs, last };
    }
  }
  return { fitMs, last };
}

/** The first end of a top-up without which a limit could not grant its amount. */
function boughtEndMs(asked: readonly Asked[], nowMs: number, calendar: Calendar): number {
  const ends = asked.map(({ state, limit, bypass, ...demanded }) =>
    bypass || !isHard(limit.limit) ? undefined : boughtUntil(limit, demanded, Math.max(nowMs, state.epochMs), calendar),
  );
  return Math.min(...ends.map((end) => end?.atMs ?? Number.POSITIVE_INFINITY));
}
