import { levelMilli } from "../bucket/level.ts";
import { type BucketState, changedLimit, findLimit, type LimitState } from "./bucket-state.ts";
import type { Calendar } from "./calendar.ts";
import { capacityMaxMilli } from "./limit.ts";
import {
  advanceLimit,
  BOUNDARIES_SEARCHED,
  boundaryAfter,
  type Found,
  searchFor,
  searchUntouched,
} from "./limit-state.ts";

/**
 * The first instant, not before `fromMs`, at which a limit of a bucket grants the amount, if nothing is taken meanwhile;
 * `Infinity` when it never will. Of a bucket in shards: at which they have it together.
 */
export function searchIn(
  { state, limit, milli }: { readonly state: BucketState; readonly limit: LimitState; readonly milli: number },
  fromMs: number,
  calendar: Calendar,
): Found {
  if (state.untouched) return searchUntouched(limit.limit, milli, fromMs, calendar);
  if (state.shards === undefined) return searchFor(limit, state.epochMs, milli, fromMs, calendar);
  if (limit.limit.soft) return { atMs: fromMs, found: true };
  const parts = state.shards.flatMap((shard): Part[] => {
    const held = findLimit(shard, limit.name);
    return held === undefined ? [] : [underLimit({ held, epochMs: shard.epochMs }, limit, fromMs, calendar)];
  });
  return searchTogether(parts, milli, fromMs, calendar);
}

/** A shard that has not heard of the newest limit yet does with the next claim: the wait is by that one. */
function underLimit(part: Part, { limit }: LimitState, atMs: number, calendar: Calendar): Part {
  if (part.held.limit === limit) return part;
  const { held, epochMs } = advancedTo(part, atMs, calendar);
  return { held: changedLimit(held, limit, epochMs, calendar), epochMs };
}

/** A limit on one shard, and the epoch that its tokens are relative to. */
interface Part {
  readonly held: LimitState;
  readonly epochMs: number;
}

// Between two boundaries what the shards hold together never falls, so the first instant at which it suffices can be
// searched for by halves. At a boundary a window may clip it, or a reset fill it.
function searchTogether(shards: readonly Part[], milli: number, fromMs: number, calendar: Calendar): Found {
  const [first] = shards;
  const isNever = first === undefined || milli > capacityMaxMilli(first.held.limit);
  let parts = shards.map((part) => advancedTo(part, fromMs, calendar));
  let atMs = fromMs;
  // All shards together are searched no further than one bucket is: a boundary costs each of them.
  const boundariesMax = BOUNDARIES_SEARCHED / Math.max(1, parts.length);
  for (let passed = 0; passed < boundariesMax; passed++) {
    if (heldAt(parts, atMs) >= milli) return { atMs, found: true };
    // Nothing but a top-up makes room for it, and that is spent down, never up, until it ends.
    if (isNever) return { atMs: Number.POSITIVE_INFINITY, found: true };
    const nextMs = Math.min(
      ...parts.map(({ held, epochMs }) => boundaryAfter(held, Math.max(epochMs, atMs), calendar)),
    );
    const fitsMs = firstIn(parts, milli, { afterMs: atMs, beforeMs: nextMs });
    if (fitsMs !== undefined) return { atMs: fitsMs, found: true };
    if (nextMs === Number.POSITIVE_INFINITY) return { atMs: nextMs, found: true };
    atMs = nextMs;
    parts = parts.map((part) => advancedTo(part, nextMs, calendar));
  }
  return { atMs, found: false };
}

function advancedTo({ held, epochMs }: Part, atMs: number, calendar: Calendar): Part {
  if (atMs <= epochMs) return { held, epochMs };
  return { held: advanceLimit(held, epochMs, atMs, calendar), epochMs: atMs };
}

function heldAt(parts: readonly Part[], atMs: number): number {
  let sumMilli = 0;
  for (const { held, epochMs } of parts) sumMilli += levelMilli(held, held.terms, atMs - epochMs);
  return sumMilli;
}

/** The first instant after one and before another at which they hold so much; undefined where they never do. */
function firstIn(
  parts: readonly Part[],
  milli: number,
  { afterMs, beforeMs }: { readonly afterMs: number; readonly beforeMs: number },
): number | undefined {
  let [early, late] = [afterMs, afterMs];
  for (let spanMs = 1; heldAt(parts, late) < milli; spanMs *= 2) {
    if (late >= beforeMs - 1 || spanMs > SPAN_MAX_MS) return undefined;
    early = late;
    late = Math.min(afterMs + spanMs, beforeMs - 1);
  }
  while (late - early > 1) {
    const middleMs = Math.floor((early + late) / 2);
    if (heldAt(parts, middleMs) >= milli) late = middleMs;
    else early = middleMs;
  }
  return late;
}

/** Some 1,100 years. The largest limits take longer to fill; their waits are reported as `Infinity`. */
const SPAN_MAX_MS = 2 ** 45;
