import { type Amount, tokensByName } from "../domain/amounts.ts";
import { measureIn, measureOf } from "../domain/measures.ts";
import type { LeasePart } from "./lease-part.ts";
import { slotsFirst } from "./slot-amounts.ts";

/**
 * What was charged by measure. All limits that count a measure are charged the same: the nearest level that has one tells, charged already
 * or not yet. Slots that were given back do not say what was charged: where a rate counts the measure, too, that one tells. Neither does a
 * shadow that the lease passed by: it tells where no other limit counts the measure.
 */
export function consumedIn(
  { demands }: LeasePart,
  charged: 0 | 1,
  usedAt: (level: number, take: readonly Amount[]) => readonly Amount[],
  isPassed: (level: number, limit: string) => boolean,
): Readonly<Record<string, number>> {
  const [own] = demands;
  // Nearly every lease is of one bucket with rates alone: the service tells what it consumed with every answer.
  if (own !== undefined && demands.length === 1 && !own.link.charged.isBeyondRates) {
    const { limits } = own.link.charged;
    const tokens = tokensByName(usedAt(0, own.take));
    const byMeasure: Record<string, number> = {};
    for (const limit in tokens) byMeasure[measureIn(limits, limit)] = (tokens[limit] as number) * charged;
    return byMeasure;
  }
  const consumed = new Map<string, number>();
  const counted = new Set<string>();
  for (const [level, { link, take }] of demands.entries()) {
    const own = new Map<string, number>();
    for (const { limit, milli } of usedAt(level, take))
      own.set(limit, (own.get(limit) ?? 0) + (milli / 1000) * charged);
    for (const [limit, tokens] of slotsFirst(link.charged, own)) {
      const measure = measureIn(link.charged.limits, limit);
      const tells = isPassed(level, limit) ? !consumed.has(measure) : !counted.has(measure);
      if (tells) consumed.set(measure, tokens);
    }
    for (const limit of link.charged.limits) if (!isPassed(level, limit.name)) counted.add(measureOf(limit));
  }
  return Object.fromEntries(consumed);
}
