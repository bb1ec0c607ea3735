import { tokensByName } from "../domain/amounts.ts";
import { measureIn, measureOf } from "../domain/measures.ts";
import { type LeaseLedger, type LeaseStatus, usedAt } from "./lease-ledger.ts";
import type { LeasePart } from "./lease-part.ts";
import { slotsFirst } from "./slot-amounts.ts";

/**
 * What was charged by measure. All limits that count a measure are charged the same: the nearest level that has one tells, charged already
 * or not yet. Slots that were given back do not say what was charged: where a rate counts the measure, too, that one tells. Neither does a
 * shadow: it tells where no other limit counts the measure, so that one more changes nothing of what is told.
 */
export function consumedIn(
  { demands }: LeasePart,
  charged: 0 | 1,
  ledger: LeaseLedger | undefined,
  status: LeaseStatus,
): Readonly<Record<string, number>> {
  const consumed: Record<string, number> = {};
  const counted = new Set<string>();
  for (const [level, { link, take }] of demands.entries()) {
    const { limits } = link.charged;
    const passed = ledger?.passed[level];
    const isShadow = (name: string) => limits.some((limit) => limit.name === name && limit.shadow === true);
    const isPassed = (name: string) => isShadow(name) || (passed?.some(({ limit }) => limit === name) ?? false);
    const own = tokensByName(ledger === undefined ? take : usedAt(ledger, level, status));
    for (const limit of slotsFirst(link.charged, own)) {
      const measure = measureIn(limits, limit);
      const tells = !counted.has(measure) && !(isPassed(limit) && Object.hasOwn(consumed, measure));
      if (tells) consumed[measure] = (own[limit] as number) * charged;
    }
    if (level + 1 < demands.length)
      for (const limit of limits) if (!isPassed(limit.name)) counted.add(measureOf(limit));
  }
  return consumed;
}
