import type { BucketKey } from "../../domain/bucket/bucket-key.ts";
import { fits } from "../../domain/bucket/bucket-questions.ts";
import { advanced, type BucketState } from "../../domain/bucket/bucket-state.ts";
import type { Calendar } from "../../domain/limits/calendar.ts";
import type { WantedRoom, WatchRoom } from "../../ports/bucket-store.ts";
import type { Clock } from "../../ports/system.ts";
import type { Watch } from "./watch.ts";

/** How often it is looked whether another process has written, while somebody waits. */
const LOOK_MS = 20;

/** A request that was refused, and sleeps. */
interface Sleeping {
  readonly by: readonly WantedRoom[];
  readonly wake: () => void;
  /** What others had written when its buckets were last looked at. */
  seen: number;
}

type Read = (keys: readonly BucketKey[]) => readonly (BucketState | undefined)[];

/**
 * Room that other processes make in buckets. A number is compared while somebody waits; the buckets are read only when it has
 * changed, and who would not fit sleeps on: a busy file wakes nobody for the writes of strangers.
 */
export class ForeignRoom {
  readonly #watch: Watch;
  readonly #calendar: Calendar;
  readonly #read: Read;
  readonly #sleeping = new Set<Sleeping>();
  #end: AbortController | undefined;

  constructor(parts: { readonly watch: Watch; readonly calendar: Calendar }, read: Read) {
    this.#watch = parts.watch;
    this.#calendar = parts.calendar;
    this.#read = read;
  }

  /** From now on: what is written while the caller asks is not missed. */
  since(clock: Clock): WatchRoom {
    const writes = this.#watch.foreignWrites();
    return (by, wake) => this.#begin({ by, wake, seen: writes }, clock);
  }

  #begin(sleeping: Sleeping, clock: Clock): () => void {
    if (sleeping.by.length === 0) return () => {};
    this.#sleeping.add(sleeping);
    if (this.#end === undefined) {
      this.#end = new AbortController();
      void this.#look(clock, this.#end.signal);
    }
    return () => {
      this.#sleeping.delete(sleeping);
      if (this.#sleeping.size > 0) return;
      this.#end?.abort();
      this.#end = undefined;
    };
  }

  async #look(clock: Clock, end: AbortSignal): Promise<void> {
    while (!end.aborted) {
      try {
        await (clock.sleepInBackground?.(LOOK_MS, end) ?? clock.sleep(LOOK_MS, end));
        const writes = this.#watch.foreignWrites();
        for (const sleeping of this.#sleeping) {
          if (sleeping.seen === writes) continue;
          sleeping.seen = writes;
          if (this.#isRoomFor(sleeping, clock.now())) sleeping.wake();
        }
      } catch {
        // Nobody waits any more; or the file cannot be read just now, and who waits asks again in any case.
      }
    }
  }

  #isRoomFor({ by }: Sleeping, nowMs: number): boolean {
    const states = this.#read(by.map(({ bucket }) => bucket));
    return by.every(({ state: seen, take, leavePercent, bypass }, i) => {
      const state = states[i];
      // A bucket that is gone is full. By other limits only a take can tell.
      if (bypass || state === undefined || state.signature !== seen.signature) return true;
      return fits(advanced(state, Math.max(nowMs, state.epochMs), this.#calendar), take, nowMs, leavePercent);
    });
  }
}
