import type { Attributes, AttributeValue } from "../adapters/dynamodb/codec.ts";
import { itemPlace, itemTableKey, namesOf, TTL, UH, WCU } from "../adapters/dynamodb/schema.ts";
import type { Terms } from "../bucket/balance.ts";
import { rebase } from "../bucket/level.ts";
import { TRUSTED_CLOCK } from "../clock/server-time.ts";
import { bucketKey } from "../domain/bucket/bucket-key.ts";
import { assembled, type LimitState } from "../domain/bucket/bucket-state.ts";
import { NO_SLICES } from "../domain/bucket/holds.ts";
import type { Calendar } from "../domain/limits/calendar.ts";
import { limitSet } from "../domain/limits/limit-set.ts";
import type { ItemValue } from "../ports/item-store.ts";
import { OWN, SOFT_FOREVER_MS } from "../protocol/item/dialect.ts";
import { newItem } from "../protocol/item/encode-item.ts";
import { keptUntilFromS } from "../protocol/item/ttl.ts";
import type { Env } from "../protocol/take/intent.ts";
import { unreadable, wholeIn } from "./old-items.ts";
import { type NewItem, newItemOf } from "./planned.ts";

/** One limit of an old bucket, in its own terms. */
export interface OldLimit {
  readonly name: string;
  readonly tokensMilli: number;
  readonly refilledAtMs: number;
  /** What may be held: the burst, where there is one. */
  readonly terms: Terms;
}

/** A bucket of an old layout. */
export interface OldBucket {
  readonly entityId: string;
  readonly resource: string;
  readonly limits: readonly OldLimit[];
  /** The latest `ttl` of its items, in seconds. */
  readonly ttlS: number | undefined;
  /** Of its entity: only the original reads it from the bucket. */
  readonly owner: Attributes;
}

/** An item that holds one limit. */
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

/** The limits of an item that holds all of a bucket. */
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
  /** No item expires before this second: the migration may take its time. */
  readonly keptUntilS: number;
}

/**
 * The one item of a bucket, unsharded. Its limits were refilled at different times: the latest counts for all, and what the
 * others gained until then is added, to the fraction, so that every level goes on as it would have.
 */
export function planBucket(bucket: OldBucket, { namespaceId, calendar, keptUntilS }: BucketContext): NewItem {
  const epochMs = Math.max(...bucket.limits.map(({ refilledAtMs }) => refilledAtMs));
  const limits = bucket.limits.toSorted((a, b) => (a.name < b.name ? -1 : 1)).map((limit) => stateAt(limit, epochMs));
  const { signature } = limitSet(limits.map(({ limit }) => limit));
  const origin = { asOfMs: 0, generation: null };
  const state = assembled({ epochMs, limits, signature, origin }, calendar);
  const item: Record<string, ItemValue> = newItem(state, undefined, envWith(calendar));
  // It has counted nothing yet: its first hour begins with the first take.
  delete item[UH];
  for (const { name, terms } of limits) {
    const { cp, ra, rp } = namesOf(name);
    Object.assign(item, { [cp]: terms.capacityMilli, [ra]: terms.refillAmountMilli, [rp]: terms.refillPeriodMs });
  }
  const owed = limits.map((limit) => ({ limit, lowMilli: limit.tokensMilli }));
  const fullS = keptUntilFromS(owed, epochMs, calendar);
  if (fullS !== undefined) item[TTL] = Math.max(fullS, bucket.ttlS ?? 0, keptUntilS);
  const key = { bucket: bucketKey(bucket.entityId, bucket.resource), shard: 0 };
  const attributes = { ...bucket.owner, ...encoded(item), ...texts(itemPlace(namespaceId, key)) };
  return newItemOf(itemTableKey(namespaceId, key), attributes);
}

export function envWith(calendar: Calendar): Env {
  const softUntilMs = () => SOFT_FOREVER_MS;
  return { calendar, dialect: OWN, serverTime: TRUSTED_CLOCK, softUntilMs, usageKeptS: () => 0 };
}

export function encoded(item: Readonly<Record<string, ItemValue>>): Record<string, AttributeValue> {
  return Object.fromEntries(
    Object.entries(item).map(([name, value]) => {
      if (typeof value === "number") return [name, { N: String(value) }];
      return [name, typeof value === "string" ? { S: value } : { BOOL: value }];
    }),
  );
}

function stateAt({ name, tokensMilli, refilledAtMs, terms }: OldLimit, epochMs: number): LimitState {
  const balance = rebase({ tokensMilli, remainder: 0 }, terms, epochMs - refilledAtMs);
  const { capacityMilli, refillAmountMilli, refillPeriodMs } = terms;
  const limit = Object.freeze({
    ...{ name, capacity: capacityMilli / 1000, refillAmount: refillAmountMilli / 1000, refillPeriodMs },
  });
  return {
    ...{ name, limit, terms, configured: true, ...balance, quota: undefined, slices: NO_SLICES, part: undefined },
    ...{ rememberUntilMs: 0, resetsBefore: 0 },
  };
}

function checked(item: Attributes, limit: OldLimit): OldLimit {
  const { capacityMilli, refillAmountMilli, refillPeriodMs } = limit.terms;
  if (capacityMilli > 0 && refillAmountMilli > 0 && refillPeriodMs > 0) return limit;
  throw unreadable(item, `its limit "${limit.name}" has no capacity, refill or period`);
}

function texts(values: Readonly<Record<string, string>>): Attributes {
  return Object.fromEntries(Object.entries(values).map(([name, S]) => [name, { S }]));
}
