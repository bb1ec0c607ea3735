import type { BucketCache } from "./bucket-cache.ts";
import type { ProtocolContext } from "./context.ts";
import { resize, sizeWanted } from "./resize.ts";

/** How long this process leaves a bucket alone after it changed its shards, or tried to. */
const BETWEEN_RESIZES_MS = 1_000;

/** Work that goes on without a caller: more shards or fewer, sheets of usage, give-backs that the store has not taken yet. */
export class BackgroundTasks {
  readonly #context: ProtocolContext;
  readonly #running = new Set<Promise<unknown>>();
  /** By bucket: until when the number of its shards is left alone; `Infinity` while it is being changed. */
  readonly #resizeAfterMs = new WeakMap<BucketCache, number>();

  constructor(context: ProtocolContext) {
    this.#context = context;
  }

  /** Keeps `settled` waiting until the work is done. Its errors are dropped: no caller is left to get them. */
  track(work: Promise<unknown>): void {
    const quiet = work.catch(() => undefined).finally(() => this.#running.delete(quiet));
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
    this.track(work);
  }
}
