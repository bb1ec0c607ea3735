import { tokensByName } from "../domain/amounts.ts";
import { measureIn, measureOf } from "../domain/measures.ts";
import { type LeaseLedger, type LeaseStatus, usedAt } from "./lease-ledger.ts";
import type { LeasePart } from "./lease-part.ts";
import { slotsFirst } from "./slot-amounts.ts";

/** How well a limit tells what was charged: a shadow that was passed by counts before anything is written. */
const TELLING = { limit: 0, shadow: 1, passedBy: 2, nobody: 3 } as const;

/**
 * What was charged by measure. All limits that count a measure are charged the same: of those that tell it best the nearest does, charged
 * already or not yet. Slots that were given back do not say what was charged: where a rate counts the measure, too, that one tells. Neither
 * does a shadow: it tells where no other limit counts the measure, so that one more changes nothing of what is told.
 */
export function consumedIn(
  { demands }: LeasePart,
  charged: 0 | 1,
  ledger: LeaseLedger | undefined,
  status: LeaseStatus,
): Readonly<Record<string, number>> {
  const consumed: Record<string, number> = {};
  const told = new Map<string, number>();
  const toldBy = (measure: string) => told.get(measure) ?? TELLING.nobody;
  for (const [level, { link, take }] of demands.entries()) {
    const { limits } = link.charged;
    const passed = ledger?.passed[level];
    const tellingOf = (name: string): number => {
      if (passed?.some(({ limit }) => limit === name)) return TELLING.passedBy;
      return limits.some((limit) => limit.name === name && limit.shadow) ? TELLING.shadow : TELLING.limit;
    };
    const own = tokensByName(ledger === undefined ? take : usedAt(ledger, level, status));
    const here = new Map<string, number>();
    for (const limit of slotsFirst(link.charged, own)) {
      const measure = measureIn(limits, limit);
      const telling = tellingOf(limit);
      if (telling >= toldBy(measure) || telling > (here.get(measure) ?? TELLING.nobody)) continue;
      here.set(measure, telling);
      consumed[measure] = (own[limit] as number) * charged;
    }
    if (level + 1 === demands.length) break;
    for (const limit of limits) {
      const telling = tellingOf(limit.name);
      const measure = measureOf(limit);
      if (telling !== TELLING.passedBy || here.has(measure)) told.set(measure, Math.min(telling, toldBy(measure)));
    }
  }
  return consumed;
}
