import { wholeTokens } from "../bucket/level.ts";
import type { Amount } from "../domain/amounts.ts";
import type { BucketKey } from "../domain/bucket-key.ts";
import { resetsAtMs } from "../domain/bucket-operations.ts";
import { availableMilli, type BucketState, findLimit, type LimitState } from "../domain/bucket-state.ts";
import type { Calendar } from "../domain/calendar.ts";
import { searchIn } from "../domain/earliest.ts";
import { kindOf } from "../domain/limit.ts";
import type { Status } from "../domain/status.ts";

/** A refusal as a value, until the public edge. */
export interface Refusal {
  /** Always false. */
  readonly ok: false;
  /** Every limit that was asked for, those that had enough included. */
  readonly statuses: readonly Status[];
  /** The limit that must be waited for longest. */
  readonly primary: Status;
  /** When to ask again; `Infinity`: never. */
  readonly retryAfterMs: number;
  /** Ids of those that were asked: the entity, then the parents that count the request. */
  readonly levels: readonly string[];
}

/** One bucket as it stood when it was asked, and what was asked of it. */
export interface ObservedBucket {
  readonly bucket: BucketKey;
  readonly state: BucketState;
  readonly take: readonly Amount[];
  /** Already taken in `state`; a status speaks of what there was before. */
  readonly taken: boolean;
  /** Nothing is debited, so nothing can be short. */
  readonly bypass: boolean;
}

/** The times of a refusal: when the buckets were asked, and when the caller hears of it, from where waits count. */
export interface RefusalTimes {
  readonly askedMs: number;
  readonly toldMs: number;
}

// Not on the refusal itself: it is part of the public interface.
const OBSERVED = new WeakMap<Refusal, readonly ObservedBucket[]>();

/** The buckets that a refusal was decided by. */
export function observedIn(refusal: Refusal): readonly ObservedBucket[] {
  return OBSERVED.get(refusal) ?? [];
}

/**
 * The status of every limit asked for, and when all of them will fit together. The primary status is that of the limit which
 * has to be waited for, and its wait is that of the whole refusal.
 */
export function refusalOf(observed: readonly ObservedBucket[], times: RefusalTimes, calendar: Calendar): Refusal {
  const asked = observed.flatMap((bucket) => askedOf(bucket));
  const statuses = asked.map((one) => statusOf(one, times, calendar));
  const { fitMs, last } = firstFit(asked, times.askedMs, calendar);
  const retryAfterMs = Math.max(1, fitMs - times.toldMs);
  const exceeded = statuses.findIndex((status) => status.exceeded);
  const waitedFor = last >= 0 ? last : Math.max(0, exceeded);
  const primary = { ...(statuses[waitedFor] as Status), retryAfterMs };
  statuses[waitedFor] = primary;
  const levels = [...new Set(observed.map(({ bucket }) => bucket.entityId))];
  const refusal: Refusal = { ok: false, statuses, primary, retryAfterMs, levels };
  OBSERVED.set(refusal, observed);
  return refusal;
}

/** The first instant at which everything asked for fits together; `Infinity` if that is never. */
export function fitsAtMs(observed: readonly ObservedBucket[], nowMs: number, calendar: Calendar): number {
  return firstFit(
    observed.flatMap((bucket) => askedOf(bucket)),
    nowMs,
    calendar,
  ).fitMs;
}

interface Asked {
  readonly bucket: BucketKey;
  readonly state: BucketState;
  readonly limit: LimitState;
  readonly milli: number;
  readonly bypass: boolean;
}

function askedOf({ bucket, state, take, taken, bypass }: ObservedBucket): Asked[] {
  return take.flatMap(({ limit: name, milli }) => {
    const before = taken && !bypass ? withMore(state, name, milli) : state;
    const limit = findLimit(before, name);
    return limit === undefined ? [] : [{ bucket, state: before, limit, milli, bypass }];
  });
}

/** The bucket as it was before an amount was taken; of shards, each has back what it has room for. */
function withMore(state: BucketState, name: string, milli: number): BucketState {
  const add = (some: number) => (held: LimitState) =>
    held.name === name ? { ...held, tokensMilli: held.tokensMilli + some } : held;
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
  { bucket, state, limit, milli, bypass }: Asked,
  { askedMs, toldMs }: RefusalTimes,
  calendar: Calendar,
): Status {
  const levelMilli = availableMilli(state, limit, askedMs);
  const exceeded = !bypass && !limit.limit.soft && levelMilli < milli;
  const resetMs = resetsAtMs(limit, Math.max(askedMs, state.epochMs), calendar);
  return {
    entityId: bucket.entityId,
    resource: bucket.resource,
    limit: limit.name,
    available: wholeTokens(levelMilli),
    capacity: wholeTokens(limit.terms.capacityMilli),
    requested: wholeTokens(milli),
    exceeded,
    kind: kindOf(limit.limit),
    soft: limit.limit.soft === true,
    ...(resetMs === undefined ? {} : { resetsAtMs: resetMs }),
    retryAfterMs: exceeded ? Math.max(1, searchIn({ state, limit, milli }, askedMs, calendar).atMs - toldMs) : 0,
  };
}

/** A quarter of a million years ahead. The largest limits take longer to fill, but dates, and with them crons, end there. */
const CALENDAR_END_MS = 8_000_000_000_000_000;

/** Limits whose windows never meet would be searched for without end; the answer is then when to ask again. */
const ROUNDS_MAX = 100;

// Time can take away again what one limit needs while another is waited for. So the search goes round all limits until none
// of them moves it; the last one that did is the limit to be waited for. Each move is at least a millisecond.
function firstFit(
  asked: readonly Asked[],
  nowMs: number,
  calendar: Calendar,
): { readonly fitMs: number; readonly last: number } {
  let fitMs = nowMs;
  let last = -1;
  for (let moved = true, rounds = 0; moved && rounds < ROUNDS_MAX; rounds++) {
    moved = false;
    for (const [i, { state, limit, milli, bypass }] of asked.entries()) {
      if (bypass) continue;
      const { atMs, found } = searchIn({ state, limit, milli }, fitMs, calendar);
      if (atMs <= fitMs) continue;
      fitMs = atMs;
      last = i;
      moved = true;
      // It never fits, as when a limit was lowered below an amount already planned, or not within the horizon of the search.
      if (!found || atMs > CALENDAR_END_MS) return { fitMs, last };
    }
  }
  return { fitMs, last };
}
