import type { BucketKey } from "../../domain/bucket/bucket-key.ts";
import { ItemUnreadable } from "../../domain/bucket/item-unreadable.ts";
import type { Item, ItemKey } from "../../ports/item-store.ts";
import type { ProtocolContext } from "../context.ts";
import {
  type CloseAction,
  type CloseOptions,
  type CloseProgress,
  closeEnded,
  nextClose,
  onClose,
  type ShardClosed,
} from "../decide/close.ts";
import type { Image } from "../item/codec.ts";
import { drive } from "../process/drive.ts";
import type { Machine } from "../process/machine.ts";
import { readItems } from "../process/read-items.ts";
import { RETRY } from "../process/retry-policy.ts";
import { sheetedBy } from "./sheets.ts";

/** What a sweep asks of the buckets of a namespace. */
export interface HourCloser {
  /** At most 100 shards: one answer each, in order. */
  close(shards: readonly ItemKey[], options: CloseOptions): Promise<readonly ShardClosed[]>;
  /** Halves the shards of a bucket, if they were not split lately. True when it was done. */
  joinIdle(bucket: BucketKey, nowMs: number): Promise<boolean>;
}

/**
 * Closes hours of shards that nobody writes to any more: each is rolled without a take, its closed hours are put on their
 * sheets, and then the shard is let go when its tokens allow it. Every step is a write that clients make too, or that fails where
 * anything was counted meanwhile: it may be repeated, killed at any point, and done by several at once.
 */
export async function closeHours(
  context: ProtocolContext,
  shards: readonly ItemKey[],
  options: CloseOptions,
): Promise<readonly ShardClosed[]> {
  const keys = shards.map(({ bucket, shard }): ItemKey => ({ bucket, shard }));
  const found = await readItems(context, keys, RETRY.closeHours);
  const answers: ShardClosed[] = [];
  for (const [i, key] of keys.entries()) {
    const item = found[i];
    const close = (there: Item) => context.caches.holding([key.bucket], () => closeOne(context, key, there, options));
    answers.push(item === undefined ? { kind: "gone" } : await close(item).catch(unreadable));
  }
  return answers;
}

/** One damaged shard does not keep the others from being closed. */
function unreadable(error: unknown): ShardClosed {
  if (error instanceof ItemUnreadable) return { kind: "unreadable", cause: error };
  throw error;
}

async function closeOne(
  context: ProtocolContext,
  key: ItemKey,
  item: Item,
  options: CloseOptions,
): Promise<ShardClosed> {
  const { caches, env } = context;
  const cache = caches.of(key.bucket);
  const about = { atMs: options.nowMs, eventuallyConsistent: false, set: undefined };
  const read = { ...about, ownWrites: 0, sentAtSequence: caches.sequence };
  const image = caches.observe(cache, key, item, read).image as Image;
  const machine: Machine<CloseProgress, CloseAction, ShardClosed> = {
    ended: closeEnded,
    next: (progress, turn) =>
      nextClose(progress, { ...turn, sheeted: sheetedBy(cache.sheet(key.shard)) }, options, env),
    on: onClose,
    untilMs: () => Number.POSITIVE_INFINITY,
    throttled: () => {},
  };
  const policy = RETRY.closeHours;
  const budget = { policy, attemptsMax: policy.attempts, caller: undefined };
  return drive(machine, { at: "seen", image, hours: 0 }, budget, context);
}
