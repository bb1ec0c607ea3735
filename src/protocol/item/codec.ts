import type { Part } from "../../bucket/balance.ts";
import { assembled, type BucketState, type LimitState } from "../../domain/bucket/bucket-state.ts";
import { ItemUnreadable } from "../../domain/bucket/item-unreadable.ts";
import { termsAt } from "../../domain/bucket/limit-state.ts";
import { withMark } from "../../domain/bucket/mark-keeper.ts";
import { HOUR_MS } from "../../domain/charge/usage.ts";
import { rulesOf } from "../../domain/limits/kinds/table.ts";
import type { Limit } from "../../domain/limits/limit.ts";
import { type LimitSet, limitSet, type SetOrigin } from "../../domain/limits/limit-set.ts";
import type { Calendar } from "../../domain/limits/schedule.ts";
import { given } from "../../domain/names/given.ts";
import type { Item, ItemKey } from "../../ports/item-store.ts";
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
  SHARD_COUNT,
  UH,
} from "./attributes.ts";
import { damageIn } from "./damage.ts";
import type { Dialect } from "./dialect.ts";
import { canonicalOf, canonicalOfSet, type Damaged, limitIn, slicesAgain, slicesIn } from "./limit-words.ts";

/** An item as it was seen, and its meaning. */
export interface Image {
  readonly key: ItemKey;
  readonly item: Item;
  /** The state of the shard: its terms are its share. */
  readonly state: BucketState;
  readonly shardCount: number;
  /** The configured limits as text; equal texts are equal limits, however they were written. */
  readonly canonical: string;
  /** The first instant after the open hour of usage; `Infinity` if counters have no hours. */
  readonly hourEndMs: number;
}

interface DecodeContext {
  readonly calendar: Calendar;
  readonly dialect: Dialect;
  /** An earlier image of the same item: unchanged parts are reused. */
  readonly like: Image | undefined;
  /** The caller's limits; these objects are used where the item's limits are the same. */
  readonly set: LimitSet | undefined;
}

type DecodedItem = { readonly kind: "decoded"; readonly image: Image } | Damaged;

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
  const origin: SetOrigin = {
    asOfMs: numberOf(item, CFA) ?? 0,
    generation: null,
    ...given({ changeNumber: numberOf(item, CFC), given: CFG in item ? (true as const) : undefined }),
  };
  const writtenMs = Math.max(epochMs, numberOf(item, LW) ?? epochMs);
  const state = assembled({ epochMs, limits, signature, origin, writtenMs }, calendar);
  const image = { key, item, state, shardCount, canonical, hourEndMs: hourEndIn(item, dialect) };
  return { kind: "decoded", image };
}

/** Decodes an item that must be readable; throws `ItemUnreadable` otherwise. */
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

/** Replaces the limits of the image by the caller's objects, if they are the same limits written differently. */
export function withCallersLimitObjects(image: Image, set: LimitSet): Image {
  if (image.state.signature === set.signature || image.canonical !== canonicalOfSet(set)) return image;
  const limits = image.state.limits.map((held) => {
    const limit = set.limits.find(({ name }) => name === held.name);
    return limit === undefined || !held.configured ? held : { ...held, limit };
  });
  return { ...image, state: { ...image.state, limits, signature: set.signature } };
}

export function numberOf(item: Item, name: string): number | undefined {
  const value = item[name];
  return typeof value === "number" ? value : undefined;
}

// A write that changes more than tokens and counters moves the epoch too; the dialect knows of writers that do not.
function isSameButTokens(item: Item, like: Image, dialect: Dialect): boolean {
  const before = like.item;
  if (item[RF] !== before[RF] || item[BN] !== before[BN]) return false;
  if (item[CFA] !== before[CFA] || item[CFL] !== before[CFL]) return false;
  if (item[SHARD_COUNT] !== before[SHARD_COUNT] || !dialect.sameParameters(item, before)) return false;
  // Only numbers change from take to take. Any other change needs a full decode.
  for (const name in item) if (item[name] !== before[name] && !Number.isSafeInteger(item[name])) return false;
  for (const { name } of like.state.limits) if (!(namesOf(name).tk in item)) return false;
  // A bucket without a number of its own shows by the numbers of its quotas that it was made anew in the same millisecond.
  return like.state.plain || like.state.limits.every(({ name }) => item[namesOf(name).rn] === before[namesOf(name).rn]);
}

function withTokens(state: BucketState, item: Item): BucketState {
  const limits = state.limits.map((held) => {
    const tokensMilli = item[namesOf(held.name).tk] as number;
    if (tokensMilli === held.tokensMilli && held.slices.length === 0) return held;
    const { name, limit, terms, configured, remainder, quota, part, rememberUntilMs, resetsBefore } = held;
    const slices = slicesAgain(held.slices, item, name);
    const past = { rememberUntilMs, resetsBefore };
    const now = { name, limit, terms, configured, tokensMilli, remainder, quota, slices, part, ...past };
    return held.told === undefined ? now : { ...now, told: held.told };
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
  const drips = rulesOf(limit).marks === undefined;
  const grantedAmong = numberOf(item, names.gc);
  const part =
    drips || context.part === undefined || grantedAmong === undefined
      ? context.part
      : { ...context.part, grantedAmong };
  const fr = numberOf(item, names.fr) ?? 0;
  const topUpMilli = drips ? 0 : (numberOf(item, names.tu) ?? 0);
  const terms = termsAt(limit, topUpMilli, epochMs, calendar, part);
  const held = {
    name,
    limit,
    terms,
    configured,
    tokensMilli: numberOf(item, names.tk) ?? 0,
    // A fraction from before a change of the refill period means nothing.
    remainder: carried && fr < terms.refillPeriodMs ? fr : 0,
    quota: drips ? undefined : quotaIn(item, names, topUpMilli),
    slices: slicesIn(item, names),
    part,
    rememberUntilMs: numberOf(item, names.ru) ?? 0,
    resetsBefore: drips ? (numberOf(item, names.rn) ?? 0) : 0,
  };
  return names.th in item ? withMark(held, item[names.th], epochMs, calendar) : held;
}

function quotaIn(item: Item, names: LimitNames, topUpMilli: number): LimitState["quota"] {
  const quota = { windowStartMs: numberOf(item, names.ws), topUpMilli, resets: numberOf(item, names.rn) ?? 0 };
  const countedFromMilli = numberOf(item, names.cf);
  return countedFromMilli === undefined ? quota : { ...quota, countedFromMilli };
}
