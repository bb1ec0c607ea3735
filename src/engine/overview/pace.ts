import { addMulDiv } from "../../bucket/integers.ts";
import { HOUR_MS, hourOf } from "../../domain/charge/usage.ts";
import type { HeldLimit } from "./held-limits.ts";

/** The tokens of a limit that were used in one hour. */
export interface HourlyUse {
  readonly windowStartMs: number;
  readonly tokens: number;
}

/**
 * When a quota will be used up at the pace of the last hours: of those since `fromMs`, from the first one of its period on. Undefined where
 * it says nothing: there is less than an hour to go by, nothing was used, the quota is full again before, or it has no period.
 */
export function usedUpAtMs(
  { periodStartMs, shown }: HeldLimit,
  hours: readonly HourlyUse[],
  fromMs: number,
  nowMs: number,
): number | undefined {
  if (periodStartMs === undefined) return undefined;
  const sinceMs = Math.max(fromMs, hourOf(periodStartMs));
  const spanMs = nowMs - sinceMs;
  const usedMilli = hours.reduce(
    (sum, { windowStartMs, tokens }) => (windowStartMs < sinceMs ? sum : sum + Math.round(tokens * 1000)),
    0,
  );
  if (spanMs < HOUR_MS || usedMilli <= 0) return undefined;
  const leftMilli = Math.max(0, shown.available) * 1000;
  const atMs = addMulDiv(nowMs, leftMilli, spanMs, 0, usedMilli, Number.MAX_SAFE_INTEGER);
  return shown.resetsAtMs !== undefined && atMs > shown.resetsAtMs ? undefined : atMs;
}
