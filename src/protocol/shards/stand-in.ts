import { RateLimiterUnavailable } from "../../domain/names/errors.ts";
import type { ProtocolContext } from "../context.ts";
import type { BucketCache } from "../process/bucket-cache.ts";
import { RETRY } from "../process/retry-policy.ts";
import { makeShard } from "./resize.ts";
import { readWhole } from "./whole.ts";

/** The shard that stands for one that is gone. */
export async function replacementShard(
  context: ProtocolContext,
  cache: BucketCache,
  shard: number,
  at: { readonly nowMs: number; readonly untilMs: number },
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
