import type { Amount } from "../charge/amounts.ts";
import { measureIn, measureOf } from "../charge/measures.ts";
import { rulesOf } from "../limits/kinds/table.ts";
import type { LimitSet } from "../limits/limit-set.ts";

/** What a lease has used of one level. */
interface UsedLevel {
  /** The limits that it is charged to. */
  readonly charged: LimitSet;
  /** What it holds of them, and what passed by shadows. */
  readonly used: readonly Amount[];
  /** What was asked of shadow limits that would have refused it: it is shown, and neither charged nor given back. */
  readonly passed: readonly Amount[] | undefined;
}

/** How well a limit tells what was charged: a shadow that was passed by counts before anything is written. */
const TELLING = { limit: 0, shadow: 1, passedBy: 2, nobody: 3 } as const;

/**
 * What a lease was charged by measure, in millitokens. All limits that count a measure are charged the same: of those that tell it best the
 * nearest does, charged already or not yet. Slots that were given back do not say what was charged: where a rate counts the measure, too,
 * that one tells. Neither does a shadow: it tells where no other limit counts the measure, so that one more changes nothing of what is told.
 */
export function consumedOf(levels: readonly UsedLevel[]): ReadonlyMap<string, number> {
  const consumed = new Map<string, number>();
  const told = new Map<string, number>();
  const toldBy = (measure: string) => told.get(measure) ?? TELLING.nobody;
  for (const [level, { charged, used, passed }] of levels.entries()) {
    const { limits } = charged;
    const tellingOf = (name: string): number => {
      if (passed?.some(({ limit }) => limit === name)) return TELLING.passedBy;
      return limits.some((limit) => limit.name === name && limit.shadow) ? TELLING.shadow : TELLING.limit;
    };
    const here = new Map<string, number>();
    for (const [limit, milli] of slotsFirst(charged, used)) {
      const measure = measureIn(limits, limit);
      const telling = tellingOf(limit);
      if (telling >= toldBy(measure) || telling > (here.get(measure) ?? TELLING.nobody)) continue;
      here.set(measure, telling);
      consumed.set(measure, milli);
    }
    if (level + 1 === levels.length) break;
    for (const limit of limits) {
      const telling = tellingOf(limit.name);
      const measure = measureOf(limit);
      if (telling !== TELLING.passedBy || here.has(measure)) told.set(measure, Math.min(telling, toldBy(measure)));
    }
  }
  return consumed;
}

/** The sums by limit, those of limits on how many are at once first. */
function slotsFirst({ limits, isBeyondRates }: LimitSet, used: readonly Amount[]): Iterable<readonly [string, number]> {
  const sums = new Map<string, number>();
  for (const { limit, milli } of used) sums.set(limit, (sums.get(limit) ?? 0) + milli);
  if (!isBeyondRates) return sums;
  const isSlots = (name: string) => limits.some((limit) => limit.name === name && rulesOf(limit).holdsSlots);
  return [...sums].sort(([a], [b]) => Number(isSlots(b)) - Number(isSlots(a)));
}

/** What passed by shadows, with more of it. */
export function withPassed(passed: readonly Amount[] | undefined, more: readonly Amount[]): readonly Amount[] {
  const before = passed ?? [];
  const others = before.filter(({ limit }) => more.every((amount) => amount.limit !== limit));
  const sums = more.map(({ limit, milli }) => {
    return { limit, milli: milli + (before.find((one) => one.limit === limit)?.milli ?? 0) };
  });
  return [...others, ...sums];
}

/** The amounts without those of limits that a lease passed by. */
export function notPassed(passed: readonly Amount[] | undefined, amounts: readonly Amount[]): readonly Amount[] {
  if (passed === undefined) return amounts;
  return amounts.filter(({ limit }) => passed.every((one) => one.limit !== limit));
}
