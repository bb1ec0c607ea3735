import { findLimit } from "../domain/bucket-state.ts";
import type { Job } from "./job.ts";
import type { BucketMemory } from "./memory.ts";
import { roomIn } from "./split.ts";

/** A shard to ask first: the better of two, by what is remembered. Undefined when no single one can have enough. */
export function pickShard(memory: BucketMemory, job: Job, random: () => number): number | undefined {
  const { shardCount } = memory;
  if (shardCount === 1) return 0;
  if (!couldHold(memory, job)) return undefined;
  const one = Math.floor(random() * shardCount);
  const other = Math.floor(random() * shardCount);
  return spareIn(memory, other, job) > spareIn(memory, one, job) ? other : one;
}

/** The best known shard besides one that was short, if it is known to have enough. */
export function pickOther(memory: BucketMemory, job: Job, short: number): number | undefined {
  let best: number | undefined;
  let most = 0;
  for (let shard = 0; shard < memory.shardCount; shard++) {
    if (shard === short || memory.seen(shard)?.image === undefined) continue;
    const spare = spareIn(memory, shard, job);
    if (spare < most || (spare === most && best !== undefined)) continue;
    best = shard;
    most = spare;
  }
  return best;
}

/** What a shard would have left of the limit that is scarcest; nothing known counts as plenty, to learn of it. */
function spareIn(memory: BucketMemory, shard: number, { amounts, readingMs }: Job): number {
  const image = memory.seen(shard)?.image;
  if (image === undefined) return Number.POSITIVE_INFINITY;
  let least = Number.POSITIVE_INFINITY;
  for (const { limit, milli } of amounts) {
    if (findLimit(image.state, limit)?.limit.soft) continue;
    least = Math.min(least, roomIn(image.state, limit, readingMs) - milli);
  }
  return least;
}

/** Whether a shard, full, would have enough. */
function couldHold(memory: BucketMemory, { amounts }: Job): boolean {
  const image = memory.shards.find((seen) => seen?.image !== undefined)?.image;
  if (image === undefined) return true;
  return amounts.every(({ limit, milli }) => {
    const held = findLimit(image.state, limit);
    return held === undefined || held.limit.soft === true || held.terms.capacityMilli >= milli;
  });
}
