import { ItemUnreadable } from "../../domain/bucket/item-unreadable.ts";
import { LimiterError, RateLimiterUnavailable } from "../../domain/names/errors.ts";
import type { Item, ItemAnswer, ItemKey, ItemWrite, TransactionAnswer, Undecided } from "../../ports/item-store.ts";
import type { ProtocolContext } from "../context.ts";
import { damageIn } from "../item/damage.ts";
import { isShardKey } from "../item/item-key.ts";
import type { BucketCaches } from "./bucket-caches.ts";
import type { Event, ReadAction, TransactAction, WriteAction } from "./machine.ts";

// Each call to the store for `drive`, as an event; what it showed is in the cache then.

/** Why nothing is known of an item: by this it is told apart later whether the store was silent, or only busy. */
export function noteUndecided(caches: BucketCaches, key: ItemKey, answer: Undecided): void {
  // Where others are in the way, the store is there.
  if (answer.kind !== "refused" || answer.why !== "conflict") noteFault(caches, key, answer.cause);
  else if (isShardKey(key)) caches.noteAnswer(key);
}

function noteFault(caches: BucketCaches, key: ItemKey, cause: unknown): void {
  if (isShardKey(key)) caches.of(key.bucket).noteFault(key.shard, cause);
}

/** One read, and what it showed. */
export async function read({ items, caches }: ProtocolContext, action: ReadAction, timeoutMs: number): Promise<Event> {
  const { keys, consistent, atMs, sets, raw = false } = action;
  const sentAtSequence = caches.sequence;
  let found: readonly (Item | undefined)[];
  try {
    found = await items.read(keys, { consistent }, { timeoutMs });
  } catch (error) {
    if (!(error instanceof RateLimiterUnavailable)) throw error;
    for (const key of keys) noteFault(caches, key, error);
    return { kind: "unread", cause: error };
  }
  const seen = keys.map((key, i) => {
    if (raw || !isShardKey(key)) return undefined;
    const about = { atMs, eventuallyConsistent: !consistent, set: sets?.[i], ownWrites: 0, sentAtSequence };
    return caches.observe(caches.of(key.bucket), key, found[i], about);
  });
  return { kind: "read", items: found, seen };
}

/** What the answer to a write means for what is known. */
export function observed(
  { caches }: ProtocolContext,
  { write: { key }, atMs, set }: WriteAction,
  answer: ItemAnswer,
  sentAtSequence: number,
): Event {
  if (answer.kind !== "applied" && answer.kind !== "failed") {
    noteUndecided(caches, key, answer);
    return answer;
  }
  // Failed: it is there already.
  if (!isShardKey(key)) return { kind: "there" };
  const ownWrites = answer.kind === "applied" ? 1 : 0;
  const about = { atMs, eventuallyConsistent: false, set, ownWrites, sentAtSequence };
  return { kind: answer.kind, seen: caches.observe(caches.of(key.bucket), key, answer.item, about) };
}

/**
 * The store cannot carry out a write. Where that is because of what stands in an item, such as a text that it was to add to, the
 * error says which item and what; otherwise it is the store's own. A write goes by what was seen of an item before.
 */
export async function damageOr(
  { items }: ProtocolContext,
  writes: readonly ItemWrite[],
  error: unknown,
  timeoutMs: number,
): Promise<unknown> {
  if (!(error instanceof LimiterError) || error.code !== "store_refused") return error;
  const keys = writes.map(({ key }) => key).filter(isShardKey);
  if (keys.length === 0) return error;
  try {
    const found = await items.read(keys, { consistent: true }, { timeoutMs });
    for (const [i, key] of keys.entries()) {
      const damage = found[i] === undefined ? undefined : damageIn(found[i]);
      if (damage !== undefined) return new ItemUnreadable(key, damage);
    }
  } catch {
    // What the store said first is told.
  }
  return error;
}

/** One transaction. */
export async function transact(context: ProtocolContext, action: TransactAction, leftMs: () => number): Promise<Event> {
  const { items, caches } = context;
  const { writes, token, event } = action;
  let answer: TransactionAnswer;
  try {
    answer = await items.transact(writes, { token, event }, { timeoutMs: leftMs() });
  } catch (error) {
    throw await damageOr(context, writes, error, leftMs());
  }
  for (const { key } of writes) {
    // No images come back, so what was known of the items is out of date.
    caches.of(key.bucket).forget();
    if (answer.kind === "unknown" || answer.kind === "refused") noteUndecided(caches, key, answer);
    else if (isShardKey(key)) caches.noteAnswer(key);
  }
  if (answer.kind === "applied") return { kind: "committed" };
  return answer.kind === "failed" ? { kind: "outrun" } : answer;
}
