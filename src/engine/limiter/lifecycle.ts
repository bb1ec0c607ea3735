import { LimiterError } from "../../domain/names/errors.ts";
import type { MaybePromise } from "../../ports/bucket-store.ts";
import type { Clock } from "../../ports/system.ts";

/**
 * - `open`: takes calls.
 * - `closing`: new calls are refused and those that wait are rejected; leases are still stored. A limiter on a store of
 *   somebody else stays so.
 * - `storeClosed`: nothing more can be stored.
 */
type Phase = "open" | "closing" | "storeClosed";

/** What is closed in the end, and how long open bodies may take before. */
interface Closing {
  readonly drainMs: number;
  readonly clock: Clock;
  /** What this process still has to write, once nothing is under way. It must not throw. */
  readonly lastWrites: () => Promise<void>;
  /** Undefined where the store belongs to somebody else. */
  readonly closeStore: (() => MaybePromise<void>) | undefined;
}

/** How often what is under way is waited for: an answer may lead to one more call, such as a give-back. */
const ROUNDS_MAX = 3;

/** Whether a limiter still takes calls, what is under way in it, and how it ends. */
export class Lifecycle {
  /** Of the limiter that this one came from by `namespace()`: when that one closes, so does this. */
  readonly #parent: Lifecycle | undefined;
  #calls = new CallsUnderWay();
  readonly #onClosing = new Set<() => void>();
  readonly #onClosed = new Set<() => void>();
  #phase: Phase = "open";
  #bodies = 0;
  #onNoBodies: (() => void) | undefined;
  #closing: Promise<void> | undefined;

  constructor(parent: Lifecycle | undefined) {
    this.#parent = parent;
  }

  get isOpen(): boolean {
    return this.#phase === "open" && (this.#parent === undefined || this.#parent.isOpen);
  }

  /** Whether the store was closed by its limiter, so that a lease cannot store anything any more. */
  get isStoreClosed(): boolean {
    return this.#phase === "storeClosed" || (this.#parent?.isStoreClosed ?? false);
  }

  requireOpen(): void {
    if (!this.isOpen) throw limiterClosed();
  }

  /** Calls back when the limiter begins to close; the answer takes that back. */
  onClosing(callback: () => void): () => void {
    const ofParent = this.#parent?.onClosing(callback);
    this.#onClosing.add(callback);
    return () => {
      this.#onClosing.delete(callback);
      ofParent?.();
    };
  }

  /** Calls back when nothing is under way any more. */
  onClosed(callback: () => void): void {
    this.#onClosed.add(callback);
  }

  /** A call to the store, which closing waits for. */
  track<Value>(work: MaybePromise<Value>): MaybePromise<Value> {
    if (!(work instanceof Promise)) return work;
    const ended = this.callBegins();
    work.then(ended, ended);
    return work;
  }

  /** The same for a call whose end its caller hears of anyway: what is answered has to be called then, once. */
  callBegins(): () => void {
    const { ended } = this.#calls;
    this.#calls.count++;
    if (this.#parent === undefined) return ended;
    const endedInParent = this.#parent.callBegins();
    return () => {
      ended();
      endedInParent();
    };
  }

  /** A `withLease` begins; every `bodyBegins` needs a `bodyEnds`. */
  bodyBegins(): void {
    this.#bodies++;
    this.#parent?.bodyBegins();
  }

  bodyEnds(): void {
    this.#bodies--;
    if (this.#bodies === 0) this.#onNoBodies?.();
    this.#parent?.bodyEnds();
  }

  /** Ends the limiter. A second time answers with the first. */
  close(closing: Closing): Promise<void> {
    this.#closing ??= this.#close(closing);
    return this.#closing;
  }

  async #close({ drainMs, clock, lastWrites, closeStore }: Closing): Promise<void> {
    this.#phase = "closing";
    for (const callback of [...this.#onClosing]) callback();
    if (drainMs > 0 && this.#bodies > 0) await this.#noBodies(drainMs, clock);
    // A body that keeps on writing is not waited for.
    for (let round = 0; round < ROUNDS_MAX && this.#calls.count > 0; round++) {
      const calls = this.#calls;
      this.#calls = new CallsUnderWay();
      await calls.allEnded();
    }
    await lastWrites();
    if (closeStore !== undefined) {
      this.#phase = "storeClosed";
      await closeStore();
    }
    for (const callback of this.#onClosed) callback();
  }

  async #noBodies(drainMs: number, clock: Clock): Promise<void> {
    const over = new AbortController();
    this.#onNoBodies = () => over.abort();
    try {
      await clock.sleep(drainMs, over.signal);
    } catch (error) {
      if (!over.signal.aborted) throw error;
    } finally {
      this.#onNoBodies = undefined;
    }
  }
}

/**
 * Calls that have begun and not ended, counted. A set of their promises would need new tables all the time, and one that has outlived a
 * collection keeps all that came after it, and what those calls answered, until the next full collection.
 */
class CallsUnderWay {
  count = 0;
  #onAllEnded: (() => void) | undefined;

  readonly ended = (): void => {
    this.count--;
    if (this.count === 0) this.#onAllEnded?.();
  };

  allEnded(): Promise<void> {
    return new Promise((resolve) => {
      this.#onAllEnded = resolve;
    });
  }
}

export function limiterClosed(): LimiterError {
  return new LimiterError("closed", "The limiter has been closed; open a new one with RateLimiter.open.");
}
