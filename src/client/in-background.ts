import type { Clock } from "../ports/system.ts";

/** Waits without keeping the process alive. */
export function inBackground(clock: Clock, ms: number, signal: AbortSignal): Promise<void> {
  return clock.sleepInBackground === undefined ? clock.sleep(ms, signal) : clock.sleepInBackground(ms, signal);
}
