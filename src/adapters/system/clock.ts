import type { Clock } from "../../ports/system.ts";

/** The machine's clock. */
export const systemClock: Clock = { now: () => Date.now(), sleep };

/** Whole ms since some instant, going on evenly when the machine's clock is put. While the machine sleeps it may stand still. */
export function steadyMs(): number {
  return Math.floor(performance.now());
}

/** A clock given by the caller, used as it is; one that cannot sleep by itself waits in real time. */
export function clockFrom(given: { now(): number; sleep?: Clock["sleep"] }): Clock {
  return {
    now: () => given.now(),
    sleep: (ms, signal) => (given.sleep === undefined ? sleep(ms, signal) : given.sleep(ms, signal)),
  };
}

/** setTimeout fires at once above this, about 24 days. */
const TIMEOUT_MAX_MS = 2_147_483_647;

function sleep(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) {
      reject(signal.reason);
      return;
    }
    const aborted = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(
      () => {
        signal?.removeEventListener("abort", aborted);
        resolve();
      },
      Math.min(Math.ceil(ms), TIMEOUT_MAX_MS),
    );
    signal?.addEventListener("abort", aborted, { once: true });
  });
}
