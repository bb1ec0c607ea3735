import { type Attributes, attributesOf, decodeItem, newBucket } from "../adapters/dynamodb/codec.ts";
import { all, type Condition, isStill, keyIn, texts } from "../adapters/dynamodb/records-write.ts";
import {
  itemPlace,
  itemTableKey,
  namesOf,
  RF,
  SHARD_COUNT,
  type TableKey,
  TTL,
  WCU,
} from "../adapters/dynamodb/schema.ts";
import type { Terms } from "../bucket/balance.ts";
import { rebase } from "../bucket/level.ts";
import { type BucketKey, bucketKey } from "../domain/bucket/bucket-key.ts";
import { assembled, type LimitState, wholeOf } from "../domain/bucket/bucket-state.ts";
import { NO_SLICES } from "../domain/bucket/holds.ts";
import { limitSet } from "../domain/limits/limit-set.ts";
import type { Calendar } from "../domain/limits/schedule.ts";
import type { Item, ItemValue } from "../ports/item-store.ts";
import { limitNamesIn } from "../protocol/item/attributes.ts";
import { readableImage } from "../protocol/item/codec.ts";
import { SHARED } from "../protocol/shared/dialect.ts";
import { keptUntilFromS } from "../protocol/take/expiry.ts";
import { unreadable, wholeIn } from "./old-items.ts";
import { type ItemChange, type NewItem, newItemOf } from "./planned.ts";

/** One limit of an old bucket, in its own terms. */
export interface OldLimit {
  readonly name: string;
  readonly tokensMilli: number;
  readonly refilledAtMs: number;
  /** The capacity is the burst, if there is one. */
  readonly terms: Terms;
}

export interface OldBucket {
  readonly entityId: string;
  readonly resource: string;
  readonly limits: readonly OldLimit[];
  /** The latest `ttl` of its items, in seconds. */
  readonly ttlS: number | undefined;
  /** Attributes of its entity, which only the original reads from the bucket. */
  readonly owner: Attributes;
}

/** Reads the limit of an item that holds one. */
export function limitOfItem(item: Attributes, name: string): OldLimit {
  const burst = Number(item.burst_milli?.N) > 0 ? "burst_milli" : "capacity_milli";
  return checked(item, {
    name,
    tokensMilli: wholeIn(item, "tokens_milli"),
    refilledAtMs: wholeIn(item, "last_refill_ms"),
    terms: {
      capacityMilli: wholeIn(item, burst),
      refillAmountMilli: wholeIn(item, "refill_amount_milli"),
      refillPeriodMs: wholeIn(item, "refill_period_ms"),
    },
  });
}

/** Reads the limits of an item that holds a whole bucket. */
export function limitsOfItem(item: Attributes): readonly OldLimit[] {
  const refilledAtMs = wholeIn(item, "rf");
  const names = Object.keys(item).flatMap((name) => /^b_(.+)_tk$/.exec(name)?.[1] ?? []);
  return names
    .filter((name) => name !== WCU && namesOf(name).cp in item)
    .map((name) => {
      const { tk, cp, ra, rp } = namesOf(name);
      const burst = `b_${name}_bx`;
      const terms = {
        capacityMilli: wholeIn(item, burst in item ? burst : cp),
        refillAmountMilli: wholeIn(item, ra),
        refillPeriodMs: wholeIn(item, rp),
      };
      return checked(item, { name, tokensMilli: wholeIn(item, tk), refilledAtMs, terms });
    });
}

interface BucketContext {
  readonly namespaceId: string;
  readonly calendar: Calendar;
  /** No item expires before this second, so that the migration has time. */
  readonly keptUntilS: number;
}

/**
 * Plans the one, unsharded item of a bucket. Its limits were refilled at different times. The latest time counts for all, and the others
 * gain what they refilled until then, to the fraction, so that every level continues as it would have.
 */
export function planBucket(bucket: OldBucket, { namespaceId, calendar, keptUntilS }: BucketContext): NewItem {
  const epochMs = Math.max(...bucket.limits.map(({ refilledAtMs }) => refilledAtMs));
  const limits = bucket.limits.toSorted((a, b) => (a.name < b.name ? -1 : 1)).map((limit) => stateAt(limit, epochMs));
  const { signature } = limitSet(limits.map(({ limit }) => limit));
  const origin = { asOfMs: 0, generation: null };
  const state = assembled({ epochMs, limits, signature, origin }, calendar);
  const item = newBucket(state, calendar);
  for (const { name, terms } of limits) {
    const { cp, ra, rp } = namesOf(name);
    Object.assign(item, { [cp]: terms.capacityMilli, [ra]: terms.refillAmountMilli, [rp]: terms.refillPeriodMs });
  }
  const owed = limits.map((limit) => ({ limit, lowMilli: limit.tokensMilli }));
  const fullS = keptUntilFromS(owed, epochMs, calendar);
  if (fullS !== undefined) item[TTL] = Math.max(fullS, bucket.ttlS ?? 0, keptUntilS);
  const key = { bucket: bucketKey(bucket.entityId, bucket.resource), shard: 0 };
  const attributes = { ...bucket.owner, ...attributesOf(item), ...texts(itemPlace(namespaceId, key)) };
  return newItemOf(itemTableKey(namespaceId, key), attributes);
}

function stateAt({ name, tokensMilli, refilledAtMs, terms }: OldLimit, epochMs: number): LimitState {
  const balance = rebase({ tokensMilli, remainder: 0 }, terms, epochMs - refilledAtMs);
  const { capacityMilli, refillAmountMilli, refillPeriodMs } = terms;
  const [capacity, refillAmount] = [capacityMilli / 1000, refillAmountMilli / 1000];
  const limit = Object.freeze({ name, capacity, refillAmount, refillPeriodMs });
  return {
    name,
    limit,
    terms,
    configured: true,
    ...balance,
    quota: undefined,
    slices: NO_SLICES,
    part: undefined,
    rememberUntilMs: 0,
    resetsBefore: 0,
  };
}

function checked(item: Attributes, limit: OldLimit): OldLimit {
  const { capacityMilli, refillAmountMilli, refillPeriodMs } = limit.terms;
  if (capacityMilli > 0 && refillAmountMilli > 0 && refillPeriodMs > 0) return limit;
  throw unreadable(item, `its limit "${limit.name}" has no capacity, refill or period`);
}

/** A shard of a bucket that the original wrote. */
interface OldShard {
  readonly shard: number;
  readonly item: Attributes;
}

/** The plan for a bucket that the original wrote. */
export type ShardsPlan =
  | { readonly kind: "stays" }
  | { readonly kind: "changes"; readonly change: ItemChange }
  /** All its shards become one, in one transaction, on condition that each is as it was read. */
  | {
      readonly kind: "joins";
      readonly made: NewItem;
      readonly gone: readonly TableKey[];
      readonly asRead: ReadonlyMap<string, Condition>;
    };

/**
 * Plans a bucket of the original's, given the shards that exist. The original makes a shard at its first use, deals out whole shares, and
 * lets items expire while they owe. So a bucket in shards is joined at the instant at which the last of them was refilled.
 */
export function planShards(
  namespaceId: string,
  bucket: BucketKey,
  shards: readonly OldShard[],
  calendar: Calendar,
): ShardsPlan {
  const [first] = shards;
  if (first === undefined) return { kind: "stays" };
  const items = shards.map(({ shard, item }) => ({ shard, item: withWindow(decodeItem(item)) }));
  const states = items.map(
    ({ shard, item }) =>
      readableImage({ bucket, shard }, item, { calendar, dialect: SHARED, like: undefined, set: undefined }).state,
  );
  const { shards: _, ...whole } = wholeOf(states, calendar);
  const owed = whole.limits.map((limit) => ({ limit, lowMilli: limit.tokensMilli }));
  const fullS = keptUntilFromS(owed, whole.epochMs, calendar);
  const ttlS = Number(first.item[TTL]?.N ?? Number.POSITIVE_INFINITY);
  const isWhole = shards.length === 1 && first.shard === 0 && Number(first.item[SHARD_COUNT]?.N ?? 1) === 1;
  const isPlain = items.every(({ item }, i) => JSON.stringify(item) === JSON.stringify(decodeItem(shards[i]!.item)));
  const key = { bucket, shard: 0 };
  const place = texts(itemPlace(namespaceId, key));
  if (isWhole && isPlain && ttlS >= (fullS ?? Number.POSITIVE_INFINITY)) {
    const set = Object.fromEntries(Object.entries(place).filter(([name, value]) => first.item[name]?.S !== value.S));
    return Object.keys(set).length === 0
      ? { kind: "stays" }
      : { kind: "changes", change: { key: keyIn(first.item), set, remove: [] } };
  }
  const item = newBucket(whole, calendar);
  if (fullS !== undefined) item[TTL] = Math.max(fullS, Number.isFinite(ttlS) ? ttlS : 0);
  const kept = Object.fromEntries(Object.entries(first.item).filter(([name]) => OWNERS.has(name)));
  const made = newItemOf(itemTableKey(namespaceId, key), { ...kept, ...attributesOf(item), ...place });
  const asRead = new Map(shards.map(({ item: read }) => [keyIn(read).pk, stillAs(read)]));
  const gone = shards.filter(({ shard }) => shard !== 0).map(({ item: read }) => keyIn(read));
  return { kind: "joins", made, gone, asRead };
}

/** Attributes that only the original reads, and those that disable a bucket until configuration is read. */
const OWNERS: ReadonlySet<string> = new Set(["cascade", "parent_id", "pgen", "pinc", "disabled", "bypass"]);

/** Applies a session that was opened on another shard and not yet on this one, whose balance is still that of the session before. */
function withWindow(item: Item): Item {
  const changed: Record<string, ItemValue> = {};
  for (const limit of limitNamesIn(item)) {
    const { tk, tc, cp, rsa, ws, wa } = namesOf(limit);
    const [opened, applied, refilled] = [item[ws], item[wa] ?? item[RF] ?? 0, item[`b_${limit}_wtc`]];
    if (item[rsa] === undefined || typeof opened !== "number" || opened <= Number(applied)) continue;
    const share = Math.floor(Number(item[cp]) / Number(item[SHARD_COUNT] ?? 1));
    const spent = refilled === undefined ? 0 : Math.max(0, Number(item[tc] ?? 0) - Number(refilled));
    Object.assign(changed, { [tk]: share - spent, [wa]: opened });
  }
  return Object.keys(changed).length === 0 ? item : { ...item, ...changed };
}

function stillAs(item: Attributes): Condition {
  const names = Object.keys(item).filter((name) => name === RF || name === SHARD_COUNT || /^b_.+_tk$/.test(name));
  return all(...names.map((name) => isStill(name, item[name])));
}
