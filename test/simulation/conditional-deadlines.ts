import type { CallContext, MaybePromise } from "../../src/ports/bucket-store.ts";
import { DRIFT, LATE_MAX_MS, type Process } from "./conditional-process.ts";
import type { Journal } from "./journal.ts";

/** Judges how long calls take. */
export class Deadlines {
  readonly #journal: Journal;
  /** The true time. */
  readonly #nowMs: () => number;

  constructor(journal: Journal, nowMs: () => number) {
    this.#journal = journal;
    this.#nowMs = nowMs;
  }

  /** No call outlasts the time it was given, as far as its process can tell time. */
  watched<Reply>(
    what: string,
    { id, clock, isTimely, isTimeKnown, isAlive, outwaited }: Process,
    { timeoutMs }: CallContext,
    reply: MaybePromise<Reply>,
  ): MaybePromise<Reply> {
    if (!(reply instanceof Promise)) return reply;
    const shownMs = clock.now();
    const [beganMs, { steppedBackMs }] = [this.#nowMs(), clock];
    // Half of it, where it first has to hear what the time is.
    const patienceMs = Math.floor(timeoutMs * (1 - DRIFT) * (isTimeKnown() ? 1 : 0.5));
    return reply.finally(() => {
      const seemedMs = clock.now() - shownMs;
      const tookMs = this.#nowMs() - beganMs;
      // Who waits behind a call that gets no answer may say that the store cannot be reached, before that call does.
      if (Math.max(tookMs, seemedMs) >= patienceMs) outwaited(what);
      const lateMs = tookMs - Math.ceil(timeoutMs * (1 + DRIFT)) - LATE_MAX_MS;
      if (!isTimely || lateMs <= 0 || clock.steppedBackMs !== steppedBackMs || !isAlive()) return;
      this.#journal.violation(`a ${what} of ${id} took ${tookMs} ms, and had ${timeoutMs}`);
    });
  }
}
