import { findLimit } from "../../domain/bucket/bucket-state.ts";
import { isHard } from "../../domain/limits/limit.ts";
import { RateLimiterUnavailable } from "../../domain/names/errors.ts";
import type { ProtocolContext } from "../context.ts";
import type { BucketCache } from "../process/bucket-cache.ts";
import type { CallTime } from "../process/call.ts";
import { RETRY } from "../process/retry-policy.ts";
import { type Job, leaveOf } from "../take/job.ts";
import { makeShard } from "./resize.ts";
import { roomIn } from "./split.ts";
import { readWhole } from "./whole.ts";

/**
 * The shard to ask first: one for whose doubt configuration was read, so that it is settled there; else the better of two, by the
 * cache. Undefined if no single one can have enough, or can tell: a floor is one of the whole bucket.
 */
export function pickShard(cache: BucketCache, job: Job, random: () => number): number | undefined {
  const { shardCount } = cache;
  if (shardCount === 1) return 0;
  if (leaveOf(job) > 0 || !couldHold(cache, job)) return undefined;
  const doubted = doubtedBefore(cache, job);
  if (doubted !== undefined) return doubted;
  const one = Math.floor(random() * shardCount);
  const other = Math.floor(random() * shardCount);
  return spareIn(cache, other, job) > spareIn(cache, one, job) ? other : one;
}

/** A shard that doubted an earlier reading of configuration than the job's. */
function doubtedBefore({ doubts, shardCount }: BucketCache, { of: { origin } }: Job): number | undefined {
  const { reading } = origin;
  if (reading === undefined) return undefined;
  for (let shard = 0; shard < shardCount; shard++) {
    const doubt = doubts[shard];
    if (doubt !== undefined && reading > doubt.upTo) return shard;
  }
  return undefined;
}

/** The best known shard besides one that was short, if it is known to have enough. */
export function pickOther(cache: BucketCache, job: Job, short: number): number | undefined {
  if (leaveOf(job) > 0) return undefined;
  let best: number | undefined;
  let most = 0;
  for (let shard = 0; shard < cache.shardCount; shard++) {
    if (shard === short || cache.seen(shard)?.image === undefined) continue;
    const spare = spareIn(cache, shard, job);
    if (spare < most || (spare === most && best !== undefined)) continue;
    best = shard;
    most = spare;
  }
  return best;
}

/** The shard for a debit, by the cache: the fullest one, so that none goes into debt while another could pay. */
export function fullestShard(cache: BucketCache, job: Job): number {
  let best = 0;
  for (let shard = 1; shard < cache.shardCount; shard++) {
    if (spareIn(cache, shard, job) > spareIn(cache, best, job)) best = shard;
  }
  return best;
}

/** Estimates what a shard would have left of the scarcest limit; an unknown shard counts as plenty, so that it is asked. */
function spareIn(cache: BucketCache, shard: number, { amounts, readingMs }: Job): number {
  const image = cache.seen(shard)?.image;
  if (image === undefined) return Number.POSITIVE_INFINITY;
  let least = Number.POSITIVE_INFINITY;
  for (const { limit, milli } of amounts) {
    const held = findLimit(image.state, limit);
    if (held !== undefined && !isHard(held.limit)) continue;
    least = Math.min(least, roomIn(image.state, limit, readingMs) - milli);
  }
  return least;
}

function couldHold(cache: BucketCache, { amounts }: Job): boolean {
  const image = cache.anyImage();
  if (image === undefined) return true;
  return amounts.every(({ limit, milli }) => {
    const held = findLimit(image.state, limit);
    return held === undefined || !isHard(held.limit) || held.terms.capacityMilli >= milli;
  });
}

export async function replacementShard(
  context: ProtocolContext,
  cache: BucketCache,
  shard: number,
  at: CallTime,
): Promise<number> {
  const { nowMs, untilMs } = at;
  await readWhole(context, [cache.key], { readingMs: nowMs, untilMs, policy: RETRY.readWhole });
  const standIn = shard % cache.shardCount;
  if (!context.env.dialect.makesMissingShards || cache.seen(standIn)?.image !== undefined) return standIn;
  // The original makes shards when it first comes to them.
  const made = await makeShard(context, cache.key, standIn, at);
  if (made.kind === "done") return standIn;
  if (made.kind === "unavailable") {
    const { entityId, resource } = cache.key;
    const { cause } = made;
    throw new RateLimiterUnavailable(`Shard ${standIn} of ${entityId} on ${resource} could not be made.`, { cause });
  }
  return cache.images()[0]?.key.shard ?? 0;
}
