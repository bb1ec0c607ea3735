import type { Part } from "../../bucket/share.ts";
import { assembled, type BucketState, type LimitState } from "../../domain/bucket-state.ts";
import type { Calendar } from "../../domain/calendar.ts";
import { type Damage, ItemUnreadable } from "../../domain/item-unreadable.ts";
import { kindOf, type Limit } from "../../domain/limit.ts";
import { type LimitSet, limitSet, type SetOrigin } from "../../domain/limit-set.ts";
import { termsAt } from "../../domain/limit-state.ts";
import { TZ_DEFAULT } from "../../domain/schedule.ts";
import { decodeReset, decodeSchedule, encodeReset, encodeSchedule } from "../../domain/schedule-grammar.ts";
import { HOUR_MS } from "../../domain/usage.ts";
import type { Item, ItemKey, ItemValue } from "../../ports/item-store.ts";
import {
  BN,
  CFA,
  CFC,
  CFG,
  CFL,
  FRF,
  type LimitNames,
  LW,
  limitNamesIn,
  namesOf,
  RF,
  RSCHED,
  SCHED,
  SCHED_TZ,
  SHARD_COUNT,
  UH,
} from "./attributes.ts";
import { damageIn } from "./damage.ts";
import type { Dialect } from "./dialect.ts";

/** An item as it was seen, and what it means. */
export interface Image {
  readonly key: ItemKey;
  readonly item: Item;
  /** The shard's own: its terms are its share. */
  readonly state: BucketState;
  readonly shardCount: number;
  /** The configured limits as text; equal texts are equal limits, however they were written down. */
  readonly canonical: string;
  /** The first instant after the open hour of usage; `Infinity` where counters have no hours. */
  readonly hourEndMs: number;
}

interface DecodeContext {
  readonly calendar: Calendar;
  readonly dialect: Dialect;
  /** An earlier image of the same item: what has not changed is not worked out again. */
  readonly like: Image | undefined;
  /** The caller's limits; where the item's are the same, these very objects are used. */
  readonly set: LimitSet | undefined;
}

/** What an item says, or what of it cannot be read. */
export type DecodedItem =
  | { readonly kind: "decoded"; readonly image: Image }
  | { readonly kind: "damaged"; readonly damage: Damage };

export function decode(key: ItemKey, item: Item, { calendar, dialect, like, set }: DecodeContext): DecodedItem {
  if (like !== undefined && isSameButTokens(item, like, dialect)) {
    const { shardCount, canonical, hourEndMs } = like;
    const image = { key, item, state: withTokens(like.state, item), shardCount, canonical, hourEndMs };
    return { kind: "decoded", image };
  }
  const damage = damageIn(item);
  if (damage !== undefined) return { kind: "damaged", damage };
  const shardCount = numberOf(item, SHARD_COUNT) ?? 1;
  const { partRounding: rounding } = dialect;
  const part: Part | undefined = shardCount === 1 ? undefined : { index: key.shard, count: shardCount, rounding };
  const epochMs = numberOf(item, RF) ?? 0;
  const names = limitNamesIn(item);
  const listed = item[CFL];
  const configured = typeof listed === "string" ? listed.split(",").filter((name) => names.includes(name)) : names;
  const others = names.filter((name) => !configured.includes(name));
  const carried = item[FRF] === epochMs;
  const limits: LimitState[] = [];
  for (const [i, name] of [...configured, ...others].entries()) {
    const found = limitIn(item, name, { set, calendar });
    if (found.kind === "damaged") return found;
    const context = { epochMs, carried, part, calendar, configured: i < configured.length };
    limits.push(decodedLimit(item, found.limit, context));
  }
  const canonical = canonicalOf(limits.slice(0, configured.length).map(({ limit }) => limit));
  const known = set !== undefined && canonicalOfSet(set) === canonical ? set : undefined;
  const signature = (known ?? limitSet(limits.slice(0, configured.length).map(({ limit }) => limit))).signature;
  const changedMs = numberOf(item, CFC);
  const origin: SetOrigin = {
    ...{ asOfMs: numberOf(item, CFA) ?? 0, generation: null },
    ...(changedMs === undefined ? {} : { changedMs }),
    ...(CFG in item ? { given: true as const } : {}),
  };
  const writtenMs = Math.max(epochMs, numberOf(item, LW) ?? epochMs);
  const state = assembled({ epochMs, limits, signature, origin, writtenMs }, calendar);
  const image = { key, item, state, shardCount, canonical, hourEndMs: hourEndIn(item, dialect) };
  return { kind: "decoded", image };
}

/** The image of an item that is to be readable; throws `ItemUnreadable` where it is not. */
export function readableImage(key: ItemKey, item: Item, context: DecodeContext): Image {
  const decoded = decode(key, item, context);
  if (decoded.kind === "damaged") throw new ItemUnreadable(key, decoded.damage);
  return decoded.image;
}

/** An item of an earlier release has no hour: its first begins with the next write that counts. */
function hourEndIn(item: Item, dialect: Dialect): number {
  if (!dialect.countsByHour) return Number.POSITIVE_INFINITY;
  const hour = numberOf(item, UH);
  return hour === undefined ? Number.NEGATIVE_INFINITY : (hour + 1) * HOUR_MS;
}

/** The image with the caller's own limit objects, where they are the same limits written differently. */
export function withCallersLimitObjects(image: Image, set: LimitSet): Image {
  if (image.state.signature === set.signature || image.canonical !== canonicalOfSet(set)) return image;
  const limits = image.state.limits.map((held) => {
    const limit = set.limits.find(({ name }) => name === held.name);
    return limit === undefined || !held.configured ? held : { ...held, limit };
  });
  return { ...image, state: { ...image.state, limits, signature: set.signature } };
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

export function numberOf(item: Item, name: string): number | undefined {
  const value = item[name];
  return typeof value === "number" ? value : undefined;
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

function canonicalOf(limits: readonly Limit[]): string {
  return limits
    .map((limit) => {
      const { ct, cp, ra, rp, sched, rsched, tz, rsa, soft } = wordsOf(limit);
      const name = ct === undefined ? limit.name : `${limit.name}:${ct}`;
      return [name, cp, ra, rp, sched ?? "", rsched ?? "", tz ?? "", rsa ?? "", soft ? "soft" : ""].join(",");
    })
    .join(";");
}

// A write that changes anything but tokens and counters moves the epoch too; the dialect knows of writers that do not.
function isSameButTokens(item: Item, like: Image, dialect: Dialect): boolean {
  const before = like.item;
  if (item[RF] !== before[RF] || item[BN] !== before[BN]) return false;
  if (item[CFA] !== before[CFA] || item[CFL] !== before[CFL]) return false;
  if (item[SHARD_COUNT] !== before[SHARD_COUNT] || !dialect.sameParameters(item, before)) return false;
  // Only numbers change from take to take: whatever else has changed is looked at closer.
  for (const name in item) if (item[name] !== before[name] && !Number.isSafeInteger(item[name])) return false;
  for (const { name } of like.state.limits) if (!(namesOf(name).tk in item)) return false;
  // Of a bucket without a number of its own, those of its quotas tell that it was made anew in the same millisecond.
  return like.state.plain || like.state.limits.every(({ name }) => item[namesOf(name).rn] === before[namesOf(name).rn]);
}

function withTokens(state: BucketState, item: Item): BucketState {
  const limits = state.limits.map((held) => {
    const tokensMilli = item[namesOf(held.name).tk] as number;
    if (tokensMilli === held.tokensMilli) return held;
    const { name, limit, terms, configured, remainder, quota, part, rememberUntilMs, resetsBefore } = held;
    return { name, limit, terms, configured, tokensMilli, remainder, quota, part, rememberUntilMs, resetsBefore };
  });
  const { epochMs, signature, origin, validUntilMs, renewAtMs, plain } = state;
  const writtenMs = Math.max(epochMs, numberOf(item, LW) ?? epochMs);
  return { epochMs, limits, signature, origin, validUntilMs, renewAtMs, plain, untouched: false, writtenMs };
}

interface LimitContext {
  readonly epochMs: number;
  readonly carried: boolean;
  readonly part: Part | undefined;
  readonly calendar: Calendar;
  readonly configured: boolean;
}

function decodedLimit(item: Item, limit: Limit, context: LimitContext): LimitState {
  const { epochMs, carried, calendar, configured } = context;
  const { name } = limit;
  const names = namesOf(name);
  const drips = kindOf(limit) === "drip";
  const grantedAmong = numberOf(item, names.gc);
  const part =
    drips || context.part === undefined || grantedAmong === undefined
      ? context.part
      : { ...context.part, grantedAmong };
  const fr = numberOf(item, names.fr) ?? 0;
  const topUpMilli = drips ? 0 : (numberOf(item, names.tu) ?? 0);
  const terms = termsAt(limit, topUpMilli, epochMs, calendar, part);
  return {
    name,
    limit,
    terms,
    configured,
    tokensMilli: numberOf(item, names.tk) ?? 0,
    // Under a refill period that was changed in place the fraction means nothing.
    remainder: carried && fr < terms.refillPeriodMs ? fr : 0,
    quota: drips
      ? undefined
      : { windowStartMs: numberOf(item, names.ws), topUpMilli, resets: numberOf(item, names.rn) ?? 0 },
    part,
    rememberUntilMs: numberOf(item, names.ru) ?? 0,
    resetsBefore: drips ? (numberOf(item, names.rn) ?? 0) : 0,
  };
}

function limitIn(
  item: Item,
  name: string,
  { set, calendar }: { readonly set: LimitSet | undefined; readonly calendar: Calendar },
): { readonly kind: "limit"; readonly limit: Limit } | Extract<DecodedItem, { kind: "damaged" }> {
  const names = namesOf(name);
  const tz = item[names.tz] ?? item[SCHED_TZ] ?? TZ_DEFAULT;
  const sched = textOf(item, names.sched, SCHED);
  const rsa = numberOf(item, names.rsa);
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

function damaged(attribute: string, item: Item, wants: string): Extract<DecodedItem, { kind: "damaged" }> {
  return { kind: "damaged", damage: { attribute, value: item[attribute], wants } };
}

/** The limit's own text, else the item's default; "-" stands for none. */
function textOf(item: Item, own: string, common: string): string | undefined {
  const text = item[own] ?? item[common];
  return typeof text === "string" && text !== "-" ? text : undefined;
}
