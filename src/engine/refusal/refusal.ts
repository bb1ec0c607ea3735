import { divCeil } from "../../bucket/integers.ts";
import { wholeTokens } from "../../bucket/level.ts";
import type { BucketKey } from "../../domain/bucket/bucket-key.ts";
import { resetsAtMs } from "../../domain/bucket/bucket-operations.ts";
import { availableMilli, type BucketState, findLimit, type LimitState } from "../../domain/bucket/bucket-state.ts";
import { walkOf } from "../../domain/bucket/earliest.ts";
import { withoutLast } from "../../domain/bucket/holds.ts";
import { boughtUntil, hasRoom, isNever, SearchSteps, type Walk } from "../../domain/bucket/search.ts";
import type { Amount } from "../../domain/charge/amounts.ts";
import { counting } from "../../domain/charge/measures.ts";
import type { Status } from "../../domain/charge/status.ts";
import type { Calendar } from "../../domain/limits/calendar.ts";
import { floorMilli, neededMilli } from "../../domain/limits/floor.ts";
import { kindOf } from "../../domain/limits/kinds/table.ts";
import { capacityMaxMilli, isHard, type Limit } from "../../domain/limits/limit.ts";

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
  /** Ids of the entity that asked, then of the parents that have limits there. */
  readonly levels: readonly string[];
}

/** One bucket as it stood when it was asked, and what was asked of it. */
export interface ObservedBucket {
  readonly bucket: BucketKey;
  readonly state: BucketState;
  /** The limits that the request was planned with; the state may go by others. */
  readonly limits: readonly Limit[];
  readonly take: readonly Amount[];
  /** So many percent of each limit must be left. */
  readonly leavePercent: number;
  /** Already taken in `state`; a status speaks of what there was before. */
  readonly taken: boolean;
  /** Of what is taken already: the shadow limits of which nothing was. */
  readonly shadowed?: readonly string[];
  /** Nothing is debited, so nothing can be short. */
  readonly bypass: boolean;
  readonly seen: SeenAt;
}

/** When a bucket was looked at: for this request; at an earlier time; or never, and then its state says nothing. */
type SeenAt = "now" | { readonly atMs: number } | "never";

/** Buckets that were read, and the reading of the clock that they are shown by. */
export interface Observation {
  readonly observed: readonly ObservedBucket[];
  readonly nowMs: number;
}

/** The times of a refusal: when the buckets were asked, and when the caller hears of it, from where waits count. */
export interface RefusalTimes {
  readonly askedMs: number;
  readonly toldMs: number;
}

// Not on the refusal itself: it is part of the public interface.
const OBSERVED = new WeakMap<Refusal, { readonly by: readonly ObservedBucket[]; readonly toldMs: number }>();

/** The buckets that a refusal was decided by. */
export function observedIn(refusal: Refusal): readonly ObservedBucket[] {
  return OBSERVED.get(refusal)?.by ?? [];
}

/** When the caller heard of a refusal, by the limiter's clock; 0 for one that was not made here. */
export function toldAtMs(refusal: Refusal): number {
  return OBSERVED.get(refusal)?.toldMs ?? 0;
}

const REMEMBERED = new WeakSet<Refusal>();

/** Marks a refusal that was answered from memory, without asking the store. */
export function remembered(refusal: Refusal): Refusal {
  REMEMBERED.add(refusal);
  return refusal;
}

export function isRemembered(refusal: Refusal): boolean {
  return REMEMBERED.has(refusal);
}

/** What is not known from the store for this request is not gone by for longer. */
export const UNSURE_MS = 1_000;

/** A refusal by what stands in for the store: nobody knows when the store is back, so its waits are when to ask again. */
export function unsure(refusal: Refusal): Refusal {
  const soon = <Wait extends { readonly retryAfterMs: number }>(one: Wait): Wait =>
    one.retryAfterMs <= UNSURE_MS ? one : { ...one, retryAfterMs: UNSURE_MS };
  const told: Refusal = { ...soon(refusal), statuses: refusal.statuses.map(soon), primary: soon(refusal.primary) };
  OBSERVED.set(told, { by: observedIn(refusal), toldMs: toldAtMs(refusal) });
  return told;
}

/**
 * The status of every limit asked for, and when all of them will fit together. The primary status is that of the limit which
 * has to be waited for, and its wait is that of the whole refusal. `chain`: every level with limits, the entity that asks
 * first, which may itself be asked for nothing.
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
  OBSERVED.set(refusal, { by: observed, toldMs: times.toldMs });
  return refusal;
}

/** The first instant at which everything asked for fits together; `Infinity` if that is never. */
export function fitsAtMs(observed: readonly ObservedBucket[], nowMs: number, calendar: Calendar): number {
  // As a refusal searches, so that both say the same.
  return examined(observed, { askedMs: nowMs, toldMs: nowMs }, calendar).fitMs;
}

/** What a search has found out. `last`: the status that has to be waited for longest; -1: none. */
interface Examined {
  readonly statuses: Status[];
  readonly fitMs: number;
  readonly last: number;
}

function examined(observed: readonly ObservedBucket[], times: RefusalTimes, calendar: Calendar): Examined {
  // One for all limits and levels, their own waits included.
  const steps = new SearchSteps(times.askedMs);
  const asked = observed.flatMap((bucket) => askedOf(bucket, calendar, steps));
  const statuses = asked.map((one) => statusOf(one, times, calendar));
  return { statuses, ...firstFit(asked, times.askedMs, calendar) };
}

/** Nothing was decided and nothing was seen: all there is to say is what was asked for. */
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
  /** Where the limit stands in the search. */
  readonly walk: Walk;
}

function askedOf(observed: ObservedBucket, calendar: Calendar, steps: SearchSteps): Asked[] {
  const { bucket, state, take, leavePercent, taken, shadowed, bypass, seen } = observed;
  return take.flatMap(({ limit: name, milli }): Asked[] => {
    const before = taken && !bypass && shadowed?.includes(name) !== true ? withMore(state, name, milli) : state;
    const limit = findLimit(before, name);
    if (limit === undefined) return [];
    const walk = walkOf({ state: before, limit, milli, leavePercent }, calendar, steps);
    return [{ bucket, state: before, limit, milli, leavePercent, bypass, seen, walk }];
  });
}

/**
 * Whether a limit can never grant an amount, by the bucket and by the limits of the request. Where the two disagree, the bucket
 * goes by newer ones: configuration was changed meanwhile, or another request brought its own. Then it is a refusal.
 */
export function isCertainlyNever(
  { limits, bypass, taken, leavePercent }: Pick<ObservedBucket, "limits" | "bypass" | "taken" | "leavePercent">,
  held: LimitState,
  milli: number,
): boolean {
  const demanded = { milli, leavePercent };
  if (bypass || taken || !isNever(held, demanded)) return false;
  const own = limits.find(({ name }) => name === held.name);
  return own !== undefined && isHard(own) && !hasRoom(capacityMaxMilli(own) + (held.quota?.topUpMilli ?? 0), demanded);
}

/** The bucket as it was before an amount was taken; of shards, each has back what it has room for. */
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
    ...(resetMs === undefined ? {} : { resetsAtMs: resetMs }),
    retryAfterMs: exceeded ? Math.max(1, walk.next(askedMs).atMs - toldMs) : 0,
    ...(typeof seen === "object" ? { asOfMs: seen.atMs } : {}),
  };
}

/** What the request must leave, for people to read: rounded up, so that what is shown refuses as the exact floor does. */
function floorOf({ limit, terms }: LimitState, leavePercent: number): Pick<Status, "floor"> {
  if (leavePercent === 0 || limit.soft) return {};
  return { floor: divCeil(floorMilli(terms.capacityMilli, leavePercent), 1000) };
}

/** A quarter of a million years ahead. The largest limits take longer to fill, but dates, and with them crons, end there. */
const CALENDAR_END_MS = 8_000_000_000_000_000;

// Time can take away again what one limit needs while another is waited for. So the search goes round all limits until none
// of them moves it; the last one that did is the limit to be waited for. Each move is at least a millisecond, and where limits
// never meet the steps that they share end it.
function firstFit(asked: readonly Asked[], nowMs: number, calendar: Calendar): Pick<Examined, "fitMs" | "last"> {
  const never = asked.findIndex(({ limit, bypass, ...demanded }) => !bypass && isNever(limit, demanded));
  if (never >= 0) return { fitMs: Number.POSITIVE_INFINITY, last: never };
  // Its window never opens, however long others have to be waited for.
  const endless = asked.findIndex(({ walk, bypass }) => !bypass && walk.next(nowMs).atMs === Number.POSITIVE_INFINITY);
  if (endless >= 0) return { fitMs: Number.POSITIVE_INFINITY, last: endless };
  let fitMs = nowMs;
  let last = -1;
  for (let moved = true; moved; ) {
    moved = false;
    for (const [i, { walk, bypass }] of asked.entries()) {
      if (bypass) continue;
      const { atMs, found } = walk.next(fitMs);
      // What was bought has ended by then. Were another limit given back to, it might all have fitted before that end; then it is certain.
      if (atMs === Number.POSITIVE_INFINITY && fitMs > nowMs) {
        return { fitMs: Math.min(fitMs, boughtEndMs(asked, nowMs, calendar)), last };
      }
      if (atMs > fitMs) [fitMs, last, moved] = [atMs, i, true];
      // Not within the steps of the search, or beyond the calendar.
      if (!found || atMs > CALENDAR_END_MS) return { fitMs, last };
    }
  }
  return { fitMs, last };
}

/** The first end of what was bought, of the limits that grant what is asked for by it alone. */
function boughtEndMs(asked: readonly Asked[], nowMs: number, calendar: Calendar): number {
  const ends = asked.map(({ state, limit, bypass, ...demanded }) =>
    bypass || !isHard(limit.limit) ? undefined : boughtUntil(limit, demanded, Math.max(nowMs, state.epochMs), calendar),
  );
  return Math.min(...ends.map((end) => end?.atMs ?? Number.POSITIVE_INFINITY));
}
