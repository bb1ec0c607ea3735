import { isIdle } from "../domain/bucket/bucket-questions.ts";
import type { BucketState } from "../domain/bucket/bucket-state.ts";
import { HOUR_MS } from "../domain/charge/usage.ts";
import type { Calendar } from "../domain/limits/calendar.ts";

/** A bucket that has been full this long equals a missing one, also for a client whose clock is behind by less. */
const IDLE_MS = HOUR_MS;

/** Whether a bucket may be forgotten: the next one of its name begins as it would go on. */
export function mayForget(state: BucketState, nowMs: number, calendar: Calendar): boolean {
  return isIdle(state, IDLE_MS, nowMs, calendar);
}

/** Purchases and resets are remembered by their keys for so long. */
export const OPERATIONS_KEPT_MS = 30 * 24 * HOUR_MS;

/** The last hour that is no longer kept, by its start: usage is kept from the end of its hour on. */
export function lastHourOverMs(nowMs: number, keepMs: number): number {
  return nowMs - keepMs - HOUR_MS;
}
