import type { BucketCache } from "./bucket-cache.ts";
import type { ProtocolContext } from "./context.ts";
import { makeShard } from "./resize.ts";
import { RETRY } from "./retry-policy.ts";
import { readWhole } from "./whole.ts";

/** The shard that stands for one that is gone. */
export async function standInFor(
  context: ProtocolContext,
  cache: BucketCache,
  shard: number,
  { nowMs, untilMs }: { readonly nowMs: number; readonly untilMs: number },
): Promise<number> {
  await readWhole(context, [cache.key], { readingMs: nowMs, untilMs, policy: RETRY.readWhole });
  const standIn = shard % cache.shardCount;
  if (!context.env.dialect.makesMissingShards || cache.seen(standIn)?.image !== undefined) return standIn;
  // The original makes shards when it first comes to them.
  if (await makeShard(context, cache.key, standIn, nowMs)) return standIn;
  return cache.images()[0]?.key.shard ?? 0;
}
