import { fits } from "../../domain/bucket/bucket-questions.ts";
import type { BucketState } from "../../domain/bucket/bucket-state.ts";
import { asksNever } from "../../domain/bucket/earliest.ts";
import { knowsMore } from "../../domain/limits/limit-set.ts";
import { BoundedMap } from "../../domain/names/bounded-map.ts";
import type { Claim } from "../../ports/bucket-store.ts";
import type { ObservedBucket } from "../refusal/refusal.ts";
import { withoutSlotsOn } from "./slot-amounts.ts";

/** Slots come back all the time, by processes that this one does not hear of: that they were short is remembered no longer. */
const SLOTS_MAX_MS = 100;

/** So many buckets keep the number of their last write while no call is under way: a map that is emptied grows anew for the next calls. */
const LAST_WRITES_KEPT = 1_000;

/** The moment at which a call to the store began; see `DenyMemory.begin`. */
export type CallStart = number;

/**
 * Remembers buckets as they stood when they refused, so that a caller who hammers an empty bucket costs no call. It only
 * ever refuses, never admits. What it answers has to be true now, so an image is dropped when this process writes to the
 * bucket: a take, a debit, a give-back, a top-up or a reset. What other processes do is noticed after `ttlMs`.
 */
export class DenyMemory {
  readonly #ttlMs: number;
  readonly #images: BoundedMap<{ readonly state: BucketState; readonly atMs: number }>;
  /** Which write was the last one to a bucket, counted in `#writes`: of those made while calls were under way. */
  readonly #lastWrites: BoundedMap<number>;
  #writes = 0;
  #callsUnderWay = 0;
  #used = false;

  constructor(ttlMs: number, bucketsMax: number) {
    this.#ttlMs = ttlMs;
    this.#images = new BoundedMap(bucketsMax / 2);
    this.#lastWrites = new BoundedMap(bucketsMax / 2);
  }

  /** Whether a refusal of this bucket is remembered. The key of the bucket is not looked at where none is. */
  knows({ bucket }: Pick<Claim, "bucket">): boolean {
    return this.#used && this.#images.get(bucket.id) !== undefined;
  }

  /** The remembered images of all claims, when one of them is still short; undefined when the store has to be asked. */
  recall(claims: readonly Claim[], nowMs: number): ObservedBucket[] | undefined {
    if (this.#images.size === 0) return undefined;
    const observed: ObservedBucket[] = [];
    let isShort = false;
    let isOnlySlots = true;
    let oldestMs = nowMs;
    for (const { bucket, set, limits = set.limits, origin, take, bypass, leavePercent = 0 } of claims) {
      const image = this.#images.get(bucket.id);
      if (image === undefined) return undefined;
      const ageMs = nowMs - image.atMs;
      if (ageMs < 0 || ageMs >= this.#ttlMs || image.state.signature !== set.signature) return undefined;
      if (knowsMore(origin, image.state.origin)) return undefined;
      // Past a boundary the image says nothing any more: a reset may have filled the bucket.
      if (nowMs >= image.state.renewAtMs) return undefined;
      // Another process may have bought, or raised the limit. That something can never be granted is said only by the store.
      if (!bypass && asksNever(image.state, take, leavePercent)) return undefined;
      if (!bypass && !fits(image.state, take, nowMs, leavePercent)) {
        isShort = true;
        isOnlySlots &&= fits(image.state, withoutSlotsOn(image.state, take), nowMs, leavePercent);
      }
      oldestMs = Math.min(oldestMs, image.atMs);
      const { state, atMs } = image;
      observed.push({ bucket, state, limits, take, leavePercent, taken: false, bypass, seen: { atMs } });
    }
    if (isShort && isOnlySlots && nowMs - oldestMs >= SLOTS_MAX_MS) return undefined;
    return isShort ? observed : undefined;
  }

  /**
   * A call to a store begins that answers with a promise. Its answer may show a bucket as it stood before a write of this
   * process that ended meanwhile, and is then not remembered. Every `begin` needs an `end`.
   */
  begin(): CallStart {
    this.#callsUnderWay++;
    return this.#writes;
  }

  end(): void {
    this.#callsUnderWay--;
    if (this.#callsUnderWay === 0 && this.#lastWrites.size > LAST_WRITES_KEPT) this.#lastWrites.clear();
  }

  /** Remembers what a refusal showed; `since` is the start of the call, undefined where nothing can have come between. */
  remember(observed: readonly ObservedBucket[], nowMs: number, since: CallStart | undefined): void {
    if (this.#ttlMs === 0) return;
    this.#used = true;
    for (const { bucket, state, taken, seen } of observed) {
      if (taken || seen === "never" || (since !== undefined && (this.#lastWrites.get(bucket.id) ?? 0) > since))
        continue;
      // What was remembered already does not become newer by being told again.
      this.#images.set(bucket.id, { state, atMs: seen === "now" ? nowMs : seen.atMs });
    }
  }

  /** This process has written to the bucket, or may have: what was seen of it before is out of date. */
  forget(bucketId: string): void {
    if (this.#images.size > 0) this.#images.delete(bucketId);
    if (this.#callsUnderWay > 0) this.#lastWrites.set(bucketId, ++this.#writes);
  }

  clear(): void {
    this.#used = false;
    this.#images.clear();
  }
}
