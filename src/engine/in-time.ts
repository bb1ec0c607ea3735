import { RateLimiterUnavailable } from "../domain/errors.ts";
import type { Clock } from "../ports/system.ts";
import { timeLeft } from "./plan.ts";
import type { Settings } from "./settings.ts";
import { type Steps, waitingBy } from "./steps.ts";

/**
 * Steps that read configuration for a request. Levels are read one after the other: the store bounds the first read, what is left of
 * the request's time the others.
 */
export function boundedSteps<Value>(
  steps: Steps<Value>,
  startedMs: number,
  settings: Pick<Settings, "timeoutMs">,
  clock: Clock,
): Steps<Value> {
  return waitingBy(steps, (work) => {
    const spentMs = clock.now() - startedMs;
    return spentMs <= 0 ? work : inTime(work, timeLeft(settings, spentMs), clock);
  });
}

/**
 * What some work comes to, if it does in time; otherwise its caller is told that the store is unavailable. The work goes on: others
 * may wait for it, too.
 */
async function inTime<Value>(work: Promise<Value>, leftMs: number, clock: Clock): Promise<Value> {
  const answered = new AbortController();
  const inVain = clock.sleep(leftMs, answered.signal).then(() => {
    throw new RateLimiterUnavailable("Reading configuration took all the time of the request (`timeoutMs`).");
  });
  // Whichever is not waited for any more.
  for (const other of [work, inVain]) other.catch(() => {});
  try {
    return await Promise.race([work, inVain]);
  } finally {
    answered.abort();
  }
}
