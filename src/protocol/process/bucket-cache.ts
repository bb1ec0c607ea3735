import type { BucketKey } from "../../domain/bucket/bucket-key.ts";
import type { Item } from "../../ports/item-store.ts";
import { BYPASS, DISABLED, VU } from "../item/attributes.ts";
import type { Image } from "../item/codec.ts";
import type { Job, JobOutcome } from "../take/job.ts";
import type { Lane } from "./lane.ts";

/** The rate of writes to an item, from its counter of all clients' writes. */
export interface Rate {
  /** Counter and time at the beginning of the current span. */
  readonly sinceWrites: number;
  readonly sinceMs: number;
  /** Writes a second in the last span; undefined until one has passed. */
  readonly perSecond: number | undefined;
  /** The number of spans in a row above the threshold. */
  readonly busySpans: number;
}

const SPAN_MS = 1_000;

/** An item takes about 1000 writes a second. */
export const BUSY_PER_SECOND = 800;

/** The rate after one more look at the counter. A counter that went back belongs to another item. */
export function nextRate(rate: Rate | undefined, writes: number, atMs: number): Rate {
  if (rate === undefined || writes < rate.sinceWrites || atMs < rate.sinceMs) {
    return { sinceWrites: writes, sinceMs: atMs, perSecond: undefined, busySpans: 0 };
  }
  const spanMs = atMs - rate.sinceMs;
  if (spanMs < SPAN_MS) return rate;
  const perSecond = ((writes - rate.sinceWrites) * 1000) / spanMs;
  const busySpans = perSecond >= BUSY_PER_SECOND ? rate.busySpans + 1 : 0;
  return { sinceWrites: writes, sinceMs: atMs, perSecond, busySpans };
}

/** One shard as this process last saw it. */
export interface Seen {
  /** Undefined: there is no such item. */
  readonly image: Image | undefined;
  /** The read may be old: the image chooses the form of a write, but refuses no request. */
  readonly eventuallyConsistent: boolean;
  readonly atMs: number;
  /** The number of this observation in the process; later ones are higher. */
  readonly order: number;
}

/** The later of two observations. */
export function laterOf(one: Seen | undefined, other: Seen | undefined): Seen | undefined {
  if (one === undefined || other === undefined) return one ?? other;
  return one.order > other.order ? one : other;
}

/** Knowledge about the sheet of a shard's last closed hour: it is there, or it could not be written just now. */
export type SheetNote =
  | { readonly is: "there"; readonly hour: number }
  | { readonly is: "unwritable"; readonly hour: number; readonly atMs: number };

/** Knowledge of this process about one bucket. Only the number of round trips depends on it, never what is granted. */
export class BucketCache {
  readonly key: BucketKey;
  /** By shard: readings of configuration up to `upTo` are in doubt, because of what the shard `says`. */
  readonly doubts: ({ readonly upTo: number; readonly says: string; readonly isStamped: boolean } | undefined)[] = [];
  /** The side of its capacity on which each limit was last found. */
  readonly lastSide = new Map<string, "below" | "over">();
  /** The share of a limit's refill that all processes take: 1 is all of it. */
  readonly utilization = new Map<string, number>();
  readonly lanes: (Lane<Job, JobOutcome> | undefined)[] = [];
  /** The first read, while it is under way. */
  contact: Promise<void> | undefined;
  /** By shard: why the last call got no answer; undefined if it got one. */
  readonly lastFaults: unknown[] = [];
  /** By shard: the writes of all processes. */
  readonly rates: (Rate | undefined)[] = [];
  readonly sheets: (SheetNote | undefined)[] = [];
  /** Its shards are left alone until then; `Infinity` while they are being changed. */
  resizeAfterMs = Number.NEGATIVE_INFINITY;
  /** When a request was last refused by what was seen of it. */
  refusedAtMs = Number.NEGATIVE_INFINITY;
  /** When it was last read to complete a refusal. */
  lookedAtMs = Number.NEGATIVE_INFINITY;
  /** When another process was last seen to write. */
  otherWriterAtMs = Number.NEGATIVE_INFINITY;
  /** When it last refused a request of several levels, or others on the same levels held one up. */
  scarceAtMs = Number.NEGATIVE_INFINITY;
  /** When a limit was last seen nearly empty. */
  drainedAtMs = Number.NEGATIVE_INFINITY;
  readonly #shards: (Seen | undefined)[] = [];
  /** By shard: the number of the store's last answer, whether or not it showed the item. */
  readonly #answered: number[] = [];
  #shardCount = 1;
  /** The number of tasks that use it. */
  #holders = 0;

  constructor(key: BucketKey) {
    this.key = key;
  }

  /** The number of shards by the latest item; 1 if nothing is known. */
  get shardCount(): number {
    return this.#shardCount;
  }

  get isUnknown(): boolean {
    return this.#shards.length === 0;
  }

  /** True while a write of this process to one of its shards is under way. */
  get isBusy(): boolean {
    return this.lanes.some((lane) => lane?.isBusy);
  }

  /** True while it must not be evicted: a task uses it, its first read is under way, or a write. */
  get isHeld(): boolean {
    return this.#holders > 0 || this.contact !== undefined || this.isBusy;
  }

  /** For a task that waits for the store, until it calls `letGo`: others that use the bucket meanwhile must share this cache. */
  hold(): void {
    this.#holders++;
  }

  letGo(): void {
    this.#holders--;
  }

  /** True if other processes have probably written since the last observation. */
  hasOtherWriters(atMs: number): boolean {
    return atMs - this.otherWriterAtMs < OTHER_WRITERS_MS;
  }

  /** True if requests of several levels should ask for it first. */
  isScarce(atMs: number): boolean {
    return isLately(this.scarceAtMs, atMs, SCARCE_MS);
  }

  /** True if all of it was wanted lately: it refused a request, or was nearly empty. Nothing of it may be wasted then. */
  isWanted(atMs: number): boolean {
    return isLately(this.refusedAtMs, atMs, SCARCE_MS) || isLately(this.drainedAtMs, atMs, DRAINED_MS);
  }

  seen(shard: number): Seen | undefined {
    return this.#shards[shard];
  }

  /** True if the store answered about a shard after this observation. */
  isAnsweredSince(shard: number, sequence: number): boolean {
    return (this.#answered[shard] ?? 0) > sequence;
  }

  images(): Image[] {
    const images: Image[] = [];
    for (let shard = 0; shard < this.#shardCount; shard++) {
      const image = this.#shards[shard]?.image;
      if (image !== undefined) images.push(image);
    }
    return images;
  }

  anyImage(): Image | undefined {
    return this.#shards.find((seen) => seen?.image !== undefined)?.image;
  }

  /** Drops the images, which are out of date. The number of shards is kept as a guess. */
  forget(): void {
    this.#shards.length = 0;
  }

  forgetShards(): void {
    this.forget();
    this.#shardCount = 1;
  }

  /** The store answered about a shard; see `BucketCaches.noteAnswer`. */
  noteAnswered(shard: number, order: number): void {
    this.#answered[shard] = order;
    if (this.lastFaults.length > 0) this.lastFaults[shard] = undefined;
  }

  noteShard(shard: number, seen: Seen, shardCount: number | undefined): void {
    this.#shards[shard] = seen;
    // A stamp that is gone may come again: a read for the first does not answer the second. An image from before the stamp does
    // not show that it is gone: if it counted, each look at the stamp would be the first, and doubted without end.
    const showsNow = seen.image !== undefined && !seen.eventuallyConsistent;
    if (showsNow && this.doubts[shard]?.isStamped && !isStamped(seen.image.item)) {
      this.doubts[shard] = undefined;
    }
    this.noteAnswered(shard, seen.order);
    if (shardCount !== undefined) this.#shardCount = shardCount;
  }
}

function isStamped(item: Item): boolean {
  return DISABLED in item || BYPASS in item || item[VU] === 0;
}

function isLately(thenMs: number, atMs: number, spanMs: number): boolean {
  const ageMs = atMs - thenMs;
  return ageMs >= 0 && ageMs < spanMs;
}

const OTHER_WRITERS_MS = 10_000;
/** Long enough for the next of several pulses; it only costs another trip. */
const SCARCE_MS = 10_000;
const DRAINED_MS = 2_000;
