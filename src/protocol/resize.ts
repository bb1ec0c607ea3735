import type { BucketKey } from "../domain/bucket-key.ts";
import { traitsOf } from "../domain/limit-kinds.ts";
import { limitSet } from "../domain/limit-set.ts";
import type { ItemWrite } from "../ports/item-store.ts";
import { bringTo } from "./apply.ts";
import { SDA } from "./attributes.ts";
import { type Image, numberOf } from "./codec.ts";
import { readWhole, transactOnce } from "./gather.ts";
import type { BucketMemory } from "./memory.ts";
import type { RoundsContext } from "./rounds.ts";
import { doublingWrites, makingWrites, mergingWrites, SHARDS_MAX } from "./split.ts";

/** Between two changes of the number of shards. */
const GROW_AFTER_MS = 10_000;
const SHRINK_AFTER_MS = 600_000;
/** A shard with fewer writes a second than this does not need to be one. */
const IDLE_PER_SECOND = 100;
const BUSY_SPANS = 2;
const ATTEMPTS_MAX = 5;
const BACKOFF_MS = 20;
const TIMEOUT_MS = 5_000;

/** What a bucket's number of shards should become, as far as one shard tells: its own writes, by whomever. */
export function sizeWanted(memory: BucketMemory, shard: number, readingMs: number): "more" | "fewer" | undefined {
  const rate = memory.rates[shard];
  if (rate?.perSecond === undefined || memory.resizing || readingMs < memory.resizeAfterMs) return undefined;
  if (rate.busySpans >= BUSY_SPANS && memory.shardCount < SHARDS_MAX) return "more";
  if (memory.shardCount > 1 && rate.perSecond < IDLE_PER_SECOND && !isYoung(memory, readingMs)) return "fewer";
  return undefined;
}

/** Whether it was seen that there have not been so many shards for long: they are not joined yet, and nobody need read them. */
function isYoung(memory: BucketMemory, readingMs: number): boolean {
  const first = memory.seen(0)?.image;
  const changedMs = first === undefined ? undefined : numberOf(first.item, SDA);
  return changedMs !== undefined && readingMs < changedMs + SHRINK_AFTER_MS;
}

/** Whether a bucket may be split at all: windows of a session open with the first use of the whole bucket. */
export function maySplit(images: readonly Image[]): boolean {
  return images.every(({ state }) => state.limits.every(({ limit }) => !traitsOf(limit).opensWindow));
}

/**
 * Doubles or halves the shards of a bucket, or leaves `target` of them. Nobody waits for it: it is done beside the takes, in
 * one transaction that fails when the bucket moved on. True when it was done.
 */
export async function resize(
  context: RoundsContext,
  bucket: BucketKey,
  to: "more" | "fewer" | 1,
  readingMs: number,
): Promise<boolean> {
  const { env, clock, random, memories } = context;
  const memory = memories.of(bucket);
  if (!env.dialect.mayReshard) return false;
  for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
    const [whole] = await readWhole(context, [bucket], { readingMs, timeoutMs: TIMEOUT_MS });
    const images = whole?.images ?? [];
    const [first] = images;
    if (first === undefined || images.length !== first.shardCount) return false;
    if (images.some(({ shardCount }) => shardCount !== first.shardCount)) return false;
    if (to !== "more" && (await bringNewest(context, bucket, images, readingMs))) continue;
    // Not by a reading from before the shards were read: what drips into one shard after it would pay for what was taken from
    // another by a later one, and joined they would hold more than both did.
    const seenMs = Math.max(readingMs, Math.min(clock.now(), env.latestServerMs()));
    const atMs = Math.max(seenMs, ...images.map(({ state }) => state.epochMs + 1));
    const writes = writesFor(images, to, atMs, context);
    if (writes === undefined) return false;
    const answer = await transactOnce(context, writes, clock.now() + TIMEOUT_MS);
    memory.forget();
    if (answer.kind === "applied") return true;
    if (answer.kind === "unknown") return false;
    await clock.sleep(Math.ceil(random() * BACKOFF_MS * 2 ** attempt), undefined);
  }
  return false;
}

/** What is done to all shards at once is done by the same limits. True when some had to be told of newer ones first. */
export async function bringNewest(
  context: RoundsContext,
  bucket: BucketKey,
  images: readonly Image[],
  readingMs: number,
): Promise<boolean> {
  const newest = images.reduce((a, b) => (b.state.origin.asOfMs > a.state.origin.asOfMs ? b : a));
  if (images.every(({ canonical }) => canonical === newest.canonical)) return false;
  const set = limitSet(newest.state.limits.flatMap(({ limit, configured }) => (configured ? [limit] : [])));
  await bringTo(context, bucket, { set, origin: newest.state.origin }, readingMs, false);
  return true;
}

/** Makes a shard that the original has not made yet. A bucket with quotas is left to the original. True when it is there. */
export async function makeShard(
  context: RoundsContext,
  bucket: BucketKey,
  shard: number,
  readingMs: number,
): Promise<boolean> {
  const { env, clock, memories } = context;
  for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
    const [whole] = await readWhole(context, [bucket], { readingMs, timeoutMs: TIMEOUT_MS });
    const images = whole?.images ?? [];
    if (images.some(({ key }) => key.shard === shard)) return true;
    if (images.some(({ state }) => state.limits.some(({ limit }) => !traitsOf(limit).refillsSteadily))) return false;
    const sibling = siblingOf(images, shard);
    if (sibling === undefined) return false;
    const atMs = Math.max(readingMs, sibling.state.epochMs + 1);
    const answer = await transactOnce(context, makingWrites(sibling, shard, atMs, env), clock.now() + TIMEOUT_MS);
    memories.of(bucket).forget();
    if (answer.kind === "applied") return true;
    if (answer.kind === "unknown") return false;
  }
  return false;
}

/** The shard that was there before this one was split off: half as many ago, or a quarter, and so on. */
function siblingOf(images: readonly Image[], shard: number): Image | undefined {
  for (let count = (images[0]?.shardCount ?? 1) / 2; count >= 1; count /= 2) {
    const found = images.find(({ key }) => key.shard === shard % count);
    if (found !== undefined) return found;
  }
  return undefined;
}

function writesFor(
  images: readonly Image[],
  to: "more" | "fewer" | 1,
  atMs: number,
  { env }: RoundsContext,
): readonly ItemWrite[] | undefined {
  const [first] = images as readonly [Image];
  const changedMs = numberOf(first.item, SDA) ?? Number.NEGATIVE_INFINITY;
  const count = first.shardCount;
  switch (to) {
    case "more":
      if (count * 2 > SHARDS_MAX || atMs - changedMs < GROW_AFTER_MS || !maySplit(images)) return undefined;
      return doublingWrites(images, atMs, env);
    case "fewer":
      if (count === 1 || atMs - changedMs < SHRINK_AFTER_MS) return undefined;
      return mergingWrites(images, count / 2, atMs, env);
    case 1:
      return count === 1 ? undefined : mergingWrites(images, 1, atMs, env);
  }
}
