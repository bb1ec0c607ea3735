import type { BucketKey } from "../../domain/bucket-key.ts";
import { ItemUnreadable } from "../../domain/item-unreadable.ts";
import { HOUR_MS } from "../../domain/usage.ts";
import type { Item, ItemKey, ItemWrite } from "../../ports/item-store.ts";
import type { ProtocolContext } from "../context.ts";
import { namesOf, RQ, SHARD_COUNT, TTL, UH } from "../item/attributes.ts";
import { type Image, numberOf } from "../item/codec.ts";
import { SPARE_S } from "../item/ttl.ts";
import { RETRY } from "../process/retry-policy.ts";
import type { Env } from "../take/intent.ts";
import { fullAfter, relativeTo } from "../take/moves.ts";
import { rollWrite } from "../take/rebase.ts";
import {
  closedHourIn,
  closedNames,
  counterNames,
  hourNumber,
  isNothing,
  isOnSheet,
  openHourIn,
  sheetWrite,
} from "./hours.ts";
import { sheetedBy, writeSheet } from "./sheets.ts";

export interface ShardPlace {
  readonly bucket: BucketKey;
  readonly shard: number;
}

export interface CloseOptions {
  readonly nowMs: number;
  /** An open hour is closed when it has been over for this many hours. */
  readonly afterHours: number;
}

/** What became of one shard. `hours`: how many hours this call put on their sheets. */
export type ShardClosed =
  /** Nothing is left on it that is not on a sheet. */
  | { readonly kind: "closed"; readonly hours: number; readonly shardCount: number }
  /** Its open hour, in hours since 1970, has not been over for long enough. */
  | { readonly kind: "open"; readonly hours: number; readonly shardCount: number; readonly openHour: number }
  | { readonly kind: "gone" }
  /** It is damaged: its hours stay as they are until it is mended or reset. */
  | { readonly kind: "unreadable"; readonly cause: ItemUnreadable }
  /** Others wrote at every attempt, or the store did not answer: next time. */
  | { readonly kind: "failed"; readonly cause: unknown };

/** What a sweep asks of the buckets of a namespace. */
export interface HourCloser {
  /** At most 100 shards: one answer each, in order. */
  close(shards: readonly ShardPlace[], options: CloseOptions): Promise<readonly ShardClosed[]>;
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
  shards: readonly ShardPlace[],
  options: CloseOptions,
): Promise<readonly ShardClosed[]> {
  const keys = shards.map(({ bucket, shard }): ItemKey => ({ bucket, shard }));
  const found = await context.items.read(keys, { consistent: true }, { timeoutMs: RETRY.sheet.callMs });
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
  let image = observed(context, key, item, options.nowMs);
  let hours = 0;
  for (let steps = 0; steps < STEPS_MAX; steps++) {
    const step = nextStep(context, image, options);
    if (step.do === "done") return { ...step.answer, hours, shardCount: image.shardCount };
    if (step.do === "sheet") {
      const written = await writeSheet(context, step.write, RETRY.sheet.callMs);
      if (written !== "there") return failed("the sheet could not be written");
      hours++;
      continue;
    }
    const answer = await context.items.write(step.write, { timeoutMs: RETRY.sheet.callMs });
    if (answer.kind === "refused" || answer.kind === "unknown") return { kind: "failed", cause: answer.cause };
    if (answer.item === undefined) return { kind: "gone" };
    image = observed(context, image.key, answer.item, options.nowMs);
  }
  return failed("the item changed at every attempt");
}

/** A roll, its sheet, letting the shard go; and some of them again where others write meanwhile. */
const STEPS_MAX = 12;

type Step =
  | { readonly do: "sheet" | "write"; readonly write: ItemWrite }
  | {
      readonly do: "done";
      readonly answer: { readonly kind: "closed" } | { readonly kind: "open"; readonly openHour: number };
    };

/** What is to be done next for a shard. Pure but for what is remembered of its sheet. */
function nextStep({ env, caches }: ProtocolContext, image: Image, { nowMs, afterHours }: CloseOptions): Step {
  const { item, key, hourEndMs } = image;
  const sheeted = sheetedBy(caches.of(key.bucket).sheet(key.shard));
  const closed = isOnSheet(item, sheeted) ? undefined : closedHourIn(item);
  if (closed !== undefined) return { do: "sheet", write: sheetWrite(key, closed, env) };
  const open = openHourIn(item);
  // An item of an earlier release has no hour, and nothing to close.
  if (open === undefined) return { do: "done", answer: { kind: "closed" } };
  if (!isNothing(open)) {
    if (hourEndMs + afterHours * HOUR_MS > nowMs) return { do: "done", answer: { kind: "open", openHour: open.hour } };
    return { do: "write", write: rollWrite(image, { hour: hourNumber(nowMs), readingMs: nowMs, sheeted }, env) };
  }
  const write = lettingGo(image, nowMs, env);
  return write === undefined ? { do: "done", answer: { kind: "closed" } } : { do: "write", write };
}

/** Nothing is counted on it: it may go when its tokens are full. Undefined where it may already, or may not at all. */
function lettingGo(image: Image, nowMs: number, env: Env): ItemWrite | undefined {
  const { item, state, key, hourEndMs } = image;
  const ttl = numberOf(item, TTL);
  const fullS = ttl === undefined ? undefined : fullAfter(state, nowMs, env.calendar);
  // Nor before its hour is over, where a clock that was ahead opened it: made anew earlier, it would count in hours on sheets.
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

function observed({ caches }: ProtocolContext, key: ItemKey, item: Item, atMs: number): Image {
  const about = { atMs, eventuallyConsistent: false, set: undefined, ownWrites: 0, sentAtSequence: caches.sequence };
  return caches.observe(caches.of(key.bucket), key, item, about).image as Image;
}

function failed(why: string): ShardClosed {
  return { kind: "failed", cause: new Error(why) };
}
