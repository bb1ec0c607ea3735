import type { BucketMemory } from "./memory.ts";
import { resize, sizeWanted } from "./resize.ts";
import type { RoundsContext } from "./rounds.ts";

/** How long this process leaves a bucket alone after it changed its shards, or tried to. */
const PATIENCE_MS = 1_000;

/** What goes on beside the takes, and nobody waits for: more shards where they are busy, fewer where they are not. */
export class Beside {
  readonly #context: RoundsContext;
  readonly #going = new Set<Promise<unknown>>();

  constructor(context: RoundsContext) {
    this.#context = context;
  }

  goOn(work: Promise<unknown>): void {
    const quiet = work.catch(() => undefined).finally(() => this.#going.delete(quiet));
    this.#going.add(quiet);
  }

  async settled(): Promise<void> {
    while (this.#going.size > 0) await Promise.allSettled([...this.#going]);
  }

  /** A shard was written: perhaps there should be more of them, or fewer. */
  watchSize(memory: BucketMemory, shard: number, readingMs: number): void {
    const wanted = sizeWanted(memory, shard, readingMs);
    if (wanted !== undefined) this.resize(memory, wanted, readingMs);
  }

  resize(memory: BucketMemory, to: "more" | "fewer", readingMs: number): void {
    if (memory.resizing || readingMs < memory.resizeAfterMs) return;
    memory.resizing = true;
    const work = resize(this.#context, memory.key, to, readingMs).finally(() => {
      memory.resizing = false;
      memory.resizeAfterMs = readingMs + PATIENCE_MS;
    });
    this.goOn(work);
  }
}
