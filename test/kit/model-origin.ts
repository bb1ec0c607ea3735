import { numberOfInstant } from "../../src/domain/config/change-number.ts";
import type { LimitSet, SetOrigin } from "../../src/domain/limits/limit-set.ts";

/** Whether limits that were read as `next` come after those that were read as `last`. */
export function isNewer(next: SetOrigin, last: SetOrigin): boolean {
  const knowsFewer = next.changeNumber !== undefined && next.changeNumber < (last.changeNumber ?? 0);
  if (next.generation !== null && last.generation !== null) return !knowsFewer && next.generation >= last.generation;
  // A clock that is behind lets an override go on whose end the bucket has met.
  const isBehind = next.ends?.some(({ atMs }) => numberOfInstant(atMs) <= (last.changeNumber ?? 0)) ?? false;
  if (knowsFewer && isBehind) return false;
  if (next.asOfMs !== last.asOfMs) return next.asOfMs > last.asOfMs;
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
