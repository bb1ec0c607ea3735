import type { Count } from "../../bucket/integers.ts";
import type { BucketKey } from "../../domain/bucket/bucket-key.ts";
import { isWhole } from "../../domain/limits/changed-limit.ts";
import { rulesOf } from "../../domain/limits/kinds/table.ts";
import { RateLimiterUnavailable } from "../../domain/names/errors.ts";
import type { ItemWrite } from "../../ports/item-store.ts";
import type { ProtocolContext } from "../context.ts";
import type { Drawn, Plan } from "../decide/transact.ts";
import { SDA, UH } from "../item/attributes.ts";
import { type Image, numberOf } from "../item/codec.ts";
import type { BucketCache } from "../process/bucket-cache.ts";
import type { CallTime } from "../process/call.ts";
import { BETWEEN_RESIZES_MS, RETRY } from "../process/retry-policy.ts";
import { rollWrite } from "../usage/close-hours.ts";
import { closedHourIn, hourNumber, isOnSheet, openHourIn } from "../usage/hours.ts";
import { sheetedBy, sheetWrite } from "../usage/sheets.ts";
import { countsAgree, doublingWrites, makingWrites, mergingWrites, SHARDS_MAX } from "./split.ts";
import { transactPlan } from "./whole.ts";

/** Least time between two changes of the number of shards. */
const GROW_AFTER_MS = 10_000;
const SHRINK_AFTER_MS = 600_000;

/** True if a bucket may be split: nothing exists once for all of it, such as the window of a session. */
function maySplit(images: readonly Image[]): boolean {
  return images.every(({ state }) => state.limits.every(({ limit, slices }) => !isWhole(limit) && slices.length === 0));
}

/** Outcome of a change of shards. `not done`: it is not needed, or others wrote to the shards at every attempt. */
type Reshaped =
  | { readonly kind: "done" }
  /** `seen`: the shards that it was last drawn from; none if nothing was drawn. */
  | { readonly kind: "not done"; readonly seen: readonly Image[] }
  /** The store did not answer; perhaps it was done all the same. */
  | { readonly kind: "unavailable"; readonly cause: unknown };

/** Doubles or halves the shards of a bucket, or joins them to one, without a waiting caller. Returns true if it was done. */
export async function resize(
  context: ProtocolContext,
  bucket: BucketKey,
  to: "more" | "fewer" | 1,
  nowMs: number,
): Promise<boolean> {
  const reshaped = await reshape(context, bucket, to, { nowMs, untilMs: Number.POSITIVE_INFINITY });
  return reshaped.kind === "done";
}

/** A shard was written: resizes the bucket if its load calls for it. */
export function watchSize(context: ProtocolContext, cache: BucketCache, shard: number, readingMs: number): void {
  const wanted = sizeWanted(cache, shard, readingMs);
  if (wanted !== undefined) resizeInBackground(context, cache, wanted, readingMs);
}

/** Changes the shards of a bucket, unless this process did so, or tried to, a moment ago. */
export function resizeInBackground(
  context: ProtocolContext,
  cache: BucketCache,
  to: "more" | "fewer" | 1,
  readingMs: number,
): void {
  if (readingMs < cache.resizeAfterMs) return;
  cache.resizeAfterMs = Number.POSITIVE_INFINITY;
  const work = resize(context, cache.key, to, readingMs).finally(() => {
    cache.resizeAfterMs = readingMs + BETWEEN_RESIZES_MS;
  });
  context.background.track(work, cache.key, "other", "the shards of a bucket could not be changed");
}

/** A shard with fewer writes a second than this is not needed. */
const IDLE_PER_SECOND = 100;
const BUSY_SPANS = 2;

/** The change of a bucket's shards that the writes of all processes to one of them call for. */
function sizeWanted(cache: BucketCache, shard: number, readingMs: number): "more" | "fewer" | undefined {
  const rate = cache.rates[shard];
  if (rate?.perSecond === undefined) return undefined;
  if (rate.busySpans >= BUSY_SPANS && cache.shardCount < SHARDS_MAX) return "more";
  if (cache.shardCount > 1 && rate.perSecond < IDLE_PER_SECOND && !isYoung(cache, readingMs)) return "fewer";
  return undefined;
}

/** True if the number of shards was changed so lately that they are not joined yet, and need not be read. */
function isYoung(cache: BucketCache, readingMs: number): boolean {
  const first = cache.seen(0)?.image;
  const changedMs = first === undefined ? undefined : numberOf(first.item, SDA);
  return changedMs !== undefined && readingMs < changedMs + SHRINK_AFTER_MS;
}

/** Joins the shards of a bucket for a caller that waits until `untilMs`. */
export function joinInTime(context: ProtocolContext, bucket: BucketKey, at: CallTime): Promise<Reshaped> {
  return reshape(context, bucket, 1, at).catch(orUnavailable);
}

export function orUnavailable(cause: unknown): Extract<Reshaped, { kind: "unavailable" }> {
  if (cause instanceof RateLimiterUnavailable) return { kind: "unavailable", cause };
  throw cause;
}

/** One transaction, which fails if a shard was changed since it was read. */
async function reshape(
  context: ProtocolContext,
  bucket: BucketKey,
  to: "more" | "fewer" | 1,
  at: CallTime,
): Promise<Reshaped> {
  const { env, clock } = context;
  const readingMs = at.nowMs;
  if (!env.dialect.mayReshard) return { kind: "not done", seen: [] };
  const policy = to === "more" ? RETRY.resize : RETRY.join;
  return transactPlan(context, { ...reshapePlan(bucket, at, draw), policy }, "reading");

  function draw(images: readonly Image[]): Drawn<Reshaped> {
    const [first] = images;
    if (first === undefined || images.length !== first.shardCount) return NOT_DONE;
    if (images.some(({ shardCount }) => shardCount !== first.shardCount)) return NOT_DONE;
    // Only shards with the same limits are joined. It is unknown here which of two are newer: the instants at which they were
    // read may be equal, or come from clocks that disagree. The next takes install the current limits on each shard, and cut
    // nothing off.
    if (to !== "more" && !agreeOnLimits(images)) return NOT_DONE;
    // A reading from before the shards were read would be wrong: what one shard refilled after it would pay for what was taken
    // from another by a later reading, and joined they would hold more than both did.
    const seenMs = Math.max(readingMs, Math.min(clock.now(), env.serverTime.latestMs()));
    const atMs = Math.max(seenMs, ...images.map(({ state }) => state.epochMs + 1));
    const hours = to === "more" ? [] : hoursBefore(context, images, { readingMs, atMs });
    if (hours === undefined) return NOT_DONE;
    if (hours.length > 0) return { kind: "install", installs: hours };
    const writes = writesFor(images, to, atMs, context);
    return writes === undefined ? NOT_DONE : { kind: "transact", writes, event: undefined, result: DONE };
  }
}

function agreeOnLimits(images: readonly Image[]): boolean {
  const [first] = images;
  return images.every(
    ({ canonical, state }) =>
      canonical === first?.canonical && state.origin.changeNumber === first.state.origin.changeNumber,
  );
}

/**
 * The writes that bring the shards to the hour of `atMs`, with no closed hour that is not on its sheet. Undefined: that is
 * impossible now.
 */
function hoursBefore(
  context: ProtocolContext,
  images: readonly Image[],
  { readingMs, atMs }: { readonly readingMs: number; readonly atMs: number },
): ItemWrite[] | undefined {
  const { env, caches } = context;
  if (!env.dialect.countsByHour) return [];
  const hour = Math.max(hourNumber(atMs), ...images.map(({ item }) => numberOf(item, UH) ?? 0));
  // Larger counts of the open hour could not be added to another shard exactly: wait for the next hour.
  const open = images.flatMap(({ item }) => (item[UH] === hour ? (openHourIn(item) ?? []) : []));
  if (open.some(({ counts }) => [...counts.values()].some((one) => !isFine(one)))) return undefined;
  const writes: ItemWrite[] = [];
  for (const image of images) {
    const note = caches.of(image.key.bucket).sheets[image.key.shard];
    const closed = isOnSheet(image.item, sheetedBy(note)) ? undefined : closedHourIn(image.item);
    // It was tried a moment ago.
    if (closed !== undefined && note?.is === "unwritable" && note.hour === closed.hour) return undefined;
    if (closed !== undefined) writes.push(sheetWrite(image.key, closed, env));
    else if (image.item[UH] !== hour) writes.push(rollWrite(image, { hour, readingMs, sheeted: sheetedBy(note) }, env));
  }
  return writes;
}

/** A few dozen of these can be summed exactly. */
function isFine(milli: Count): boolean {
  return typeof milli === "number" && Math.abs(milli) < Number.MAX_SAFE_INTEGER / 64;
}

const DONE: Reshaped = { kind: "done" };
const NOT_DONE: Drawn<Reshaped> = { kind: "result", result: { kind: "not done", seen: [] }, installs: [] };

/** Makes a shard that the original has not made yet; `done` once it is there. A bucket with quotas is left to the original. */
export function makeShard(context: ProtocolContext, bucket: BucketKey, shard: number, at: CallTime): Promise<Reshaped> {
  const draw = (images: readonly Image[]): Drawn<Reshaped> => {
    if (images.some(({ key }) => key.shard === shard)) return { kind: "result", result: DONE, installs: [] };
    if (images.some(({ state }) => state.limits.some(({ limit }) => !rulesOf(limit).refillsSteadily))) return NOT_DONE;
    const sibling = siblingOf(images, shard);
    if (sibling === undefined) return NOT_DONE;
    const atMs = Math.max(at.nowMs, sibling.state.epochMs + 1);
    const writes = makingWrites(sibling, shard, atMs, context.env);
    return { kind: "transact", writes, event: undefined, result: DONE };
  };
  return transactPlan(context, reshapePlan(bucket, at, draw), "reading");
}

function reshapePlan(
  bucket: BucketKey,
  { nowMs, untilMs }: CallTime,
  draw: (images: readonly Image[]) => Drawn<Reshaped>,
): Plan<Reshaped> {
  return {
    buckets: [bucket],
    readingMs: nowMs,
    untilMs,
    policy: RETRY.resize,
    record: undefined,
    draw: ([whole]) => draw(whole?.images ?? []),
    gaveUp: ([whole], cause) =>
      cause === undefined ? { kind: "not done", seen: whole?.images ?? [] } : { kind: "unavailable", cause },
    unknown: (cause) => ({ kind: "unavailable", cause }),
  };
}

/** The shard from which this one was split off: half as many ago, or a quarter, and so on. */
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
  { env }: ProtocolContext,
): readonly ItemWrite[] | undefined {
  const [first] = images as readonly [Image];
  const changedMs = numberOf(first.item, SDA) ?? Number.NEGATIVE_INFINITY;
  const count = first.shardCount;
  switch (to) {
    case "more":
      if (count * 2 > SHARDS_MAX || atMs - changedMs < GROW_AFTER_MS || !maySplit(images)) return undefined;
      return doublingWrites(images, atMs, env);
    case "fewer":
      if (count === 1 || atMs - changedMs < SHRINK_AFTER_MS || !countsAgree(images)) return undefined;
      return mergingWrites(images, count / 2, atMs, env);
    case 1:
      return count === 1 ? undefined : mergingWrites(images, 1, atMs, env);
  }
}
