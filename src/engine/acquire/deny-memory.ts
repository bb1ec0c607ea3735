import { fits } from "../../domain/bucket/bucket-questions.ts";
import type { BucketState } from "../../domain/bucket/bucket-state.ts";
import { asksNever } from "../../domain/bucket/earliest.ts";
import { knowsMore } from "../../domain/limits/limit-set.ts";
import { BoundedMap } from "../../domain/names/bounded-map.ts";
import type { Claim } from "../../ports/bucket-store.ts";
import { type ObservedBucket, observedBy } from "../refusal/refusal.ts";
import { withoutSlotsOn } from "./request.ts";

/** Other processes give slots back unheard, so an image that is short of slots alone expires sooner. */
const SLOTS_MAX_MS = 100;

/** The map of last writes is cleared only above this size: a map that is emptied has to grow anew. */
const LAST_WRITES_KEPT = 1_000;

/** The count of writes when a call to the store began; see `DenyMemory.begin`. */
export type CallStart = number;

/**
 * Remembers buckets as they stood when they refused, so that a caller who hammers an empty bucket costs no call. It only refuses,
 * never admits. Each write of this process to a bucket drops its image; writes of other processes are noticed after `ttlMs`.
 */
export class DenyMemory {
  readonly #ttlMs: number;
  readonly #images: BoundedMap<{ readonly state: BucketState; readonly atMs: number }>;
  /** The number of the last write to a bucket, of writes made while calls were under way. */
  readonly #lastWrites: BoundedMap<number>;
  #writes = 0;
  #callsUnderWay = 0;
  #used = false;

  constructor(ttlMs: number, bucketsMax: number) {
    this.#ttlMs = ttlMs;
    this.#images = new BoundedMap(bucketsMax / 2);
    this.#lastWrites = new BoundedMap(bucketsMax / 2);
  }

  /** True if a refusal of this bucket is remembered. Without any refusal the key is not even read. */
  knows({ bucket }: Pick<Claim, "bucket">): boolean {
    return this.#used && this.#images.get(bucket.id) !== undefined;
  }

  /** The images of all claims, if one of them is still short; undefined if the store must be asked. */
  recall(claims: readonly Claim[], nowMs: number): ObservedBucket[] | undefined {
    if (this.#images.size === 0) return undefined;
    const observed: ObservedBucket[] = [];
    let isShort = false;
    let isOnlySlots = true;
    let oldestMs = nowMs;
    for (const claim of claims) {
      const { bucket, set, origin, take, bypass, leavePercent = 0 } = claim;
      const image = this.#images.get(bucket.id);
      if (image === undefined) return undefined;
      const ageMs = nowMs - image.atMs;
      if (ageMs < 0 || ageMs >= this.#ttlMs || image.state.signature !== set.signature) return undefined;
      if (knowsMore(origin, image.state.origin)) return undefined;
      // Past a boundary, a reset may have filled the bucket.
      if (nowMs >= image.state.renewAtMs) return undefined;
      // Another process may have topped up, or raised the limit. Only the store may say that a request can never be granted.
      if (!bypass && asksNever(image.state, take, leavePercent)) return undefined;
      if (!bypass && !fits(image.state, take, nowMs, leavePercent)) {
        isShort = true;
        isOnlySlots &&= fits(image.state, withoutSlotsOn(image.state, take), nowMs, leavePercent);
      }
      oldestMs = Math.min(oldestMs, image.atMs);
      const { state, atMs } = image;
      observed.push(observedBy(claim, { state, taken: false, seen: { atMs } }));
    }
    if (isShort && isOnlySlots && nowMs - oldestMs >= SLOTS_MAX_MS) return undefined;
    return isShort ? observed : undefined;
  }

  /**
   * Begins a call to a store that answers with a promise. Its answer may show a bucket as it was before a write of this process that
   * ended meanwhile, and is then not remembered. Every `begin` needs an `end`.
   */
  begin(): CallStart {
    this.#callsUnderWay++;
    return this.#writes;
  }

  end(): void {
    this.#callsUnderWay--;
    if (this.#callsUnderWay === 0 && this.#lastWrites.size > LAST_WRITES_KEPT) this.#lastWrites.clear();
  }

  /** Remembers the buckets of a refusal. `since` is the start of the call; undefined if nothing can have come between. */
  remember(observed: readonly ObservedBucket[], nowMs: number, since: CallStart | undefined): void {
    if (this.#ttlMs === 0) return;
    this.#used = true;
    for (const { bucket, state, taken, seen } of observed) {
      if (taken || seen === "never" || (since !== undefined && (this.#lastWrites.get(bucket.id) ?? 0) > since))
        continue;
      // An image that came from memory keeps its time.
      this.#images.set(bucket.id, { state, atMs: seen === "now" ? nowMs : seen.atMs });
    }
  }

  /** Drops the image of a bucket that this process has written to, or may have. */
  forget(bucketId: string): void {
    if (this.#images.size > 0) this.#images.delete(bucketId);
    if (this.#callsUnderWay > 0) this.#lastWrites.set(bucketId, ++this.#writes);
  }

  clear(): void {
    this.#used = false;
    this.#images.clear();
  }
}
