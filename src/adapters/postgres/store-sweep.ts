import type { RecordSweep } from "../../records/sweep.ts";
import type { BucketSweep } from "../../straight/sweep.ts";

/** Every so many batches a step is made: more rows go than were added meanwhile. */
const BATCHES_A_STEP = 256;

/** Removes what is idle or old while takes go on, one step at a time. Nobody waits for it: what fails is tried again with the next step. */
export class StoreSweep {
  readonly #buckets: BucketSweep;
  readonly #records: RecordSweep;
  #batches = 0;
  #running: Promise<void> | undefined;

  constructor(parts: { readonly buckets: BucketSweep; readonly records: RecordSweep }) {
    this.#buckets = parts.buckets;
    this.#records = parts.records;
  }

  afterBatch(namespaceId: string, nowMs: number): void {
    this.#batches++;
    if (this.#batches % BATCHES_A_STEP !== 0 || this.#running !== undefined) return;
    this.#running = this.#step(namespaceId, nowMs);
  }

  /** Resolves when no step is under way. */
  async ended(): Promise<void> {
    await this.#running;
  }

  async #step(namespaceId: string, nowMs: number): Promise<void> {
    try {
      await this.#buckets.step(namespaceId, nowMs);
      await this.#records.step(nowMs);
    } catch {
      // A right that is missing, or a server that does not answer: takes tell of both.
    } finally {
      this.#running = undefined;
    }
  }
}
