import { wholeTokens } from "../../bucket/level.ts";
import { type BucketKey, bucketKey } from "../../domain/bucket/bucket-key.ts";
import {
  acrossBoundaries,
  availableMilli,
  type BucketState,
  bucketFor,
  type LimitState,
} from "../../domain/bucket/bucket-state.ts";
import { counting } from "../../domain/charge/amounts.ts";
import { levelAt } from "../../domain/config/config.ts";
import { changesIn } from "../../domain/config/config-versions.ts";
import { asTotals, TOTAL_RESOURCE } from "../../domain/config/totals.ts";
import { kindOf } from "../../domain/limits/kinds/table.ts";
import type { LimitKind } from "../../domain/limits/limit-kind.ts";
import { limitSet } from "../../domain/limits/limit-set.ts";
import { notifiedOf } from "../../domain/limits/thresholds.ts";
import { given } from "../../domain/names/given.ts";
import { KnownNames } from "../../domain/names/known-names.ts";
import { checkBucketResource, checkEntityId } from "../../domain/names/names.ts";
import type { Page, PageRequest } from "../../domain/names/paging.ts";
import type { GuardedDeps } from "../acquire/guarded-deps.ts";
import { type Listing, type ListOptions, listing } from "./listing.ts";
import { withNeverCharged } from "./never-charged.ts";

/** Which buckets to list. */
export interface BucketQuery {
  /** Buckets of this entity. Default: of all entities. */
  readonly entityId?: string;
  /** Buckets on this resource. Default: on all resources. */
  readonly resource?: string;
}

/** A bucket that tokens were taken from, and what it holds now. */
export interface BucketListing {
  /** Whose bucket. */
  readonly entityId: string;
  /** The resource of the bucket. */
  readonly resource: string;
  /** What each limit holds. */
  readonly limits: readonly {
    /** The limit's name. */
    readonly limit: string;
    /** The measure that it counts. */
    readonly counts: string;
    /** Whole tokens, negative in debt. */
    readonly available: number;
    /** Whole tokens: the most it holds at present. */
    readonly capacity: number;
    /** How it fills again. */
    readonly kind: LimitKind;
    /** Whether it only measures and never refuses. */
    readonly soft: boolean;
    /** Whether it only decides, to be counted, and never refuses. */
    readonly shadow: boolean;
    /** Percentages that are told when so much is used. Absent: none. */
    readonly notifyAt?: readonly number[];
    /** Those of them that were told. Absent: it tells none. */
    readonly notified?: readonly number[];
    /** Nothing was ever charged to it, as far as usage is kept. Absent: something was, or usage cannot be read. */
    readonly neverCharged?: true;
  }[];
}

const BUCKET_QUERY = new KnownNames<BucketQuery & ListOptions>({
  ...{ entityId: true, resource: true, limit: true, cursor: true },
});

/**
 * Lists buckets by entity id, then by resource. Each shows the limits in force, as the next request would find them: the stored ones,
 * or those that came with a request. A bucket without limits is left out.
 */
export function bucketsListed(deps: GuardedDeps, query: BucketQuery & ListOptions): Listing<BucketListing> {
  const { entityId, resource, ...page } = BUCKET_QUERY.check(query, "The query of listBuckets");
  if (entityId !== undefined) checkEntityId(entityId);
  if (resource !== undefined) checkBucketResource(resource);
  return listing(async (request) => {
    const { items, cursor } = await storedBuckets(deps, { entityId, resource }, request);
    const nowMs = deps.clock.now();
    const shown: BucketListing[] = [];
    for (let i = 0; i < items.length; i += READ_TOGETHER) {
      const some = items.slice(i, i + READ_TOGETHER);
      const buckets = await Promise.all(
        some.map(async (bucket) => {
          const state = await bucketInForce(deps, bucket, nowMs);
          return state === undefined ? [] : [await shownBucket(deps, bucket.key, state, nowMs)];
        }),
      );
      shown.push(...buckets.flat());
    }
    return { items: shown, ...given({ cursor }) };
  }, page);
}

const READ_TOGETHER = 8;

/** The bucket with the limits in force; undefined if it has none any more. */
export async function bucketInForce(
  { scope, calendar }: GuardedDeps,
  { key, state }: StoredBucket,
  nowMs: number,
): Promise<BucketState | undefined> {
  const { config } = scope;
  const generation = config.generation() ?? null;
  const { origin } = (state.shards ?? [state])[0] as BucketState;
  // If configuration has a generation, limits without one came with a request.
  const isGiven = origin.given === true || (generation !== null && origin.generation === null);
  if (isGiven) return acrossBoundaries(state, nowMs, calendar);
  const resolved = await config.resolve(key.entityId, key.resource, "consistent");
  const inForce = levelAt(resolved, nowMs);
  const level = key.resource === TOTAL_RESOURCE ? asTotals(inForce) : inForce;
  if (level.limits.length === 0) return undefined;
  const claimed = { asOfMs: nowMs, generation, ...changesIn(level, limitSet) };
  return bucketFor(state, { set: limitSet(level.limits), origin: claimed }, nowMs, calendar);
}

export type StoredBucket = { readonly key: BucketKey; readonly state: BucketState };

export async function storedBuckets(
  { bucketLists: buckets }: GuardedDeps,
  { entityId, resource }: { readonly entityId?: string | undefined; readonly resource?: string | undefined },
  page: PageRequest,
): Promise<Page<StoredBucket>> {
  if (entityId === undefined && resource !== undefined) return buckets.listByResource(resource, page);
  const found: Page<BucketKey> =
    entityId !== undefined && resource !== undefined
      ? { items: [bucketKey(entityId, resource)] }
      : await buckets.listKeys(entityId === undefined ? {} : { entityId }, page);
  const states = await buckets.read(found.items);
  const items = found.items.flatMap((key, i) => (states[i] === undefined ? [] : [{ key, state: states[i] }]));
  return { ...found, items };
}

async function shownBucket(
  { scope }: GuardedDeps,
  bucket: BucketKey,
  state: BucketState,
  nowMs: number,
): Promise<BucketListing> {
  const limits = state.limits
    .filter(({ configured }) => configured)
    .map((held) => ({
      ...counting(held.limit),
      available: wholeTokens(availableMilli(state, held, nowMs)),
      capacity: wholeTokens(held.terms.capacityMilli),
      kind: kindOf(held.limit),
      soft: held.limit.soft === true,
      shadow: held.limit.shadow === true,
      ...marksOf(state, held, nowMs),
    }));
  const { entityId, resource } = bucket;
  return { entityId, resource, limits: await withNeverCharged(scope, bucket, limits) };
}

function marksOf(state: BucketState, held: LimitState, nowMs: number) {
  const { notifyAt } = held.limit;
  const notified = notifiedOf(state, held, nowMs);
  return notifyAt === undefined || notified === undefined ? {} : { notifyAt, notified };
}
