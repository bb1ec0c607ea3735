import type { Amount } from "../charge/amounts.ts";
import type { Calendar } from "../limits/calendar.ts";
import { neededMilli } from "../limits/floor.ts";
import { isHard } from "../limits/limit.ts";
import { advanced, availableMilli, type BucketState, findLimit } from "./bucket-state.ts";
import { isForgettable } from "./limit-state.ts";

// What is asked of a bucket without changing it.

/** Whether every amount could be taken at `nowMs`, and the floor be left. */
export function fits(
  state: BucketState,
  amounts: readonly Amount[],
  nowMs: number,
  leavePercent: number | undefined,
): boolean {
  return amounts.every(({ limit, milli }) => {
    const held = findLimit(state, limit);
    if (held === undefined || !isHard(held.limit)) return true;
    return availableMilli(state, held, nowMs) >= neededMilli(milli, held.terms.capacityMilli, leavePercent ?? 0);
  });
}

/** Names of the soft limits among the amounts that are below zero. */
export function overdrawnOf(state: BucketState, amounts: readonly Amount[], nowMs: number): readonly string[] {
  if (state.plain) return NONE;
  return amounts.flatMap(({ limit: name }) => {
    const limit = findLimit(state, name);
    return limit?.limit.soft && availableMilli(state, limit, nowMs) < 0 ? [name] : [];
  });
}

const NONE: readonly string[] = Object.freeze([]);

/**
 * Whether the bucket, left alone, is full in every limit and was so `idleMs` ago: then it equals one that does not exist,
 * also for a client whose clock is behind by less.
 */
export function isIdle(state: BucketState, idleMs: number, nowMs: number, calendar: Calendar): boolean {
  const since = nowMs - idleMs;
  return [since, nowMs].every(
    (atMs) =>
      atMs > state.epochMs && advanced(state, atMs, calendar).limits.every((limit) => isForgettable(limit, atMs)),
  );
}
