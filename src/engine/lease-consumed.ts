import { type Amount, tokensByName } from "../domain/amounts.ts";
import { measureIn, measureOf } from "../domain/measures.ts";
import type { LeasePart } from "./lease-part.ts";
import { slotsFirst } from "./slot-amounts.ts";

/**
 * What was charged by measure. All limits that count a measure are charged the same: the nearest level that has one tells, charged already
 * or not yet. Slots that were given back do not say what was charged: where a rate counts the measure, too, that one tells.
 */
export function consumedIn(
  { demands }: LeasePart,
  charged: 0 | 1,
  usedAt: (level: number, take: readonly Amount[]) => readonly Amount[],
): Readonly<Record<string, number>> {
  const consumed: Record<string, number> = {};
  const counted = new Set<string>();
  for (const [level, { link, take }] of demands.entries()) {
    const { limits } = link.charged;
    const own = tokensByName(usedAt(level, take));
    for (const limit of slotsFirst(link.charged, own)) {
      const measure = measureIn(limits, limit);
      if (!counted.has(measure)) consumed[measure] = (own[limit] as number) * charged;
    }
    if (level + 1 < demands.length) for (const limit of limits) counted.add(measureOf(limit));
  }
  return consumed;
}
