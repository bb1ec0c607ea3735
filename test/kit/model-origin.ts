import type { LimitSet, SetOrigin } from "../../src/domain/limits/limit-set.ts";

/** Whether limits that were read as `next` come after those that were read as `last`. */
export function isNewer(next: SetOrigin, last: SetOrigin): boolean {
  if (next.generation !== null && last.generation !== null) return next.generation >= last.generation;
  if (next.asOfMs !== last.asOfMs) return next.asOfMs > last.asOfMs;
  const knowsFewer = next.changeNumber !== undefined && next.changeNumber < (last.changeNumber ?? 0);
  return !knowsFewer;
}

/** Whether two sets have the same limits in the same order. */
export function sameLimits(one: LimitSet, other: LimitSet): boolean {
  return JSON.stringify(one.limits) === JSON.stringify(other.limits);
}

/** Where a store does not count changes, their numbers go by their instants, 64 a millisecond: the highest one up to an instant. */
export function numbersUpTo(atMs: number): number {
  return atMs * 64 + 63;
}

/** The instant of such a number. */
export function instantOf(number: number): number {
  return Math.floor(number / 64);
}
