import type { BucketKey } from "../../domain/bucket/bucket-key.ts";
import type { Swept } from "../../ports/store.ts";
import type { Clock } from "../../ports/system.ts";
import { type RecordSweep, STEP_ROWS } from "../../records/sweep.ts";
import { BEGINNING, type BucketSweep, STEP_BUCKETS } from "../../straight/sweep.ts";

/** Buckets looked at for each that was met for the first time: more than one, so that the walk gains on those who make them. */
const LOOKS_A_NEW_BUCKET = 2;

/** And a step after so many batches, so that buckets are found idle when no new ones come. */
const BATCHES_A_STEP = 256;

/** Where nothing is taken, a step is made this often. */
const QUIET_MS = 60_000;

/** What of a batch counts for the sweep. */
interface SweptBatch {
  readonly namespaceId: string;
  readonly nowMs: number;
  /** One of its buckets, if it has any. */
  readonly bucket: BucketKey | undefined;
  /** How many of its buckets this process met for the first time. */
  readonly newBuckets: number;
}

/**
 * Removes what is idle or old while takes go on, one step at a time, and once a minute when there are none any more. Nobody waits for
 * it: what fails is tried again with the next step.
 */
export class StoreSweep {
  readonly #buckets: BucketSweep;
  readonly #records: RecordSweep;
  readonly #clock: Clock;
  readonly #end = new AbortController();
  /** Namespaces that this process works in: how many buckets are still to be looked at there. */
  readonly #due = new Map<string, number>();
  /** Since records were looked at. */
  #batches = 0;
  #isQuiet = true;
  /** Since the first take of this process, a step is made in every quiet minute. */
  #isStarted = false;
  /** The last reading. */
  #nowMs = 0;
  #running: Promise<void> | undefined;

  constructor(parts: { readonly buckets: BucketSweep; readonly records: RecordSweep; readonly clock: Clock }) {
    this.#buckets = parts.buckets;
    this.#records = parts.records;
    this.#clock = parts.clock;
  }

  /** A namespace that this process works in. */
  note(namespaceId: string): void {
    if (!this.#due.has(namespaceId)) this.#due.set(namespaceId, 0);
  }

  afterBatch({ namespaceId, nowMs, bucket, newBuckets }: SweptBatch): void {
    this.#isQuiet = false;
    this.#nowMs = nowMs;
    this.#batches++;
    // Whoever only reads removes nothing: what is too old for a tool need not be so for those who write.
    if (!this.#isStarted) void this.#quietly();
    this.#isStarted = true;
    const looks = STEP_BUCKETS / BATCHES_A_STEP + LOOKS_A_NEW_BUCKET * newBuckets;
    const due = (this.#due.get(namespaceId) ?? 0) + looks;
    this.#due.set(namespaceId, due);
    if (due < STEP_BUCKETS || this.#running !== undefined) return;
    this.#running = this.#steps(namespaceId, bucket ?? BEGINNING);
  }

  /** All that is idle or old, in these namespaces. */
  async toEnd(namespaceIds: readonly string[], nowMs: number): Promise<Swept> {
    let buckets = 0;
    for (const namespaceId of namespaceIds) {
      const went = await this.#buckets.toEnd(namespaceId, nowMs);
      buckets += went;
    }
    return { buckets, rows: await this.#records.toEnd(nowMs) };
  }

  /** Begins no further step, and resolves when none is under way. */
  async close(): Promise<void> {
    this.#end.abort();
    await this.#running;
  }

  async #quietly(): Promise<void> {
    const { signal } = this.#end;
    const sleep = (this.#clock.sleepInBackground ?? this.#clock.sleep).bind(this.#clock);
    for (;;) {
      try {
        await sleep(QUIET_MS, signal);
      } catch {
        return;
      }
      const wasQuiet = this.#isQuiet;
      this.#isQuiet = true;
      if (!wasQuiet || this.#running !== undefined) continue;
      this.#running = this.#quietSteps();
      await this.#running;
    }
  }

  async #quietSteps(): Promise<void> {
    for (const [namespaceId, due] of this.#due) {
      this.#due.set(namespaceId, Math.max(due, STEP_BUCKETS));
      this.#nowMs = this.#clock.now();
      await this.#steps(namespaceId, BEGINNING);
    }
  }

  async #steps(namespaceId: string, first: BucketKey): Promise<void> {
    const { signal } = this.#end;
    try {
      while (!signal.aborted && (this.#due.get(namespaceId) ?? 0) >= STEP_BUCKETS) {
        this.#due.set(namespaceId, (this.#due.get(namespaceId) as number) - STEP_BUCKETS);
        await this.#buckets.step(namespaceId, first, this.#nowMs);
      }
      if (this.#batches < BATCHES_A_STEP && !this.#isQuiet) return;
      this.#batches = 0;
      // To the end of what is old: many leases may be made in one batch.
      while (!signal.aborted && (await this.#records.step(this.#nowMs)) >= STEP_ROWS);
    } catch {
      // A right that is missing, or a server that does not answer: takes tell of both.
    } finally {
      this.#running = undefined;
    }
  }
}
