import { fits } from "../domain/bucket-questions.ts";
import { advanced } from "../domain/bucket-state.ts";
import type { Calendar } from "../domain/calendar.ts";
import type { BucketStore } from "../ports/bucket-store.ts";
import type { Clock } from "../ports/system.ts";
import type { ObservedBucket } from "./refusal.ts";

/** How often it is looked whether another process has written, while a request waits for slots. */
const LOOK_MS = 20;

interface ForeignDeps {
  readonly clock: Clock;
  readonly calendar: Calendar;
  readonly buckets: BucketStore;
}

/** A request that was refused for slots, and sleeps. */
interface Sleeping {
  /** What other processes had written before it asked. */
  since: number | undefined;
  readonly by: readonly ObservedBucket[];
  readonly wake: () => void;
}

/**
 * Slots that other processes give back, on a store that tells of their writes (`BucketStore.foreignWrites`). A number is compared
 * while somebody waits; the buckets are read only when it has changed, and who would not fit sleeps on: a busy file wakes nobody
 * for the writes of strangers.
 */
export class ForeignReturns {
  readonly #deps: ForeignDeps;
  readonly #sleeping = new Set<Sleeping>();
  #end: AbortController | undefined;

  constructor(deps: ForeignDeps) {
    this.#deps = deps;
  }

  /** To be noted before the store is asked: what is written from then on is not missed. */
  writes(): number | undefined {
    return this.#deps.buckets.foreignWrites?.();
  }

  /** Calls `wake` when the buckets have room since; the answer ends that. */
  watch(sleeping: Sleeping): () => void {
    if (this.#deps.buckets.foreignWrites === undefined) return () => {};
    this.#sleeping.add(sleeping);
    if (this.#end === undefined) {
      this.#end = new AbortController();
      void this.#look(this.#end.signal);
    }
    return () => {
      this.#sleeping.delete(sleeping);
      if (this.#sleeping.size > 0) return;
      this.#end?.abort();
      this.#end = undefined;
    };
  }

  async #look(end: AbortSignal): Promise<void> {
    const { clock } = this.#deps;
    while (!end.aborted) {
      try {
        await (clock.sleepInBackground?.(LOOK_MS, end) ?? clock.sleep(LOOK_MS, end));
        const writes = this.writes();
        for (const sleeping of this.#sleeping) {
          if (sleeping.since === writes) continue;
          sleeping.since = writes;
          if (await this.#mayFit(sleeping)) sleeping.wake();
        }
      } catch {
        // Nobody waits any more; or the file cannot be read just now, and who waits asks again in any case.
      }
    }
  }

  async #mayFit({ by }: Sleeping): Promise<boolean> {
    const { buckets, clock, calendar } = this.#deps;
    const states = await buckets.read(by.map(({ bucket }) => bucket));
    const nowMs = clock.now();
    return by.every(({ state: seen, take, leavePercent, bypass }, i) => {
      const state = states[i];
      // A bucket that is gone is full, and by other limits it is for the store to say.
      if (bypass || state === undefined || state.signature !== seen.signature) return true;
      return fits(advanced(state, Math.max(nowMs, state.epochMs), calendar), take, nowMs, leavePercent);
    });
  }
}
