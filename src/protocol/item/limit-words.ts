import type { LimitState } from "../../domain/bucket-state.ts";
import type { Calendar } from "../../domain/calendar.ts";
import type { Damage } from "../../domain/item-unreadable.ts";
import type { KindStored } from "../../domain/kinds/kind.ts";
import { formOf, STORED, storedOf } from "../../domain/kinds/table.ts";
import type { Limit } from "../../domain/limit.ts";
import { notifyAtOf } from "../../domain/limit-numbers.ts";
import type { LimitSet } from "../../domain/limit-set.ts";
import { TZ_DEFAULT } from "../../domain/schedule.ts";
import { decodeSchedule, encodeSchedule } from "../../domain/schedule-grammar.ts";
import type { Item, ItemValue } from "../../ports/item-store.ts";
import { type LimitNames, namesOf, SCHED, SCHED_TZ } from "./attributes.ts";
import { storeEnds } from "./stored-slices.ts";

/** What of an item cannot be read. */
export interface Damaged {
  readonly kind: "damaged";
  readonly damage: Damage;
}

/** Attributes of a limit that follow from configuration and period; without tokens and counters. */
export function encodedLimit(
  { name, limit, remainder, quota, slices, rememberUntilMs, resetsBefore }: LimitState,
  softUntilMs: number,
  zone: string | undefined,
): Item {
  const names = namesOf(name);
  const { ct, cp, ra, rp, sched, own, soft, shadow, tz, na } = wordsOf(limit);
  const item: Record<string, ItemValue> = { [names.cp]: cp, [names.ra]: ra, [names.rp]: rp };
  if (ct !== undefined) item[names.ct] = ct;
  if (sched !== undefined) item[names.sched] = sched;
  if (own !== undefined) item[names[own.attribute]] = own.value;
  if (soft) item[names.soft] = softUntilMs;
  if (shadow) item[names.sh] = 1;
  if (na !== undefined) item[names.na] = na;
  if (tz !== undefined && tz !== zone) item[names.tz] = tz;
  if (remainder !== 0) item[names.fr] = remainder;
  if (rememberUntilMs !== 0) item[names.ru] = rememberUntilMs;
  storeEnds(item, names, slices);
  if (quota === undefined) {
    if (resetsBefore !== 0) item[names.rn] = resetsBefore;
    return item;
  }
  if (quota.windowStartMs !== undefined) {
    item[names.ws] = quota.windowStartMs;
    item[names.wa] = quota.windowStartMs;
  }
  if (quota.topUpMilli !== 0) item[names.tu] = quota.topUpMilli;
  if (quota.countedFromMilli !== undefined) item[names.cf] = quota.countedFromMilli;
  if (quota.resets !== 0) item[names.rn] = quota.resets;
  return item;
}

/** All attributes that a limit may have, but for its tokens, what is held of it, its counters and what was told of it. */
export function ownAttributes(names: LimitNames): readonly string[] {
  const { ct, cp, ra, rp, fr, sched, ws, wa, tu, cf, rn, gc, soft, sh, tz, ru, na } = names;
  const own = STORED.map(({ attribute }) => names[attribute]);
  return [ct, cp, ra, rp, fr, sched, ...own, ...names.ends, ws, wa, tu, cf, rn, gc, soft, sh, tz, ru, na];
}

/** The one zone of the configured limits on a bucket, if any of them goes by the calendar. They stand first. */
export function zoneOf(limits: readonly { readonly limit: Limit }[]): string | undefined {
  for (const { limit } of limits) {
    const zone = formOf(limit)?.zone(limit);
    if (zone !== undefined || limit.schedule !== undefined) return zone ?? limit.schedule?.[0]?.tz ?? TZ_DEFAULT;
  }
  return undefined;
}

/** The limits as text that is the same for the same limits. */
export function canonicalOfSet(set: LimitSet): string {
  let text = canonicals.get(set);
  if (text === undefined) {
    text = canonicalOf(set.limits);
    canonicals.set(set, text);
  }
  return text;
}

/** A limit in the words of the table. */
interface LimitWords {
  readonly ct: string | undefined;
  readonly cp: number;
  readonly ra: number;
  readonly rp: number;
  readonly sched: string | undefined;
  readonly tz: string | undefined;
  /** The field that only its kind has. */
  readonly own: { readonly attribute: KindStored["attribute"]; readonly value: string | number } | undefined;
  readonly soft: boolean;
  readonly shadow: boolean;
  readonly na: string | undefined;
}

const canonicals = new WeakMap<LimitSet, string>();
const words = new WeakMap<Limit, LimitWords>();

function wordsOf(limit: Limit): LimitWords {
  let found = words.get(limit);
  if (found === undefined) {
    const { counts, capacity, refillAmount, refillPeriodMs, schedule, soft, shadow, notifyAt } = limit;
    const kind = storedOf(limit);
    const value = kind?.encoded(limit);
    const sched = schedule === undefined ? undefined : encodeSchedule(schedule);
    found = {
      ct: counts,
      cp: capacity * 1000,
      ra: refillAmount * 1000,
      rp: refillPeriodMs,
      sched: sched?.compact,
      tz: sched?.tz ?? formOf(limit)?.zone(limit),
      own: kind === undefined || value === undefined ? undefined : { attribute: kind.attribute, value },
      soft: soft === true,
      shadow: shadow === true,
      na: notifyAt?.join(","),
    };
    words.set(limit, found);
  }
  return found;
}

/** The same of limits that are in no set. */
export function canonicalOf(limits: readonly Limit[]): string {
  return limits
    .map((limit) => {
      const { ct, cp, ra, rp, sched, tz, own, soft, shadow, na } = wordsOf(limit);
      const name = ct === undefined ? limit.name : `${limit.name}:${ct}`;
      const kind = own === undefined ? [] : [own.attribute, own.value];
      const told = na === undefined ? [] : ["na", na];
      const mode = soft ? "soft" : shadow ? "shadow" : "";
      return [name, cp, ra, rp, sched ?? "", tz ?? "", mode, ...kind, ...told].join(",");
    })
    .join(";");
}

/** A limit as an item has it; where the caller goes by the same, the caller's own object. */
export function limitIn(
  item: Item,
  name: string,
  { set, calendar }: { readonly set: LimitSet | undefined; readonly calendar: Calendar },
): { readonly kind: "limit"; readonly limit: Limit } | Damaged {
  const names = namesOf(name);
  const tz = item[names.tz] ?? item[SCHED_TZ] ?? TZ_DEFAULT;
  const sched = textOf(item, names.sched, SCHED);
  const stored = ownIn(item, names);
  const given = set?.limits.find((limit) => limit.name === name);
  if (given !== undefined) {
    const own = wordsOf(given);
    const sameTerms = own.cp === item[names.cp] && own.ra === item[names.ra] && own.rp === item[names.rp];
    const sameKind = own.own?.attribute === stored?.kind.attribute && own.own?.value === stored?.value;
    const sameMeasure = own.ct === item[names.ct] && own.na === item[names.na];
    const sameZone = own.tz === undefined || own.tz === tz;
    const sameWindows = own.sched === sched;
    const sameMode = own.soft === names.soft in item && own.shadow === names.sh in item;
    if (sameTerms && sameMeasure && sameWindows && sameKind && sameZone && sameMode) {
      return { kind: "limit", limit: given };
    }
  }
  const schedule = sched === undefined ? undefined : decodeSchedule(sched, String(tz));
  const fields = stored?.kind.decoded(stored.value, String(tz));
  for (const [attribute, decoded] of [
    [names.sched in item ? names.sched : SCHED, schedule],
    [stored?.attribute ?? "", fields],
  ] as const) {
    if (decoded?.kind === "unreadable") return damaged(attribute, item, `a schedule (${decoded.problem})`);
  }
  const windows = schedule?.kind === "decoded" ? schedule.value : [];
  const problems = [
    ...windows.map(({ cron }) => calendar.problemOf(cron, String(tz), "window")),
    fields?.kind === "decoded" ? stored?.kind.problem(fields.value, calendar) : undefined,
  ];
  const problem = problems.find((each) => each !== undefined);
  if (problem !== undefined) return damaged(names.tz in item ? names.tz : SCHED_TZ, item, `a zone (${problem})`);
  for (const needed of [names.cp, names.ra, names.rp]) {
    if (!(needed in item)) return damaged(needed, item, "a whole number");
  }
  const counts = item[names.ct];
  const told = item[names.na];
  const notifyAt = told === undefined ? undefined : notifyAtOf(String(told), ",");
  if (told !== undefined && notifyAt === undefined) return damaged(names.na, item, "rising percentages");
  const limit = Object.freeze({
    name,
    capacity: Number(item[names.cp]) / 1000,
    refillAmount: Number(item[names.ra]) / 1000,
    refillPeriodMs: Number(item[names.rp]),
    ...(typeof counts === "string" ? { counts } : {}),
    ...(names.soft in item ? { soft: true as const } : {}),
    ...(names.sh in item ? { shadow: true as const } : {}),
    ...(schedule?.kind === "decoded" ? { schedule: schedule.value } : {}),
    ...(notifyAt === undefined ? {} : { notifyAt }),
    ...(fields?.kind === "decoded" ? fields.value : {}),
  });
  return { kind: "limit", limit };
}

function damaged(attribute: string, item: Item, wants: string): Damaged {
  return { kind: "damaged", damage: { attribute, value: item[attribute], wants } };
}

/** What the item says of the field that only one kind has. */
function ownIn(item: Item, names: LimitNames) {
  // The last kind first: a limit with a field of its own does not go by what is said for all limits of the item.
  for (const kind of STORED.toReversed()) {
    const own = names[kind.attribute];
    const attribute = own in item ? own : (kind.common ?? own);
    const value = item[attribute];
    if (typeof value !== kind.type || value === "-") continue;
    // Nor does a limit that refills.
    if (kind.common !== undefined && item[names.ra] !== 0) continue;
    return { kind, attribute, value: value as string | number };
  }
  return undefined;
}

/** The limit's own text, else the item's default; "-" stands for none. */
function textOf(item: Item, own: string, common: string): string | undefined {
  const text = item[own] ?? item[common];
  return typeof text === "string" && text !== "-" ? text : undefined;
}
