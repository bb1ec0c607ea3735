import type { BucketKey } from "../../domain/bucket/bucket-key.ts";
import { ItemUnreadable } from "../../domain/bucket/item-unreadable.ts";
import { timeOfEnded } from "../../domain/bucket/slot-time.ts";
import { HOUR_MS } from "../../domain/charge/usage.ts";
import type { Item, ItemKey, ItemWrite } from "../../ports/item-store.ts";
import type { ProtocolContext } from "../context.ts";
import { namesOf, RQ, SHARD_COUNT, TTL, UH } from "../item/attributes.ts";
import { type Image, numberOf } from "../item/codec.ts";
import { drive, readItems } from "../process/drive.ts";
import type { End, Ended, Event, Machine, SheetAction, Turn, WriteAction } from "../process/machine.ts";
import { RETRY } from "../process/retry-policy.ts";
import { fullAfter, SPARE_S } from "../take/expiry.ts";
import { rebaseWrite } from "../take/forms.ts";
import { blankIntent, type Env, NO_USAGE } from "../take/intent.ts";
import { relativeTo } from "../take/moves.ts";
import { closedHourIn, closedNames, counterNames, hourNumber, isNothing, isOnSheet, openHourIn } from "./hours.ts";
import { sheetedBy, sheetWrite } from "./sheets.ts";

/** Closes the open hour and begins another one, without taking anything. The hour before must be on its sheet. */
export function rollWrite(
  image: Image,
  {
    hour,
    readingMs,
    sheeted,
  }: { readonly hour: number; readonly readingMs: number; readonly sheeted: number | undefined },
  env: Env,
): ItemWrite {
  const step = rebaseWrite(image, { ...blankIntent(readingMs), usage: { ...NO_USAGE, rollsTo: hour, sheeted } }, env);
  if (step.kind !== "write") throw new RangeError("Nothing is taken where an hour is closed; nothing can be short.");
  return step.write;
}

/** Nothing is counted on the shard: it may expire when its tokens are full. Undefined if it may already, or must not at all. */
function shortenExpiry(image: Image, nowMs: number, env: Env): ItemWrite | undefined {
  const { item, state, key, hourEndMs } = image;
  const ttl = numberOf(item, TTL);
  const fullS = ttl === undefined ? undefined : fullAfter(state, nowMs, env.calendar);
  // It must not expire before its hour is over, if a clock that was ahead opened it: made anew earlier, it would count in hours
  // on sheets.
  const untilS = fullS === undefined ? undefined : Math.max(fullS + SPARE_S, hourEndMs / 1000);
  const isLess = ttl !== undefined && untilS !== undefined && untilS < ttl;
  const beside = closedNames(item);
  if (!isLess && beside.length === 0) return undefined;
  const builder = relativeTo(image).asSeen(UH, item).asSeen(TTL, item);
  builder.asSeen(SHARD_COUNT, item).asSeen(RQ, item);
  // With fewer tokens it would be full later.
  for (const { name, tokensMilli } of state.limits) builder.where(namesOf(name).tk, ">=", tokensMilli);
  for (const name of counterNames(item, state)) builder.asSeen(name, item);
  if (isLess) builder.set(TTL, untilS);
  for (const name of beside) builder.remove(name);
  return builder.update(key, "exists", { form: "take", readingMs: nowMs, parts: [], spare: [] });
}

/*
 * Closes the hours of one idle shard, as a machine without I/O. Each step goes by the item as it was seen last: an answer shows it
 * anew.
 *
 *   ┌──────┐ an hour beside the open one ── sheet ──▶ seen; settled: failed, where it could not be written
 *   │      │ the open one is over ───────── roll ───▶ (answer)
 *   │ seen │ a hold ended by itself ─────── roll ───▶ (answer)
 *   │      │ nothing was counted ── shorten expiry ─▶ (answer)
 *   │      │ nothing is left to do ─────────────────▶ ended: closed
 *   └──────┘ the open one is not over for long ─────▶ ended: open
 *      ▲
 *   (answer) applied, failed: seen. No item: settled: gone. refused, unknown: settled: failed
 */
export type CloseProgress =
  | { readonly at: "seen"; readonly image: Image; readonly hours: number }
  | { readonly at: "settled"; readonly result: ShardClosed };

export interface CloseOptions {
  readonly nowMs: number;
  /** An open hour is closed once it has been over for this many hours. */
  readonly afterHours: number;
}

/** Outcome for one shard. `hours`: the number of hours that this call put on their sheets. */
export type ShardClosed =
  /** Everything counted on it is on a sheet. */
  | { readonly kind: "closed"; readonly hours: number; readonly shardCount: number }
  /** Its open hour, in hours since 1970, has not been over for long enough. */
  | { readonly kind: "open"; readonly hours: number; readonly shardCount: number; readonly openHour: number }
  | { readonly kind: "gone" }
  /** The shard is damaged: its hours stay as they are until it is mended or reset. */
  | { readonly kind: "unreadable"; readonly cause: ItemUnreadable }
  /** Others wrote at every attempt, or the store did not answer: the next sweep tries again. */
  | { readonly kind: "failed"; readonly cause: unknown };

export type CloseAction = WriteAction | SheetAction;

interface CloseFacts extends Turn {
  /** The hour of the shard that is known to be on its sheet. */
  readonly sheeted: number | undefined;
}

export function closeEnded(progress: CloseProgress): Ended<ShardClosed> | undefined {
  return progress.at === "settled" ? progress : undefined;
}

export function nextClose(
  progress: CloseProgress,
  { over, sheeted }: CloseFacts,
  { nowMs, afterHours }: CloseOptions,
  env: Env,
): CloseAction | End<ShardClosed> {
  if (progress.at === "settled") return { do: "end", result: progress.result };
  const { image, hours } = progress;
  const { item, key, hourEndMs, shardCount } = image;
  const closed = isOnSheet(item, sheeted) ? undefined : closedHourIn(item);
  if (closed !== undefined) return { do: "sheet", write: sheetWrite(key, closed, env) };
  const done: End<ShardClosed> = { do: "end", result: { kind: "closed", hours, shardCount } };
  const open = openHourIn(item);
  // An item of an earlier release has no hour, and nothing to close.
  if (open === undefined) return done;
  const isCounted = !isNothing(open);
  if (isCounted && hourEndMs + afterHours * HOUR_MS > nowMs) {
    return { do: "end", result: { kind: "open", openHour: open.hour, hours, shardCount } };
  }
  // If the item expired, holds that ended by themselves would be lost: nothing has counted them yet.
  const hasEnded = timeOfEnded(image.state, { epochMs: nowMs }).length > 0;
  const write =
    isCounted || hasEnded
      ? rollWrite(image, { hour: hourNumber(nowMs), readingMs: nowMs, sheeted }, env)
      : shortenExpiry(image, nowMs, env);
  if (write === undefined) return done;
  if (over !== undefined) return { do: "end", result: failed(new Error("the item changed at every attempt")) };
  return { do: "write", write, atMs: nowMs, set: undefined };
}

export function onClose(progress: CloseProgress, action: CloseAction, event: Event): CloseProgress {
  if (progress.at === "settled") return progress;
  switch (event.kind) {
    case "there":
      return { ...progress, hours: progress.hours + 1 };
    case "applied":
    case "failed": {
      const { image } = event.seen;
      return image === undefined ? { at: "settled", result: { kind: "gone" } } : { ...progress, image };
    }
    case "refused":
    case "unknown": {
      const cause =
        action.do === "sheet" ? new Error("the sheet could not be written", { cause: event.cause }) : event.cause;
      return { at: "settled", result: failed(cause) };
    }
    default:
      return progress;
  }
}

function failed(cause: unknown): ShardClosed {
  return { kind: "failed", cause };
}

export interface HourCloser {
  /** At most 100 shards: one answer each, in order. */
  close(shards: readonly ItemKey[], options: CloseOptions): Promise<readonly ShardClosed[]>;
  /** Halves the shards of a bucket, if they were not split lately. Returns true if it was done. */
  joinIdle(bucket: BucketKey, nowMs: number): Promise<boolean>;
}

/**
 * Closes hours of idle shards: each is rolled without a take, its closed hours are put on their sheets, and then the shard may
 * expire when its tokens allow it. Every step is a write that clients make too, or that fails if anything was counted meanwhile:
 * it may be repeated, killed at any point, and done by several processes at once.
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
      nextClose(progress, { ...turn, sheeted: sheetedBy(cache.sheets[key.shard]) }, options, env),
    on: onClose,
  };
  return drive(machine, { at: "seen", image, hours: 0 }, { policy: RETRY.closeHours }, context);
}
