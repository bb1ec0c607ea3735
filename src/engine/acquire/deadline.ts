import { RateLimiterUnavailable } from "../../domain/names/errors.ts";
import type { Steps } from "../../domain/steps.ts";
import type { Clock } from "../../ports/system.ts";

/**
 * The time that a request has for all that it waits for before the store is asked to take: however many levels of configuration
 * have to be read, it is one. What is read later is remembered for the next request.
 *
 * It is one sleep, not a look at the clock: what is heard of the server's time meanwhile may put the clock.
 */
export class Deadline {
  readonly #clock: Clock;
  readonly #leftMs: number;
  #off: AbortController | undefined;
  #over: Promise<never> | undefined;

  /** It begins with the first wait. */
  constructor(clock: Clock, leftMs: number) {
    this.#clock = clock;
    this.#leftMs = leftMs;
  }

  /** What comes of a wait; `RateLimiterUnavailable` when the time is over first. */
  bounding(waited: Promise<unknown>): Promise<unknown> {
    return Promise.race([waited, this.#timeIsOver()]);
  }

  /** Nothing more is waited for. */
  end(): void {
    this.#off?.abort();
  }

  #timeIsOver(): Promise<never> {
    if (this.#over === undefined) {
      this.#off = new AbortController();
      this.#over = this.#clock.sleep(this.#leftMs, this.#off.signal).then(() => {
        throw new RateLimiterUnavailable("The limits were not read within `timeoutMs`.");
      });
      this.#over.catch(() => {});
    }
    return this.#over;
  }
}

/** The steps, each of whose waits ends with the deadline. */
export function* keptBy<Value>(deadline: Deadline | undefined, steps: Steps<Value>): Steps<Value> {
  let step = steps.next();
  while (!step.done) {
    let value: unknown;
    try {
      value = yield deadline === undefined ? step.value : deadline.bounding(step.value);
    } catch (error) {
      step = steps.throw(error);
      continue;
    }
    step = steps.next(value);
  }
  return step.value;
}
