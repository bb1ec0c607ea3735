import type { BucketKey } from "../../domain/bucket/bucket-key.ts";
import type { Item } from "../../ports/item-store.ts";
import { BYPASS, DISABLED, VU } from "../item/attributes.ts";
import type { Image } from "../item/codec.ts";
import { type Rate, ratedAgain } from "../shards/write-rate.ts";
import type { Job, JobOutcome } from "../take/job.ts";
import type { Lane } from "./lane.ts";

/** How one shard stood when this process last saw it. */
export interface Seen {
  /** Undefined: there is no such item. */
  readonly image: Image | undefined;
  /** It comes from a read that may be old: it chooses the form of a write, but refuses no request. */
  readonly eventuallyConsistent: boolean;
  readonly atMs: number;
  /** The number of this observation among all of the process: later ones have higher numbers. */
  readonly order: number;
}

/** What this process knows of the sheet of a shard's last closed hour: it is there; or it could not be written just now. */
export type SheetNote =
  | { readonly is: "there"; readonly hour: number }
  | { readonly is: "unwritable"; readonly hour: number; readonly atMs: number };

/** What this process knows of one bucket. Only the number of round trips depends on it, never what is granted. */
export class BucketCache {
  readonly key: BucketKey;
  /** By shard: readings of configuration up to a number are in doubt, because of what the shard says. */
  readonly doubts: ({ readonly upTo: number; readonly says: string; readonly isStamped: boolean } | undefined)[] = [];
  /** On which side of its capacity each limit was found last. */
  readonly lastSide = new Map<string, "below" | "over">();
  /** What all processes take of a limit, as a part of its refill: 1 is all of it. */
  readonly utilization = new Map<string, number>();
  /** The queue of this process for each shard. */
  readonly lanes: (Lane<Job, JobOutcome> | undefined)[] = [];
  /** Its first read, while that is under way. */
  contact: Promise<void> | undefined;
  readonly #shards: (Seen | undefined)[] = [];
  /** By shard: why the last call to the store got no answer; undefined where it got one. */
  readonly #lastFaults: unknown[] = [];
  /** By shard: the number of the last answer of the store, whether or not it showed the item. */
  readonly #answered: number[] = [];
  /** How busy each shard is, by what all processes wrote to it. */
  readonly #rates: (Rate | undefined)[] = [];
  readonly #sheets: (SheetNote | undefined)[] = [];
  #shardCount = 1;
  /** How much work of this process goes by it. */
  #holders = 0;
  #refusedAtMs = Number.NEGATIVE_INFINITY;
  #otherWriterSeenAtMs = Number.NEGATIVE_INFINITY;
  /** When a request of several levels was last refused because of it, or held up by others on the same levels. */
  #scarceAtMs = Number.NEGATIVE_INFINITY;
  #lookedAtMs = Number.NEGATIVE_INFINITY;
  /** When it was last noticed that a limit had been nearly emptied. */
  #drainedAtMs = Number.NEGATIVE_INFINITY;

  constructor(key: BucketKey) {
    this.key = key;
  }

  /** As many shards as the item says that was seen last; 1 where nothing is known. */
  get shardCount(): number {
    return this.#shardCount;
  }

  /** When a request was last refused by what was seen of it. */
  get refusedAtMs(): number {
    return this.#refusedAtMs;
  }

  /** When it was last read to say in a refusal what it holds. */
  get lookedAtMs(): number {
    return this.#lookedAtMs;
  }

  get isUnknown(): boolean {
    return this.#shards.length === 0;
  }

  /** Whether a write of this process to one of its shards is under way. */
  get isBusy(): boolean {
    return this.lanes.some((lane) => lane?.isBusy);
  }

  /** Whether it must not be forgotten for others: work goes by it, its first read is under way, or a write. */
  get isHeld(): boolean {
    return this.#holders > 0 || this.contact !== undefined || this.isBusy;
  }

  /**
   * For work that waits for the store, until it calls `letGo`: what others learn of the bucket meanwhile, or the driver for it, they
   * note here and on no second one.
   */
  hold(): void {
    this.#holders++;
  }

  letGo(): void {
    this.#holders--;
  }

  /** Whether other processes are likely to have written since the last observation. */
  hasOtherWriters(atMs: number): boolean {
    return atMs - this.#otherWriterSeenAtMs < OTHER_WRITERS_MS;
  }

  /** Whether requests of several levels should ask for it first. */
  isScarce(atMs: number): boolean {
    return isLately(this.#scarceAtMs, atMs, SCARCE_MS);
  }

  /** Whether all it had was wanted lately: it refused a request, or was nearly emptied. Nothing of it may be wasted then. */
  isWanted(atMs: number): boolean {
    return isLately(this.#refusedAtMs, atMs, SCARCE_MS) || isLately(this.#drainedAtMs, atMs, DRAINED_MS);
  }

  /** What to expect of a shard; undefined when nothing is known. */
  seen(shard: number): Seen | undefined {
    return this.#shards[shard];
  }

  /** Why the store did not answer the last time that this shard was written; undefined when it did. */
  lastFault(shard: number): unknown {
    return this.#lastFaults[shard];
  }

  /** Whether the store answered about a shard after an observation of this process. */
  isAnsweredSince(shard: number, sequence: number): boolean {
    return (this.#answered[shard] ?? 0) > sequence;
  }

  sheet(shard: number): SheetNote | undefined {
    return this.#sheets[shard];
  }

  noteSheet(shard: number, note: SheetNote | undefined): void {
    this.#sheets[shard] = note;
  }

  rate(shard: number): Rate | undefined {
    return this.#rates[shard];
  }

  /** The last images of the shards there are, without those that are not known. */
  images(): Image[] {
    const images: Image[] = [];
    for (let shard = 0; shard < this.#shardCount; shard++) {
      const image = this.#shards[shard]?.image;
      if (image !== undefined) images.push(image);
    }
    return images;
  }

  /** The image of any shard that is known. */
  anyImage(): Image | undefined {
    return this.#shards.find((seen) => seen?.image !== undefined)?.image;
  }

  /** Drops the images, which are out of date. The number of shards is kept as a guess. */
  forget(): void {
    this.#shards.length = 0;
  }

  /** Drops the images and the number of shards. */
  forgetShards(): void {
    this.forget();
    this.#shardCount = 1;
  }

  noteRefusal(atMs: number): void {
    this.#refusedAtMs = atMs;
  }

  noteLook(atMs: number): void {
    this.#lookedAtMs = atMs;
  }

  noteScarce(atMs: number): void {
    this.#scarceAtMs = atMs;
  }

  noteDrained(atMs: number): void {
    this.#drainedAtMs = atMs;
  }

  noteOtherWriter(atMs: number): void {
    this.#otherWriterSeenAtMs = atMs;
  }

  noteFault(shard: number, cause: unknown): void {
    this.#lastFaults[shard] = cause;
  }

  /** The store answered about a shard; see `BucketCaches.noteAnswer`. */
  noteAnswered(shard: number, order: number): void {
    this.#answered[shard] = order;
    if (this.#lastFaults.length > 0) this.#lastFaults[shard] = undefined;
  }

  noteShard(shard: number, seen: Seen, shardCount: number | undefined): void {
    this.#shards[shard] = seen;
    // A stamp that is gone may come again: what was read because of the one does not answer the other. An image that may be from
    // before the stamp does not show that it is gone: by it, each look at the stamp would be the first, and doubted without end.
    const showsNow = seen.image !== undefined && !seen.eventuallyConsistent;
    if (showsNow && this.doubts[shard]?.isStamped && !isStamped(seen.image.item)) {
      this.doubts[shard] = undefined;
    }
    this.noteAnswered(shard, seen.order);
    if (shardCount !== undefined) this.#shardCount = shardCount;
  }

  noteWrites(shard: number, writes: number, atMs: number): void {
    this.#rates[shard] = ratedAgain(this.#rates[shard], writes, atMs);
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
/** Long enough for the next of several pulses; all it costs is a trip more. */
const SCARCE_MS = 10_000;
const DRAINED_MS = 2_000;
