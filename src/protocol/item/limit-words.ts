import type { LimitState } from "../../domain/bucket/bucket-state.ts";
import { NO_SLICES, type Slice } from "../../domain/bucket/holds.ts";
import type { Damage } from "../../domain/bucket/item-unreadable.ts";
import { STORED } from "../../domain/limits/kinds/table.ts";
import { type Limit, zoneOf } from "../../domain/limits/limit.ts";
import type { StoredValue } from "../../domain/limits/limit-field.ts";
import type { LimitSet } from "../../domain/limits/limit-set.ts";
import { COMMON_STORED, FIELDS_STORED } from "../../domain/limits/limit-stored.ts";
import { type Calendar, TZ_DEFAULT } from "../../domain/limits/schedule.ts";
import type { Item, ItemValue } from "../../ports/item-store.ts";
import { type LimitNames, MARKS, namesOf, SCHED_TZ } from "./attributes.ts";

export function slicesIn(item: Item, { ends, held }: LimitNames): readonly Slice[] {
  let slices: Slice[] | undefined;
  for (let place = 0; place < ends.length; place++) {
    const endMs = item[ends[place] as string];
    if (typeof endMs !== "number") continue;
    slices ??= [];
    slices.push({ place, endMs, heldMilli: Number(item[held[place] as string] ?? 0) });
  }
  return slices ?? NO_SLICES;
}

/** Reads slices again, with the amounts held by another image of the same epoch. */
export function slicesAgain(slices: readonly Slice[], item: Item, limit: string): readonly Slice[] {
  if (slices.length === 0) return slices;
  const { held } = namesOf(limit);
  return slices.map(({ place, endMs }) => ({ place, endMs, heldMilli: Number(item[held[place] as string] ?? 0) }));
}

/** Stores what slices of a new item hold: on other items amounts are added or subtracted. */
export function storeHeld(item: Record<string, ItemValue>, limit: string, slices: readonly Slice[]): void {
  for (const { place, heldMilli } of slices) item[namesOf(limit).held[place] as string] = heldMilli;
}

export interface Damaged {
  readonly kind: "damaged";
  readonly damage: Damage;
}

/** The attributes of a limit that follow from configuration and period; without tokens and counters. */
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
  // Slices are opened and closed only together with the epoch.
  for (const { place, endMs } of slices) item[names.ends[place] as string] = endMs;
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

/** All attributes of a limit, except tokens, held slots, counters and told thresholds. */
export function ownAttributes(names: LimitNames): readonly string[] {
  const fields = FIELDS_STORED.map(({ attribute }) => names[attribute]);
  return [names.cp, names.ra, names.rp, names.fr, ...fields, ...names.ends, ...KEPT_MARKS.map((mark) => names[mark])];
}

/** All marks but those of thresholds. */
const KEPT_MARKS = MARKS.filter((mark) => mark !== "th" && mark !== "tb");

/** The zone of the configured limits, if any of them goes by the calendar. They come first. */
export function zoneOfLimits(limits: readonly { readonly limit: Limit }[]): string | undefined {
  for (const { limit } of limits) {
    const zone = zoneOf(limit);
    if (zone !== undefined) return zone;
  }
  return undefined;
}

/** A text that is equal for equal limits. */
export function canonicalOfSet(set: LimitSet): string {
  let text = canonicals.get(set);
  if (text === undefined) {
    text = canonicalOf(set.limits);
    canonicals.set(set, text);
  }
  return text;
}

interface LimitWords {
  readonly cp: number;
  readonly ra: number;
  readonly rp: number;
  readonly tz: string | undefined;
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

/** Like `canonicalOfSet`, for limits outside a set. */
export function canonicalOf(limits: readonly Limit[]): string {
  return limits
    .map((limit) => {
      const { cp, ra, rp, tz = "", fields } = wordsOf(limit);
      return [limit.name, cp, ra, rp, tz, ...fields.map(([{ attribute }, value]) => `${attribute}=${value}`)].join(",");
    })
    .join(";");
}

/** Decodes a limit of an item; returns the caller's object if it is the same limit. */
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

function fieldsIn(item: Item, names: LimitNames): readonly FoundField[] {
  const found: FoundField[] = [];
  for (const field of COMMON_STORED) {
    const stored = fieldIn(item, names, field);
    if (stored !== undefined) found.push(stored);
  }
  // The last kind comes first: a limit with a field of its own ignores values for all limits of the item.
  for (const field of STORED.toReversed()) {
    // A limit that refills ignores them as well.
    if (field.common !== undefined && item[names.ra] !== 0) continue;
    const stored = fieldIn(item, names, field);
    if (stored !== undefined) return [...found, stored];
  }
  return found;
}

/** The limit's own value, else the one for all limits of the item; "-" means none. */
function fieldIn(item: Item, names: LimitNames, field: Stored): FoundField | undefined {
  const own = names[field.attribute];
  const attribute = own in item ? own : (field.common ?? own);
  const value = item[attribute];
  if (field.type === "flag") return value === undefined ? undefined : { field, attribute, value: true };
  return typeof value !== field.type || value === "-" ? undefined : { field, attribute, value: value as StoredValue };
}
