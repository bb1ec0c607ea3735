import { BoundedMap } from "../domain/bounded-map.ts";
import { type BucketState, fits } from "../domain/bucket-state.ts";
import type { Claim } from "../ports/bucket-store.ts";
import type { ObservedBucket } from "./refusal.ts";

const BUCKETS_REMEMBERED = 10_000;

/**
 * Remembers how buckets stood when they refused, so that a caller who hammers an empty one costs no call. It only ever
 * refuses, never admits: takes by others make an image too optimistic, and then the store is asked; what this process
 * gives back makes it too pessimistic, so that is forgotten; what others give back is noticed `ttlMs` later.
 */
export class DenyMemory {
  readonly #ttlMs: number;
  readonly #images = new BoundedMap<{ readonly state: BucketState; readonly atMs: number }>(BUCKETS_REMEMBERED / 2);

  #used = false;

  constructor(ttlMs: number) {
    this.#ttlMs = ttlMs;
  }

  /** Whether a refusal of this bucket is remembered. */
  knows(bucketId: string): boolean {
    return this.#used && this.#images.get(bucketId) !== undefined;
  }

  /** The remembered images of all claims, when one of them is still short; undefined when the store has to be asked. */
  recall(claims: readonly Claim[], nowMs: number): ObservedBucket[] | undefined {
    if (this.#images.size === 0) return undefined;
    const observed: ObservedBucket[] = [];
    let short = false;
    for (const { bucket, set, take, bypass } of claims) {
      const image = this.#images.get(bucket.id);
      if (image === undefined) return undefined;
      const ageMs = nowMs - image.atMs;
      if (ageMs < 0 || ageMs >= this.#ttlMs || image.state.signature !== set.signature) return undefined;
      // Past a boundary the image says nothing any more: a reset may have filled the bucket.
      if (nowMs >= image.state.renewAtMs) return undefined;
      short ||= !bypass && !fits(image.state, take, nowMs);
      observed.push({ bucket, state: image.state, take, taken: false, bypass });
    }
    return short ? observed : undefined;
  }

  remember(observed: readonly ObservedBucket[], nowMs: number): void {
    if (this.#ttlMs === 0) return;
    this.#used = true;
    for (const { bucket, state, taken } of observed) if (!taken) this.#images.set(bucket.id, { state, atMs: nowMs });
  }

  forget(bucketId: string): void {
    if (this.#images.size > 0) this.#images.delete(bucketId);
  }

  clear(): void {
    this.#used = false;
    this.#images.clear();
  }
}
