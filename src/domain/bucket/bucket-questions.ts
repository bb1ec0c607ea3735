import type { Amount } from "../charge/amounts.ts";
import { isHard } from "../limits/limit.ts";
import { neededMilli } from "../limits/limit-numbers.ts";
import type { Calendar } from "../limits/schedule.ts";
import { advanced, availableMilli, type BucketState, findLimit } from "./bucket-state.ts";
import { isForgettable } from "./limit-state.ts";

// Questions about a bucket that change nothing.

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

const NONE: readonly string[] = Object.freeze([]);

/**
 * Names of the shadow limits that would have refused the amounts: decided like hard limits, each by itself. Nothing is taken of them.
 * The bucket must be as it stands at that time (`bucketFor`).
 */
export function shadowedOf(
  state: BucketState,
  amounts: readonly Amount[],
  nowMs: number,
  leavePercent: number | undefined,
): readonly string[] {
  if (state.plain) return NONE;
  let shadowed: string[] | undefined;
  for (let a = 0; a < amounts.length; a++) {
    const { limit: name, milli } = amounts[a] as Amount;
    const held = findLimit(state, name);
    if (held === undefined || held.limit.shadow !== true) continue;
    const needed = neededMilli(milli, held.terms.capacityMilli, leavePercent ?? 0);
    if (availableMilli(state, held, nowMs) >= needed) continue;
    shadowed ??= [];
    shadowed.push(name);
  }
  return shadowed ?? NONE;
}

/** The amounts but for those of shadow limits that they passed by. */
export function withoutShadowed(amounts: readonly Amount[], shadowed: readonly string[]): readonly Amount[] {
  return shadowed.length === 0 ? amounts : amounts.filter(({ limit }) => !shadowed.includes(limit));
}

/** The amounts of those limits that they passed by. */
export function onlyShadowed(amounts: readonly Amount[], shadowed: readonly string[]): readonly Amount[] {
  return shadowed.length === 0 ? [] : amounts.filter(({ limit }) => shadowed.includes(limit));
}
