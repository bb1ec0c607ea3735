import type { BucketKey } from "../../domain/bucket/bucket-key.ts";
import type { DegradedKind } from "../../ports/events.ts";
import type { BackgroundFault } from "../../ports/store.ts";
import type { ProtocolContext } from "../context.ts";
import type { BucketCache } from "../process/bucket-cache.ts";
import { BETWEEN_RESIZES_MS } from "../process/retry-policy.ts";
import { resize, sizeWanted } from "./resize.ts";

/** Within this time a fault is told once for each bucket and kind of work, and of so many of them at most. */
const TOLD_ONCE_MS = 60_000;
const TOLD_MAX = 60;

/** What was not done, as it is told. */
export const NO_SHEET = "usage could not be stored";
export const NOT_GIVEN_BACK = "tokens of a lost response could not be given back";

/** Work that goes on without a caller: more shards or fewer, sheets of usage, give-backs that the store has not taken yet. */
export class BackgroundTasks {
  readonly #context: ProtocolContext;
  readonly #running = new Set<Promise<unknown>>();
  /** By bucket: until when the number of its shards is left alone; `Infinity` while it is being changed. */
  readonly #resizeAfterMs = new WeakMap<BucketCache, number>();
  readonly #listeners = new Set<(fault: BackgroundFault) => void>();
  readonly #told = new Set<string>();
  #toldSinceMs = Number.NEGATIVE_INFINITY;

  constructor(context: ProtocolContext) {
    this.#context = context;
  }

  /** Calls back with what fails; the answer takes that back. */
  onFault(listener: (fault: BackgroundFault) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Keeps `settled` waiting until the work is done. No caller is left to get its errors: they are told, with `kind` and `reason`. */
  track(work: Promise<unknown>, { entityId, resource }: BucketKey, kind: DegradedKind, reason: string): void {
    const ended = work.catch((cause: unknown) => this.#fault({ entityId, resource, kind, reason, cause }));
    const quiet = ended.finally(() => this.#running.delete(quiet));
    this.#running.add(quiet);
  }

  async settled(): Promise<void> {
    while (this.#running.size > 0) await Promise.allSettled([...this.#running]);
  }

  /** A shard was written: perhaps there should be more of them, or fewer. */
  watchSize(cache: BucketCache, shard: number, readingMs: number): void {
    const wanted = sizeWanted(cache, shard, readingMs);
    if (wanted !== undefined) this.resize(cache, wanted, readingMs);
  }

  resize(cache: BucketCache, to: "more" | "fewer" | 1, readingMs: number): void {
    if (readingMs < (this.#resizeAfterMs.get(cache) ?? Number.NEGATIVE_INFINITY)) return;
    this.#resizeAfterMs.set(cache, Number.POSITIVE_INFINITY);
    const work = resize(this.#context, cache.key, to, readingMs).finally(() => {
      this.#resizeAfterMs.set(cache, readingMs + BETWEEN_RESIZES_MS);
    });
    this.track(work, cache.key, "other", "the shards of a bucket could not be changed");
  }

  // A store that is down fails them all, again and again: what is told must not be as much as what is done.
  #fault(fault: BackgroundFault): void {
    const nowMs = this.#context.clock.now();
    if (Math.abs(nowMs - this.#toldSinceMs) >= TOLD_ONCE_MS) {
      this.#told.clear();
      this.#toldSinceMs = nowMs;
    }
    const id = `${fault.reason} ${fault.entityId} ${fault.resource}`;
    if (this.#told.has(id) || this.#told.size >= TOLD_MAX) return;
    this.#told.add(id);
    for (const listener of this.#listeners) listener(fault);
  }
}
