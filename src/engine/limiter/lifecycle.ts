import { LimiterError, ValidationError } from "../../domain/names/errors.ts";
import { KnownNames } from "../../domain/names/known-names.ts";
import { shown } from "../../domain/names/names.ts";
import type { MaybePromise } from "../../ports/bucket-store.ts";
import type { Clock } from "../../ports/system.ts";

/**
 * - `open`: takes calls.
 * - `closing`: new and waiting calls are rejected; leases are still stored. A limiter that does not own its store stays so.
 * - `storeClosed`: nothing more can be stored.
 */
type Phase = "open" | "closing" | "storeClosed";

interface Closing {
  readonly drainMs: number;
  readonly clock: Clock;
  /** The last writes of this limiter, once nothing is under way. Must not throw. */
  readonly lastWrites: () => Promise<void>;
  /** Undefined if the limiter does not own the store. */
  readonly closeStore: (() => MaybePromise<void>) | undefined;
}

/** Closing waits for calls in rounds: an answer may lead to one more call, such as a give-back. */
const ROUNDS_MAX = 3;

/** The life of a limiter: its phase, its calls under way, its end. */
export class Lifecycle {
  /** The lifecycle of the limiter that this one came from by `namespace()`: it closes with it. */
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

  /** True if the store is closed, so that leases cannot store anything. */
  get isStoreClosed(): boolean {
    return this.#phase === "storeClosed" || (this.#parent?.isStoreClosed ?? false);
  }

  requireOpen(): void {
    if (!this.isOpen) throw limiterClosed();
  }

  /** Calls back when the limiter begins to close. Returns a function that unsubscribes. */
  onClosing(callback: () => void): () => void {
    const ofParent = this.#parent?.onClosing(callback);
    this.#onClosing.add(callback);
    return () => {
      this.#onClosing.delete(callback);
      ofParent?.();
    };
  }

  /** Calls back once nothing is under way. */
  onClosed(callback: () => void): void {
    this.#onClosed.add(callback);
  }

  /** Makes closing wait for a call to the store. */
  track<Value>(work: MaybePromise<Value>): MaybePromise<Value> {
    if (!(work instanceof Promise)) return work;
    const ended = this.callBegins();
    work.then(ended, ended);
    return work;
  }

  /** Like `track`, without a promise. Call the returned function once, when the call has ended. */
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
 * Counts calls under way. A set of promises would need new tables all the time, and an old set keeps promises and their answers alive
 * until the next full garbage collection.
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

/** Options of `close`. */
export interface CloseOptions {
  /** How long to wait for open `withLease` functions, in ms. Default: 0. */
  readonly drainMs?: number;
}

const CLOSE_OPTIONS = new KnownNames<CloseOptions>({ drainMs: true });

/** Checks `drainMs`. */
export function drainOf(options: CloseOptions): number {
  const { drainMs = 0 } = CLOSE_OPTIONS.check(options, "The options of close");
  if (typeof drainMs === "number" && drainMs >= 0) return drainMs;
  throw new ValidationError("option_invalid", `drainMs is ${shown(drainMs)}; give milliseconds, 0 or more.`);
}
