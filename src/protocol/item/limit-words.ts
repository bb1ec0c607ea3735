import type { LimitState } from "../../domain/bucket-state.ts";
import type { Calendar } from "../../domain/calendar.ts";
import type { Damage } from "../../domain/item-unreadable.ts";
import type { Limit } from "../../domain/limit.ts";
import type { LimitSet } from "../../domain/limit-set.ts";
import { TZ_DEFAULT } from "../../domain/schedule.ts";
import { decodeReset, decodeSchedule, encodeReset, encodeSchedule } from "../../domain/schedule-grammar.ts";
import type { Item, ItemValue } from "../../ports/item-store.ts";
import { type LimitNames, namesOf, RSCHED, SCHED, SCHED_TZ } from "./attributes.ts";

/** What of an item cannot be read. */
export interface Damaged {
  readonly kind: "damaged";
  readonly damage: Damage;
}

/** Attributes of a limit that follow from configuration and period; without tokens and counters. */
export function encodedLimit(
  { name, limit, remainder, quota, rememberUntilMs, resetsBefore }: LimitState,
  softUntilMs: number,
  zone: string | undefined,
): Item {
  const names = namesOf(name);
  const { ct, cp, ra, rp, sched, rsched, rsa, soft, tz } = wordsOf(limit);
  const item: Record<string, ItemValue> = { [names.cp]: cp, [names.ra]: ra, [names.rp]: rp };
  if (ct !== undefined) item[names.ct] = ct;
  if (sched !== undefined) item[names.sched] = sched;
  if (rsched !== undefined) item[names.rsched] = rsched;
  if (rsa !== undefined) item[names.rsa] = rsa;
  if (soft) item[names.soft] = softUntilMs;
  if (tz !== undefined && tz !== zone) item[names.tz] = tz;
  if (remainder !== 0) item[names.fr] = remainder;
  if (rememberUntilMs !== 0) item[names.ru] = rememberUntilMs;
  if (quota === undefined) {
    if (resetsBefore !== 0) item[names.rn] = resetsBefore;
    return item;
  }
  if (quota.windowStartMs !== undefined) {
    item[names.ws] = quota.windowStartMs;
    item[names.wa] = quota.windowStartMs;
  }
  if (quota.topUpMilli !== 0) item[names.tu] = quota.topUpMilli;
  if (quota.resets !== 0) item[names.rn] = quota.resets;
  return item;
}

/** All attributes that a limit may have, but for its tokens and its counter. */
export function ownAttributes(names: LimitNames): readonly string[] {
  const { ct, cp, ra, rp, fr, sched, rsched, rsa, ws, wa, tu, rn, gc, soft, tz, ru } = names;
  return [ct, cp, ra, rp, fr, sched, rsched, rsa, ws, wa, tu, rn, gc, soft, tz, ru];
}

/** The one zone of the configured limits on a bucket, if any of them goes by the calendar. They stand first. */
export function zoneOf(limits: readonly { readonly limit: Limit }[]): string | undefined {
  for (const { limit } of limits) {
    const tz = limit.reset === undefined ? limit.schedule?.[0]?.tz : (limit.reset.tz ?? TZ_DEFAULT);
    if (limit.reset !== undefined || limit.schedule !== undefined) return tz ?? TZ_DEFAULT;
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
  readonly rsched: string | undefined;
  readonly tz: string | undefined;
  readonly rsa: number | undefined;
  readonly soft: boolean;
}

const canonicals = new WeakMap<LimitSet, string>();
const words = new WeakMap<Limit, LimitWords>();

function wordsOf(limit: Limit): LimitWords {
  let found = words.get(limit);
  if (found === undefined) {
    const { counts, capacity, refillAmount, refillPeriodMs, schedule, reset, resetAfterMs, soft } = limit;
    const sched = schedule === undefined ? undefined : encodeSchedule(schedule);
    found = {
      ct: counts,
      cp: capacity * 1000,
      ra: refillAmount * 1000,
      rp: refillPeriodMs,
      sched: sched?.compact,
      rsched: reset === undefined ? undefined : encodeReset(reset.cron),
      tz: sched?.tz ?? (reset === undefined ? undefined : (reset.tz ?? TZ_DEFAULT)),
      rsa: resetAfterMs === undefined ? undefined : resetAfterMs / 1000,
      soft: soft === true,
    };
    words.set(limit, found);
  }
  return found;
}

/** The same of limits that are in no set. */
export function canonicalOf(limits: readonly Limit[]): string {
  return limits
    .map((limit) => {
      const { ct, cp, ra, rp, sched, rsched, tz, rsa, soft } = wordsOf(limit);
      const name = ct === undefined ? limit.name : `${limit.name}:${ct}`;
      return [name, cp, ra, rp, sched ?? "", rsched ?? "", tz ?? "", rsa ?? "", soft ? "soft" : ""].join(",");
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
  const rsa = typeof item[names.rsa] === "number" ? Number(item[names.rsa]) : undefined;
  // Only a quota that is not a session resets by the calendar; a default for all limits of the item does not concern others.
  const rsched = rsa === undefined && item[names.ra] === 0 ? textOf(item, names.rsched, RSCHED) : undefined;
  const given = set?.limits.find((limit) => limit.name === name);
  if (given !== undefined) {
    const own = wordsOf(given);
    const sameTerms = own.cp === item[names.cp] && own.ra === item[names.ra] && own.rp === item[names.rp];
    const sameKind = own.sched === sched && own.rsched === rsched && own.rsa === rsa;
    const sameMeasure = own.ct === item[names.ct];
    const sameZone = own.tz === undefined || own.tz === tz;
    if (sameTerms && sameMeasure && sameKind && sameZone && own.soft === names.soft in item) {
      return { kind: "limit", limit: given };
    }
  }
  const schedule = sched === undefined ? undefined : decodeSchedule(sched, String(tz));
  const reset = rsched === undefined ? undefined : decodeReset(rsched);
  for (const [attribute, decoded] of [
    [names.sched in item ? names.sched : SCHED, schedule],
    [names.rsched in item ? names.rsched : RSCHED, reset],
  ] as const) {
    if (decoded?.kind === "unreadable") return damaged(attribute, item, `a schedule (${decoded.problem})`);
  }
  const crons = [
    ...(schedule?.kind === "decoded" ? schedule.value.map(({ cron }) => [cron, "window"] as const) : []),
    ...(reset?.kind === "decoded" ? [[reset.value, "reset"] as const] : []),
  ];
  for (const [cron, use] of crons) {
    const problem = calendar.problemOf(cron, String(tz), use);
    if (problem !== undefined) return damaged(names.tz in item ? names.tz : SCHED_TZ, item, `a zone (${problem})`);
  }
  for (const needed of [names.cp, names.ra, names.rp]) {
    if (!(needed in item)) return damaged(needed, item, "a whole number");
  }
  const counts = item[names.ct];
  const limit = Object.freeze({
    name,
    capacity: Number(item[names.cp]) / 1000,
    refillAmount: Number(item[names.ra]) / 1000,
    refillPeriodMs: Number(item[names.rp]),
    ...(typeof counts === "string" ? { counts } : {}),
    ...(names.soft in item ? { soft: true as const } : {}),
    ...(schedule?.kind === "decoded" ? { schedule: schedule.value } : {}),
    ...(reset?.kind === "decoded" ? { reset: { cron: reset.value, tz: String(tz) } } : {}),
    ...(rsa === undefined ? {} : { resetAfterMs: rsa * 1000 }),
  });
  return { kind: "limit", limit };
}

function damaged(attribute: string, item: Item, wants: string): Damaged {
  return { kind: "damaged", damage: { attribute, value: item[attribute], wants } };
}

/** The limit's own text, else the item's default; "-" stands for none. */
function textOf(item: Item, own: string, common: string): string | undefined {
  const text = item[own] ?? item[common];
  return typeof text === "string" && text !== "-" ? text : undefined;
}
