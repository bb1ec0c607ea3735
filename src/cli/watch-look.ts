import { ValidationError } from "../domain/names/errors.ts";
import type { Explanation, LimitExplanation } from "../entry/index.ts";
import type { CommandLimiter } from "./on-store.ts";

/** One limit of one bucket at one look. */
export interface WatchedBucket {
  readonly atMs: number;
  readonly entityId: string;
  readonly resource: string;
  readonly limit: string;
  readonly available: number;
  readonly capacity: number;
  /** Since the look before; 0 at the first. */
  readonly takenPerSecond: number;
  /** A request of one token, or of `-c`, would be refused now. */
  readonly blocked: boolean;
  readonly retryAfterMs: number;
  /** The percentages of `notifyAt` that were told. Absent: the limit tells none. */
  readonly notified?: readonly number[];
}

/** One limit as the list of buckets has it. */
interface ListedLimit {
  readonly entityId: string;
  readonly resource: string;
  readonly limit: string;
  readonly counts: string;
  readonly available: number;
  readonly capacity: number;
  readonly notified?: readonly number[];
  /** When its page of the list had come. */
  readonly readAtMs: number;
  /** How much earlier than that it may have been read. */
  readonly blurMs: number;
}

/** The limits of all buckets that are watched, as they were listed once. */
export interface BucketReading {
  /** When the first page was asked for. */
  readonly atMs: number;
  /** In the order of the list, by `limitKey`. */
  readonly limits: ReadonlyMap<string, ListedLimit>;
}

/** A page of the list is read within this time from stores nearby; a page that took longer says so. */
const BLUR_MS = 50;

/** Buckets of one page: so few that BLUR_MS holds. */
const PAGE_BUCKETS = 1_000;

/** How many buckets are asked about at the same time, where that takes calls over a network. */
const ASKED_TOGETHER = 16;

export function limitKey(of: { readonly entityId: string; readonly resource: string; readonly limit: string }): string {
  return `${of.entityId}\n${of.resource}\n${of.limit}`;
}

/** Lists the buckets, and asks nothing about any of them: all that a look costs for those that are not shown. */
export async function readBuckets(
  limiter: CommandLimiter,
  query: { readonly entityId?: string; readonly resource?: string },
  now: () => number,
): Promise<BucketReading> {
  const atMs = now();
  const listed = new Map<string, ListedLimit>();
  let cursor: string | undefined;
  do {
    const askedAtMs = now();
    const from = cursor === undefined ? {} : { cursor };
    const page = await limiter.listBuckets({ ...query, limit: PAGE_BUCKETS, ...from });
    const readAtMs = now();
    const blurMs = Math.max(BLUR_MS, readAtMs - askedAtMs);
    for (const { entityId, resource, limits } of page) {
      for (const { limit, counts, available, capacity, notified } of limits) {
        const marks = notified === undefined ? {} : { notified };
        const one = { entityId, resource, limit, counts, available, capacity, readAtMs, blurMs, ...marks };
        listed.set(limitKey(one), one);
      }
    }
    cursor = page.cursor;
  } while (cursor !== undefined);
  return { atMs, limits: listed };
}

/** Fullest use first: debt, then what is nearest to nothing. */
export function byUse(a: ListedLimit, b: ListedLimit): number {
  return a.available / a.capacity - b.available / b.capacity;
}

interface LookOptions {
  readonly consume: Readonly<Record<string, number>>;
  /** The reading of these limits. */
  readonly now: BucketReading;
  /** The reading that rates are worked out from. */
  readonly before: BucketReading | undefined;
  /** How many are shown. */
  readonly itemsMax: number;
}

/**
 * Asks about the first of these limits, until enough can be shown, and says how many were not asked about. A limit that came with a
 * request and is not configured is not shown: the request alone knows what it would be asked by.
 */
export async function lookAt(
  limiter: CommandLimiter,
  limits: readonly ListedLimit[],
  options: LookOptions,
): Promise<{ readonly items: readonly WatchedBucket[]; readonly unasked: number }> {
  let items: readonly WatchedBucket[] = [];
  let asked = 0;
  while (asked < limits.length && items.length < options.itemsMax) {
    const some = limits.slice(asked, asked + options.itemsMax - items.length);
    asked += some.length;
    items = items.concat(await itemsOf(limiter, some, options));
  }
  return { items, unasked: limits.length - asked };
}

/** Each bucket is asked about once, however many of its limits are shown and wherever they stand. */
async function itemsOf(
  limiter: CommandLimiter,
  limits: readonly ListedLimit[],
  options: LookOptions,
): Promise<readonly WatchedBucket[]> {
  const together = new Map<string, ListedLimit[]>();
  for (const limit of limits) {
    const key = `${limit.entityId}\n${limit.resource}`;
    const known = together.get(key);
    if (known === undefined) together.set(key, [limit]);
    else known.push(limit);
  }
  const buckets = [...together.values()];
  const items = new Map<ListedLimit, WatchedBucket>();
  for (let i = 0; i < buckets.length; i += ASKED_TOGETHER) {
    const some = buckets.slice(i, i + ASKED_TOGETHER);
    await Promise.all(some.map((bucket) => addItems(items, limiter, bucket, options)));
  }
  return limits.flatMap((limit) => items.get(limit) ?? []);
}

async function addItems(
  items: Map<ListedLimit, WatchedBucket>,
  limiter: CommandLimiter,
  limits: readonly ListedLimit[],
  { consume, now, before }: LookOptions,
): Promise<void> {
  const { entityId, resource } = limits[0] as ListedLimit;
  const explained = await explanationOf(limiter, { entityId, resource });
  const defined = new Map((explained?.levels[0]?.limits ?? []).map((each) => [each.limit, each]));
  const known = limits.filter(({ limit }) => defined.has(limit));
  if (known.length === 0) return;
  const measures = new Set(known.map(({ counts }) => counts));
  const waits =
    explained?.outcome === "disabled"
      ? new Map<string, number>()
      : await waitsOf(
          limiter,
          { entityId, resource },
          new Map([...measures].map((each) => [each, consume[each] ?? 1])),
        );
  for (const one of known) {
    const retryAfterMs = waits.get(one.counts) ?? Number.POSITIVE_INFINITY;
    const { limit, available, capacity, notified } = one;
    const takenPerSecond = takenSince(before?.limits.get(limitKey(one)), one, defined.get(limit) as LimitExplanation);
    items.set(one, {
      ...{ atMs: now.atMs, entityId, resource, limit, available, capacity },
      ...{ takenPerSecond, blocked: retryAfterMs > 0, retryAfterMs },
      ...(notified === undefined ? {} : { notified }),
    });
  }
}

/** Undefined: nothing is configured for it, and its limits came with a request. */
async function explanationOf(
  limiter: CommandLimiter,
  bucket: { readonly entityId: string; readonly resource: string },
): Promise<Explanation | undefined> {
  try {
    return await limiter.explain(bucket);
  } catch (error) {
    if (error instanceof ValidationError && error.code === "limits_missing") return undefined;
    throw error;
  }
}

/** How long each measure alone would have to wait: the request itself is no part of the question. */
async function waitsOf(
  limiter: CommandLimiter,
  bucket: { readonly entityId: string; readonly resource: string },
  amounts: ReadonlyMap<string, number>,
): Promise<ReadonlyMap<string, number>> {
  const asked = { requests: 0, ...Object.fromEntries(amounts) };
  const togetherMs = await limiter.timeUntilAvailable({ ...bucket, consume: asked });
  const waits = new Map([...amounts.keys()].map((measure) => [measure, togetherMs]));
  // If all of them fit together, each of them does.
  if (togetherMs === 0 || amounts.size === 1) return waits;
  for (const [measure, amount] of amounts) {
    waits.set(measure, await limiter.timeUntilAvailable({ ...bucket, consume: { requests: 0, [measure]: amount } }));
  }
  return waits;
}

/** The tokens that are gone beyond those that dripped in meanwhile; a reset in between counts as nothing taken. */
function takenSince(before: ListedLimit | undefined, now: ListedLimit, { kind, definition }: LimitExplanation): number {
  const elapsedMs = before === undefined ? 0 : now.readAtMs - before.readAtMs;
  if (before === undefined || elapsedMs <= 0) return 0;
  const drippedIn = kind === "drip" ? (definition.refillAmount * elapsedMs) / definition.refillPeriodMs : 0;
  const expected = Math.min(now.capacity, before.available + drippedIn);
  const perSecond = (expected - now.available) / (elapsedMs / 1000);
  // Whole tokens are seen, a little before the reading of the clock: so little between two looks may be nothing.
  const blur = 1 + (kind === "drip" ? (definition.refillAmount * now.blurMs) / definition.refillPeriodMs : 0);
  return expected - now.available < blur ? 0 : Math.round(perSecond * 10) / 10;
}
