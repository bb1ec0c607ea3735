import { RateLimiterUnavailable } from "../../domain/names/errors.ts";
import type { Steps } from "../../domain/steps.ts";
import type { Clock } from "../../ports/system.ts";

/**
 * The time limit of a request for reading configuration, however many levels there are. What arrives later is cached for the next
 * request. It is one sleep, not a comparison of clock readings: an answer of the server may adjust the clock meanwhile.
 */
export interface Deadline {
  /** Rejects with `RateLimiterUnavailable` if the time is over before the wait. The time begins with the first wait. */
  bound(waited: Promise<unknown>): Promise<unknown>;
  end(): void;
}

export function deadlineAfter(clock: Clock, leftMs: number): Deadline {
  let off: AbortController | undefined;
  let over: Promise<never> | undefined;
  const timeIsOver = () => {
    off = new AbortController();
    const slept = clock.sleep(leftMs, off.signal).then(() => {
      throw new RateLimiterUnavailable("The limits were not read within `timeoutMs`.");
    });
    slept.catch(() => {});
    return slept;
  };
  return {
    bound: (waited) => {
      over ??= timeIsOver();
      return Promise.race([waited, over]);
    },
    end: () => off?.abort(ENDED),
  };
}

/** Without a reason of its own, every abort would make an error with a stack. */
const ENDED = "The wait is over.";

/** Bounds each wait of the steps by the deadline. */
export function* keptBy<Value>(deadline: Deadline | undefined, steps: Steps<Value>): Steps<Value> {
  let step = steps.next();
  while (!step.done) {
    let value: unknown;
    try {
      value = yield deadline === undefined ? step.value : deadline.bound(step.value);
    } catch (error) {
      step = steps.throw(error);
      continue;
    }
    step = steps.next(value);
  }
  return step.value;
}
