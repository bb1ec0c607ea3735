import { onlyShadowed, withoutShadowed } from "../bucket/bucket-questions.ts";
import type { Ticket } from "../bucket/give-back.ts";
import { type Amount, measureIn, measureOf, milliOf, sumByLimit } from "../charge/amounts.ts";
import { rulesOf } from "../limits/kinds/table.ts";
import type { LimitSet } from "../limits/limit-set.ts";
import { type Holding, returnsOf, withTaken } from "./holding.ts";

/** The tokens that a lease has taken of one level. A lease in a process keeps the value in memory, a stored lease in its record. */
export interface LevelUse {
  readonly held: readonly Holding[];
  /** Amounts asked of shadow limits that would have refused them: shown, and neither charged nor given back. Undefined: none. */
  readonly passed: readonly Amount[] | undefined;
}

export const NO_USE: LevelUse = { held: [], passed: undefined };

/** The use after a take or a debit. */
export function usedMore({ held, passed }: LevelUse, amounts: readonly Amount[], ticket: Ticket): LevelUse {
  const byShadows = onlyShadowed(amounts, ticket.shadowed);
  return {
    held: withTaken(held, withoutShadowed(amounts, ticket.shadowed), ticket),
    passed: byShadows.length === 0 ? passed : withPassed(passed ?? [], byShadows),
  };
}

function withPassed(passed: readonly Amount[], more: readonly Amount[]): readonly Amount[] {
  const others = passed.filter(({ limit }) => more.every((amount) => amount.limit !== limit));
  return [...others, ...more.map(({ limit, milli }) => ({ limit, milli: milli + milliOf(passed, limit) }))];
}

/** The parts of the holdings to give back for these amounts, at most what is held. */
export function returnsFrom({ held, passed }: LevelUse, amounts: readonly Amount[]): readonly Holding[] {
  return returnsOf(held, notPassed(passed, amounts));
}

/** The passed amounts after each limit was changed by so much, at least 0. */
export function passedAfter(passed: readonly Amount[], change: readonly Amount[]): readonly Amount[] {
  return passed.map(({ limit, milli }) => ({ limit, milli: Math.max(0, milli + milliOf(change, limit)) }));
}

/** The amounts without those of limits that a lease passed by. */
export function notPassed(passed: readonly Amount[] | undefined, amounts: readonly Amount[]): readonly Amount[] {
  if (passed === undefined) return amounts;
  return amounts.filter(({ limit }) => passed.every((one) => one.limit !== limit));
}

/** The amounts that a lease holds of one level. */
export function amountsHeld({ held }: LevelUse): readonly Amount[] {
  return held.flatMap((holding) => holding.held);
}

/** The use of a level by the limits that the lease is charged to. */
interface UsedLevel {
  readonly charged: LimitSet;
  readonly use: LevelUse;
}

/** Ranks how well a limit tells what was charged: a shadow that was passed by counts before anything is written. */
const TELLING = { limit: 0, shadow: 1, passedBy: 2, nobody: 3 } as const;

/**
 * The charge of a lease by measure, in millitokens. All limits that count a measure are charged the same, so the limit that tells it best
 * is read; of several, that of the nearest level. Slots that were given back do not say what was charged: a rate that counts the measure
 * tells instead. A shadow tells only if no other limit counts the measure, so that adding one changes nothing.
 */
export function consumedOf(levels: readonly UsedLevel[]): ReadonlyMap<string, number> {
  const consumed = new Map<string, number>();
  const told = new Map<string, number>();
  const toldBy = (measure: string) => told.get(measure) ?? TELLING.nobody;
  for (const [level, { charged, use }] of levels.entries()) {
    const { limits } = charged;
    const { passed = [] } = use;
    const tellingOf = (name: string): number => {
      if (passed.some(({ limit }) => limit === name)) return TELLING.passedBy;
      return limits.some((limit) => limit.name === name && limit.shadow) ? TELLING.shadow : TELLING.limit;
    };
    const here = new Map<string, number>();
    for (const { limit, milli } of slotsFirst(charged, sumByLimit([...amountsHeld(use), ...passed]))) {
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

/** The amounts, those of slots first. */
function slotsFirst({ limits, isBeyondRates }: LimitSet, amounts: readonly Amount[]): readonly Amount[] {
  if (!isBeyondRates) return amounts;
  const isSlots = (name: string) => limits.some((limit) => limit.name === name && rulesOf(limit).holdsSlots);
  return amounts.toSorted((a, b) => Number(isSlots(b.limit)) - Number(isSlots(a.limit)));
}
