import { type Limit, termsOf } from "../../src/domain/limits/limit.ts";
import { type Calendar, TZ_DEFAULT } from "../../src/domain/limits/schedule.ts";
import { encodeReset, encodeSchedule } from "../../src/domain/limits/schedule-grammar.ts";
import type { Clause, Item, ItemKey, ItemValue, ItemWrite } from "../../src/ports/item-store.ts";
import { namesOf, RSCHED, SCHED, SCHED_TZ, WCU } from "../../src/protocol/item/attributes.ts";
import { lastEdgeMs, nextEdgeMs } from "./original-terms.ts";

/** A write of an item that is there. */
export function change(key: ItemKey, given: Partial<ItemWrite>): ItemWrite {
  return { key, kind: "update", item: "exists", when: [], set: {}, add: {}, remove: [], trace: undefined, ...given };
}

/** That an attribute is still what it was when it was read; or still not there. */
export function asSeen(item: Item, name: string): Clause {
  const value = item[name];
  return [value === undefined ? { name, is: "absent" } : { name, is: "=", value }];
}

/** What the item says of a limit's numbers: configured, undivided, outside all windows. */
export function parameterWords(limit: Limit): Item {
  const names = namesOf(limit.name);
  const { capacityMilli, refillAmountMilli, refillPeriodMs } = termsOf(limit);
  return { [names.cp]: capacityMilli, [names.ra]: refillAmountMilli, [names.rp]: refillPeriodMs };
}

/** The counter of writes as an item is born with it. */
export function writesWords(): Item {
  const names = namesOf(WCU);
  return { [names.tk]: 1_000_000, [names.cp]: 1_000_000, [names.ra]: 1_000_000, [names.rp]: 1_000, [names.tc]: 0 };
}

/** The texts that all limits of an item go by that have none of their own: those of the first limit that has any. */
export function commonWords(limits: readonly Limit[]): Item {
  const words: Record<string, ItemValue> = {};
  for (const limit of limits) {
    const { sched, rsched, tz } = textsOf(limit);
    if (sched !== undefined) words[SCHED] ??= sched;
    if (rsched !== undefined) words[RSCHED] ??= rsched;
    if (tz !== undefined) words[SCHED_TZ] = tz;
  }
  return words;
}

/** The texts of a limit where they differ from the item's; "-" where the item has one and the limit has none. */
export function ownWords(limit: Limit, common: Item): Item {
  const names = namesOf(limit.name);
  const { sched, rsched } = textsOf(limit);
  const words: Record<string, ItemValue> = {};
  if (sched !== common[SCHED]) words[names.sched] = sched ?? "-";
  if (rsched !== common[RSCHED]) words[names.rsched] = rsched ?? "-";
  return words;
}

/** The zone in which the limit goes by the calendar, if it does. */
export function zoneOf(limit: Limit): string | undefined {
  return textsOf(limit).tz;
}

/** When time next does something other than drip; undefined when it never does. */
export function validUntilMs(limits: readonly Limit[], nowMs: number, calendar: Calendar): number | undefined {
  let untilMs: number | undefined;
  for (const limit of limits) {
    const boundaries = (limit.schedule ?? []).map(({ cron, tz }) => calendar.nextChange(cron, tz ?? TZ_DEFAULT, nowMs));
    if (limit.reset !== undefined) boundaries.push(nextEdgeMs(limit, nowMs, calendar));
    for (const atMs of boundaries) untilMs = Math.min(untilMs ?? Number.POSITIVE_INFINITY, atMs, nowMs + HORIZON_MS);
  }
  return untilMs;
}

/** When an item of these limits expires, in seconds; undefined: not at all. Debts do not make it live longer. */
export function expiresAtS(limits: readonly Limit[], nowMs: number, calendar: Calendar): number | undefined {
  const fillS = limits.map((limit) => {
    const { capacity, refillAmount, refillPeriodMs } = limit;
    if (limit.reset === undefined) return (capacity / refillAmount) * (refillPeriodMs / 1000);
    return (nextEdgeMs(limit, nowMs, calendar) - lastEdgeMs(limit, nowMs, calendar)) / 1000;
  });
  const keptS = Math.trunc(Math.max(...fillS) * TTL_MULTIPLIER);
  return keptS > 0 && Number.isFinite(keptS) ? Math.floor(nowMs / 1000) + keptS : undefined;
}

/** Until when a limit is stamped soft, somewhat by chance so that not all shards have to be stamped at once. */
export function softUntilMs(nowMs: number, random: () => number): number {
  return nowMs + Math.floor(STAMP_MS * (0.8 + 0.2 * random()));
}

const TTL_MULTIPLIER = 7;
const STAMP_MS = 60_000;
const HORIZON_MS = 366 * 86_400_000;

interface LimitTexts {
  readonly sched: string | undefined;
  readonly rsched: string | undefined;
  readonly tz: string | undefined;
}

function textsOf({ schedule, reset }: Limit): LimitTexts {
  const windows = schedule === undefined ? undefined : encodeSchedule(schedule);
  return {
    sched: windows?.compact,
    rsched: reset === undefined ? undefined : encodeReset(reset.cron),
    tz: windows?.tz ?? (reset === undefined ? undefined : (reset.tz ?? TZ_DEFAULT)),
  };
}
