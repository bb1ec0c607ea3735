import type { BucketKey } from "../domain/bucket/bucket-key.ts";
import type { Retention } from "../domain/config/retention.ts";
import type { CountStore } from "../ports/record-store.ts";
import type { Swept } from "../ports/store.ts";
import type { Clock } from "../ports/system.ts";
import { expireAll, expireSome, STEP_ROWS } from "../records/usage.ts";
import { BEGINNING, type BucketSweep, STEP_BUCKETS } from "./sweep.ts";

/** Buckets looked at for each that was met for the first time: more than one, so that the walk gains on those who make them. */
const LOOKS_A_NEW_BUCKET = 2;

/** A step is made after this many batches, so that buckets are found idle when no new ones come. */
const BATCHES_A_STEP = 256;

/** A step is made this often while nothing is taken. */
const QUIET_MS = 60_000;

/** The part of a batch that counts for the sweep. */
interface SweptBatch {
  readonly namespaceId: string;
  readonly nowMs: number;
  /** One of its buckets, if it has any. */
  readonly bucket: BucketKey | undefined;
  /** The number of its buckets that this process met for the first time. */
  readonly newBuckets: number;
}

interface SweepParts {
  readonly buckets: BucketSweep;
  readonly counts: CountStore;
  readonly retention: Retention;
  readonly clock: Clock;
}

/**
 * Removes what is idle or old while takes go on, one step at a time, and once a minute when there are none any more. Nobody waits for
 * it: what fails is tried again with the next step.
 */
export class StoreSweep {
  readonly #parts: SweepParts;
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

  constructor(parts: SweepParts) {
    this.#parts = parts;
  }

  /** A namespace that this process works in. */
  note(namespaceId: string): void {
    if (!this.#due.has(namespaceId)) this.#due.set(namespaceId, 0);
  }

  afterBatch({ namespaceId, nowMs, bucket, newBuckets }: SweptBatch): void {
    this.#isQuiet = false;
    this.#nowMs = nowMs;
    this.#batches++;
    // A process that only reads removes nothing: what is too old for a tool need not be so for those that write.
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
    const { buckets, counts, retention } = this.#parts;
    let forgotten = 0;
    for (const namespaceId of namespaceIds) {
      const went = await buckets.toEnd(namespaceId, nowMs);
      forgotten += went;
    }
    return { buckets: forgotten, rows: await expireAll(counts, retention, nowMs) };
  }

  /** Begins no further step, and resolves when none is under way. */
  async close(): Promise<void> {
    this.#end.abort();
    await this.#running;
  }

  async #quietly(): Promise<void> {
    const { signal } = this.#end;
    const { clock } = this.#parts;
    const sleep = (clock.sleepInBackground ?? clock.sleep).bind(clock);
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
      this.#nowMs = this.#parts.clock.now();
      await this.#steps(namespaceId, BEGINNING);
    }
  }

  async #steps(namespaceId: string, first: BucketKey): Promise<void> {
    const { signal } = this.#end;
    const { buckets, counts, retention } = this.#parts;
    try {
      while (!signal.aborted && (this.#due.get(namespaceId) ?? 0) >= STEP_BUCKETS) {
        this.#due.set(namespaceId, (this.#due.get(namespaceId) as number) - STEP_BUCKETS);
        await buckets.step(namespaceId, first, this.#nowMs);
      }
      if (this.#batches < BATCHES_A_STEP && !this.#isQuiet) return;
      this.#batches = 0;
      // To the end of what is old: many leases may be made in one batch.
      while (!signal.aborted && (await expireSome(counts, retention, this.#nowMs)) >= STEP_ROWS);
    } catch {
      // A right that is missing, or a server that does not answer: takes tell of both.
    } finally {
      this.#running = undefined;
    }
  }
}
