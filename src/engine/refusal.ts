import { wholeTokens } from "../bucket/level.ts";
import type { Amount } from "../domain/amounts.ts";
import type { BucketKey } from "../domain/bucket-key.ts";
import { availableMilli, type BucketState, earliestMs, findLimit, type LimitState } from "../domain/bucket-state.ts";
import type { Status } from "../domain/status.ts";

/** A refusal as a value, until the public edge. */
export interface Refusal {
  readonly ok: false;
  readonly statuses: readonly Status[];
  readonly primary: Status;
  readonly retryAfterMs: number;
}

/** One bucket as it stood when it was asked, and what was asked of it. */
export interface Sight {
  readonly bucket: BucketKey;
  readonly state: BucketState;
  readonly take: readonly Amount[];
  /** Already taken in `state`; a status speaks of what there was before. */
  readonly taken: boolean;
}

/** The status of every limit asked for, and when all of them will fit together. */
export function refusalOf(sights: readonly Sight[], nowMs: number, freshNowMs: number): Refusal {
  const asked = sights.flatMap((sight) => askedOf(sight));
  const statuses = asked.map((one) => statusOf(one, nowMs));
  const { fitMs, last } = firstFit(asked, nowMs);
  const primary = statuses[last] ?? statuses.find((status) => status.exceeded) ?? (statuses[0] as Status);
  return { ok: false, statuses, primary, retryAfterMs: Math.max(1, fitMs - freshNowMs) };
}

/** The first instant at which everything asked for fits together; `Infinity` if that is never. */
export function fitsAtMs(sights: readonly Sight[], nowMs: number): number {
  return firstFit(
    sights.flatMap((sight) => askedOf(sight)),
    nowMs,
  ).fitMs;
}

interface Asked {
  readonly bucket: BucketKey;
  readonly state: BucketState;
  readonly limit: LimitState;
  readonly milli: number;
}

function askedOf({ bucket, state, take, taken }: Sight): Asked[] {
  return take.flatMap(({ limit: name, milli }) => {
    const found = findLimit(state, name);
    if (found === undefined) return [];
    const limit = taken ? { ...found, tokensMilli: found.tokensMilli + milli } : found;
    return [{ bucket, state, limit, milli }];
  });
}

function statusOf({ bucket, state, limit, milli }: Asked, nowMs: number): Status {
  const levelMilli = availableMilli(state, limit, nowMs);
  return {
    entityId: bucket.entityId,
    resource: bucket.resource,
    limit: limit.name,
    available: wholeTokens(levelMilli),
    capacity: wholeTokens(limit.terms.capacityMilli),
    requested: wholeTokens(milli),
    exceeded: levelMilli < milli,
    retryAfterMs: levelMilli < milli ? earliestMs(state, limit, milli, nowMs) - nowMs : 0,
  };
}

// Time can take away again what one limit needs while another is waited for, so the search goes round until it stands
// still; the limit that moved it last is the one to be waited for. It moves at least a millisecond each time.
function firstFit(asked: readonly Asked[], nowMs: number): { fitMs: number; last: number } {
  let fitMs = nowMs;
  let last = -1;
  for (let moved = true; moved && fitMs < Number.POSITIVE_INFINITY; ) {
    moved = false;
    for (const [i, { state, limit, milli }] of asked.entries()) {
      const atMs = earliestMs(state, limit, milli, fitMs);
      if (atMs <= fitMs) continue;
      fitMs = atMs;
      last = i;
      moved = true;
      // It never fits, as when a limit was lowered below an amount already planned: nothing is left to look for.
      if (atMs === Number.POSITIVE_INFINITY) break;
    }
  }
  return { fitMs, last };
}
