import { wholeTokens } from "../bucket/level.ts";
import type { Amount } from "../domain/amounts.ts";
import type { BucketKey } from "../domain/bucket-key.ts";
import { resetsAtMs } from "../domain/bucket-operations.ts";
import { availableMilli, type BucketState, findLimit, type LimitState } from "../domain/bucket-state.ts";
import type { Calendar } from "../domain/calendar.ts";
import { kindOf } from "../domain/limit.ts";
import { searchFor, searchUntouched } from "../domain/limit-state.ts";
import type { Status } from "../domain/status.ts";

/** A refusal as a value, until the public edge. */
export interface Refusal {
  readonly ok: false;
  readonly statuses: readonly Status[];
  readonly primary: Status;
  readonly retryAfterMs: number;
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

/** The status of every limit asked for, and when all of them will fit together. */
export function refusalOf(
  observed: readonly ObservedBucket[],
  nowMs: number,
  freshNowMs: number,
  calendar: Calendar,
): Refusal {
  const asked = observed.flatMap((bucket) => askedOf(bucket));
  const statuses = asked.map((one) => statusOf(one, nowMs, calendar));
  const { fitMs, last } = firstFit(asked, nowMs, calendar);
  const primary = statuses[last] ?? statuses.find((status) => status.exceeded) ?? (statuses[0] as Status);
  return { ok: false, statuses, primary, retryAfterMs: Math.max(1, fitMs - freshNowMs) };
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
    const found = findLimit(state, name);
    if (found === undefined) return [];
    const limit = taken && !bypass ? { ...found, tokensMilli: found.tokensMilli + milli } : found;
    return [{ bucket, state, limit, milli, bypass }];
  });
}

function statusOf({ bucket, state, limit, milli, bypass }: Asked, nowMs: number, calendar: Calendar): Status {
  const levelMilli = availableMilli(state, limit, nowMs);
  const exceeded = !bypass && !limit.limit.soft && levelMilli < milli;
  const resetMs = resetsAtMs(limit, Math.max(nowMs, state.epochMs), calendar);
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
    retryAfterMs: exceeded ? search({ state, limit, milli }, nowMs, calendar).atMs - nowMs : 0,
  };
}

function search({ state, limit, milli }: Pick<Asked, "state" | "limit" | "milli">, fromMs: number, calendar: Calendar) {
  return state.untouched
    ? searchUntouched(limit.limit, milli, fromMs, calendar)
    : searchFor(limit, state.epochMs, milli, fromMs, calendar);
}

/** A quarter of a million years ahead, where dates end soon: the largest limits take longer to fill, crons know nothing there. */
const CALENDAR_END_MS = 8_000_000_000_000_000;

/** Limits whose windows never meet would be searched for without end; the answer is then when to ask again. */
const ROUNDS_MAX = 100;

// Time can take away again what one limit needs while another is waited for, so the search goes round until it stands
// still; the limit that moved it last is the one to be waited for. It moves at least a millisecond each time.
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
      const { atMs, found } = search({ state, limit, milli }, fitMs, calendar);
      if (atMs <= fitMs) continue;
      fitMs = atMs;
      last = i;
      moved = true;
      // It never fits, as when a limit was lowered below an amount already planned, or not as far as is looked: nothing is
      // left to look for.
      if (!found || atMs > CALENDAR_END_MS) return { fitMs, last };
    }
  }
  return { fitMs, last };
}
