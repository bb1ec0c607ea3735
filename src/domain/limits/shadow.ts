import { availableMilli, type BucketState, findLimit } from "../bucket/bucket-state.ts";
import type { Amount } from "../charge/amounts.ts";
import { neededMilli } from "./floor.ts";

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

/** The amounts without those of the limits that they passed by. */
export function withoutShadowed(amounts: readonly Amount[], shadowed: readonly string[]): readonly Amount[] {
  return shadowed.length === 0 ? amounts : amounts.filter(({ limit }) => !shadowed.includes(limit));
}

/** Those of the limits that they passed by. */
export function onlyShadowed(amounts: readonly Amount[], shadowed: readonly string[]): readonly Amount[] {
  return shadowed.length === 0 ? [] : amounts.filter(({ limit }) => shadowed.includes(limit));
}
