import type { BucketKey } from "../../domain/bucket/bucket-key.ts";
import type { DegradedKind } from "../../ports/events.ts";
import type { BackgroundFault } from "../../ports/store.ts";
import type { Clock } from "../../ports/system.ts";

/** Within this time a fault is reported once for each bucket and kind of work, and at most so many in all. */
const TOLD_ONCE_MS = 60_000;
const TOLD_MAX = 60;

/** Reasons of background faults. */
export const NO_SHEET = "usage could not be stored";
export const NOT_GIVEN_BACK = "tokens of a lost response could not be given back";

/** Work without a caller: more shards or fewer, sheets of usage, give-backs that the store has not taken yet. */
export class BackgroundTasks {
  readonly #clock: Clock;
  readonly #running = new Set<Promise<unknown>>();
  readonly #listeners = new Set<(fault: BackgroundFault) => void>();
  readonly #told = new Set<string>();
  #toldSinceMs = Number.NEGATIVE_INFINITY;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  onFault(listener: (fault: BackgroundFault) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Keeps `settled` waiting until the work is done. No caller is left to get its errors: they are reported with `kind` and `reason`. */
  track(work: Promise<unknown>, { entityId, resource }: BucketKey, kind: DegradedKind, reason: string): void {
    const ended = work.catch((cause: unknown) => this.#fault({ entityId, resource, kind, reason, cause }));
    const quiet = ended.finally(() => this.#running.delete(quiet));
    this.#running.add(quiet);
  }

  async settled(): Promise<void> {
    while (this.#running.size > 0) await Promise.allSettled([...this.#running]);
  }

  // A store that is down fails all background work again and again: reports must not be as many.
  #fault(fault: BackgroundFault): void {
    const nowMs = this.#clock.now();
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
