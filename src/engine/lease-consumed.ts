import { measureIn, measureOf } from "../domain/measures.ts";
import { type LeaseLedger, type LeaseStatus, usedAt } from "./lease-ledger.ts";
import type { LeasePart } from "./lease-part.ts";
import { slotsFirst } from "./slot-amounts.ts";

/**
 * What was charged by measure. All limits that count a measure are charged the same: the nearest level that has one tells, charged already
 * or not yet. Slots that were given back do not say what was charged: where a rate counts the measure, too, that one tells. Neither does a
 * shadow that the lease passed by: it tells where no other limit counts the measure. `ledger`: undefined while nothing happened to the
 * lease but its take.
 */
export function consumedIn(
  { demands }: LeasePart,
  charged: 0 | 1,
  ledger: LeaseLedger | undefined,
  status: LeaseStatus,
): Readonly<Record<string, number>> {
  const consumed = new Map<string, number>();
  const counted = new Set<string>();
  const isPassed = (level: number, name: string) => ledger?.passed[level]?.some(({ limit }) => limit === name) ?? false;
  for (const [level, { link, take }] of demands.entries()) {
    const own = new Map<string, number>();
    for (const { limit, milli } of ledger === undefined ? take : usedAt(ledger, level, status))
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
