import type { LimitState } from "../../domain/bucket/bucket-state.ts";
import type { Damage } from "../../domain/bucket/item-unreadable.ts";
import type { Calendar } from "../../domain/limits/calendar.ts";
import { STORED } from "../../domain/limits/kinds/table.ts";
import { type Limit, zoneOf } from "../../domain/limits/limit.ts";
import type { StoredValue } from "../../domain/limits/limit-field.ts";
import type { LimitSet } from "../../domain/limits/limit-set.ts";
import { COMMON_STORED, FIELDS_STORED } from "../../domain/limits/limit-stored.ts";
import { TZ_DEFAULT } from "../../domain/limits/schedule.ts";
import type { Item, ItemValue } from "../../ports/item-store.ts";
import { type LimitNames, namesOf, SCHED_TZ } from "./attributes.ts";
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
  const { cp, ra, rp, tz, fields } = wordsOf(limit);
  const item: Record<string, ItemValue> = { [names.cp]: cp, [names.ra]: ra, [names.rp]: rp };
  for (const [{ attribute }, value] of fields) {
    item[names[attribute]] = value !== true ? value : attribute === "soft" ? softUntilMs : 1;
  }
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
  const { cp, ra, rp, fr, ws, wa, tu, cf, rn, gc, tz, ru } = names;
  return [
    cp,
    ra,
    rp,
    fr,
    ...FIELDS_STORED.map(({ attribute }) => names[attribute]),
    ...names.ends,
    ws,
    wa,
    tu,
    cf,
    rn,
    gc,
    tz,
    ru,
  ];
}

/** The one zone of the configured limits on a bucket, if any of them goes by the calendar. They stand first. */
export function zoneOfLimits(limits: readonly { readonly limit: Limit }[]): string | undefined {
  for (const { limit } of limits) {
    const zone = zoneOf(limit);
    if (zone !== undefined) return zone;
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
  readonly cp: number;
  readonly ra: number;
  readonly rp: number;
  readonly tz: string | undefined;
  /** The fields that it has, as they are stored. */
  readonly fields: readonly (readonly [field: Stored, value: StoredValue])[];
}

type Stored = (typeof FIELDS_STORED)[number];

const canonicals = new WeakMap<LimitSet, string>();
const words = new WeakMap<Limit, LimitWords>();

function wordsOf(limit: Limit): LimitWords {
  const known = words.get(limit);
  if (known !== undefined) return known;
  const { capacity, refillAmount, refillPeriodMs } = limit;
  const fields = FIELDS_STORED.flatMap((field): LimitWords["fields"] => {
    const value = field.encoded(limit);
    return value === undefined ? [] : [[field, value]];
  });
  const found = { cp: capacity * 1000, ra: refillAmount * 1000, rp: refillPeriodMs, tz: zoneOf(limit), fields };
  words.set(limit, found);
  return found;
}

/** The same of limits that are in no set. */
export function canonicalOf(limits: readonly Limit[]): string {
  return limits
    .map((limit) => {
      const { cp, ra, rp, tz = "", fields } = wordsOf(limit);
      return [limit.name, cp, ra, rp, tz, ...fields.map(([{ attribute }, value]) => `${attribute}=${value}`)].join(",");
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
  const stored = fieldsIn(item, names);
  const given = set?.limits.find((limit) => limit.name === name);
  if (given !== undefined) {
    const own = wordsOf(given);
    const sameTerms = own.cp === item[names.cp] && own.ra === item[names.ra] && own.rp === item[names.rp];
    const sameZone = own.tz === undefined || own.tz === tz;
    if (sameTerms && sameZone && isSame(own.fields, stored)) return { kind: "limit", limit: given };
  }
  const fields: Record<string, unknown> = {};
  let problem: string | undefined;
  for (const { field, attribute, value } of stored) {
    const decoded = field.decoded(value, { zone: String(tz), attribute });
    if (decoded.kind === "unreadable") {
      return damaged(attribute, item, field.wants ?? `a schedule (${decoded.problem})`);
    }
    problem ??= field.problem?.(decoded.value, calendar);
    Object.assign(fields, decoded.value);
  }
  if (problem !== undefined) return damaged(names.tz in item ? names.tz : SCHED_TZ, item, `a zone (${problem})`);
  for (const needed of [names.cp, names.ra, names.rp]) {
    if (!(needed in item)) return damaged(needed, item, "a whole number");
  }
  const limit = Object.freeze({
    name,
    capacity: Number(item[names.cp]) / 1000,
    refillAmount: Number(item[names.ra]) / 1000,
    refillPeriodMs: Number(item[names.rp]),
    ...fields,
  });
  return { kind: "limit", limit };
}

function damaged(attribute: string, item: Item, wants: string): Damaged {
  return { kind: "damaged", damage: { attribute, value: item[attribute], wants } };
}

interface FoundField {
  readonly field: Stored;
  readonly attribute: string;
  readonly value: StoredValue;
}

function isSame(own: LimitWords["fields"], stored: readonly FoundField[]): boolean {
  return (
    own.length === stored.length &&
    own.every(([field, value], i) => stored[i]?.field === field && stored[i].value === value)
  );
}

/** The fields that an item has of a limit, in the order of the table. */
function fieldsIn(item: Item, names: LimitNames): readonly FoundField[] {
  const found: FoundField[] = [];
  for (const field of COMMON_STORED) {
    const stored = fieldIn(item, names, field);
    if (stored !== undefined) found.push(stored);
  }
  // The last kind first: a limit with a field of its own does not go by what is said for all limits of the item.
  for (const field of STORED.toReversed()) {
    // Nor does a limit that refills.
    if (field.common !== undefined && item[names.ra] !== 0) continue;
    const stored = fieldIn(item, names, field);
    if (stored !== undefined) return [...found, stored];
  }
  return found;
}

/** The limit's own value, else the one for all limits of the item; "-" stands for none. */
function fieldIn(item: Item, names: LimitNames, field: Stored): FoundField | undefined {
  const own = names[field.attribute];
  const attribute = own in item ? own : (field.common ?? own);
  const value = item[attribute];
  if (field.type === "flag") return value === undefined ? undefined : { field, attribute, value: true };
  return typeof value !== field.type || value === "-" ? undefined : { field, attribute, value: value as StoredValue };
}
