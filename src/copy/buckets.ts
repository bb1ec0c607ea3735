import { advanced, availableMilli, type BucketState, bucketFor } from "../domain/bucket/bucket-state.ts";
import { lastNumberOf } from "../domain/config/change-number.ts";
import { levelAt } from "../domain/config/config.ts";
import { changesIn } from "../domain/config/config-versions.ts";
import { asTotals, TOTAL_RESOURCE } from "../domain/config/totals.ts";
import { knowsMore, limitSet } from "../domain/limits/limit-set.ts";
import { given } from "../domain/names/given.ts";
import type { Page, PageRequest } from "../domain/names/paging.ts";
import type { CopiedBucket } from "../ports/copy-store.ts";
import type { Side } from "./side.ts";

/** Reads of configuration that are under way together. */
const READ_TOGETHER = 8;

/** Buckets as they are at a reading: each is one, and has met every change of stored limits that was made before. */
export async function bucketsAt(side: Side, page: PageRequest, nowMs: number): Promise<Page<CopiedBucket>> {
  const { items, cursor } = await storedBuckets(side, page);
  const found: CopiedBucket[] = [];
  for (let i = 0; i < items.length; i += READ_TOGETHER) {
    found.push(...(await Promise.all(items.slice(i, i + READ_TOGETHER).map((one) => bucketAt(side, one, nowMs)))));
  }
  return { items: found, ...given({ cursor }) };
}

/** Buckets as they are stored. */
export async function storedBuckets({ scope }: Side, page: PageRequest): Promise<Page<CopiedBucket>> {
  const found = await scope.buckets.listKeys({}, page);
  const states = await scope.buckets.read(found.items);
  const items = found.items.flatMap((key, i) => (states[i] === undefined ? [] : [{ key, state: states[i] }]));
  return { ...found, items };
}

async function bucketAt(side: Side, { key, state }: CopiedBucket, nowMs: number): Promise<CopiedBucket> {
  const { calendar } = side.deps;
  const isGiven = isOfRequest(side, state);
  const { met, changeNumber } = isGiven ? { met: state } : await withChanges(side, { key, state }, nowMs);
  const { shards: _, ...whole } = met;
  // Holds that have ended are still counted by whoever writes the bucket next.
  const hasEnded = whole.limits.some(({ slices }) => slices.some(({ endMs }) => endMs <= nowMs));
  const then = hasEnded || nowMs <= whole.epochMs ? whole : advanced(whole, nowMs, calendar);
  const ofRequest = isGiven ? (true as const) : undefined;
  const origin = { asOfMs: nowMs, generation: null, ...given({ given: ofRequest, changeNumber }) };
  return { key, state: { ...then, origin, untouched: false } };
}

/** Its limits came with a request: where configuration has a generation, they have none. */
function isOfRequest({ scope }: Side, state: BucketState): boolean {
  const { origin } = (state.shards ?? [state])[0] as BucketState;
  return origin.given === true || (scope.config.generation() !== undefined && origin.generation === null);
}

interface Met {
  readonly met: BucketState;
  /** The number of the newest change where changes go by their instants; absent: the reading of the clock is past them all. */
  readonly changeNumber?: number;
}

/** The bucket after the changes of stored limits that it has not met, each from its instant: as the next request would find it. */
async function withChanges({ scope, deps }: Side, { key, state }: CopiedBucket, nowMs: number): Promise<Met> {
  const resolved = await scope.config.resolve(key.entityId, key.resource, "consistent");
  const inForce = levelAt(resolved, nowMs);
  const level = key.resource === TOTAL_RESOURCE ? asTotals(inForce) : inForce;
  const generation = scope.config.generation() ?? null;
  const origin = { asOfMs: nowMs, generation, ...changesIn(level, limitSet) };
  const isBehind = (state.shards ?? [state]).some((one) => knowsMore(origin, one.origin));
  const met = isBehind ? bucketFor(state, { set: limitSet(level.limits), origin }, nowMs, deps.calendar) : state;
  // Changes lie ahead where several were made in one millisecond, or by a clock that was ahead.
  const newestMs = level.changes?.at(-1)?.fromMs ?? 0;
  return { met, ...given({ changeNumber: newestMs > nowMs ? lastNumberOf(newestMs) : undefined }) };
}

/** The balance of each limit of a bucket at an instant, in millitokens: free, and held. */
export function balancesAt(side: Side, { state }: CopiedBucket, atMs: number): ReadonlyMap<string, Balance> {
  const { shards: _, ...whole } = state;
  const then = atMs <= whole.epochMs ? whole : advanced(whole, atMs, side.deps.calendar);
  return new Map(
    then.limits.map((limit) => {
      const heldMilli = limit.slices.reduce((sum, slice) => sum + slice.heldMilli, 0);
      const { windowStartMs = 0, topUpMilli = 0 } = limit.quota ?? {};
      return [limit.name, { availableMilli: availableMilli(then, limit, atMs), heldMilli, windowStartMs, topUpMilli }];
    }),
  );
}

export interface Balance {
  readonly availableMilli: number;
  readonly heldMilli: number;
  readonly windowStartMs: number;
  readonly topUpMilli: number;
}

/** A text that is another one once anything was taken, given back or changed. */
export function stampOf({ state }: CopiedBucket): string {
  const shards = state.shards ?? [state];
  return JSON.stringify(
    shards.map(({ epochMs, limits, signature }) => [
      epochMs,
      signature,
      ...limits.map(({ name, tokensMilli, remainder, quota, slices }) => [name, tokensMilli, remainder, quota, slices]),
    ]),
  );
}
