import type { BucketListing, Limit } from "./shapes.ts";

export type HeldLimit = BucketListing["limits"][number];

/** The speed at which a limit drips. */
export interface Rate {
  /** Whole tokens in a period. */
  readonly amount: number;
  readonly periodMs: number;
}

/** Computes the whole tokens `elapsedMs` after a reading, at most the capacity; negative in debt. */
export function levelAt(held: HeldLimit, rate: Rate | undefined, elapsedMs: number): number {
  if (held.kind !== "drip" || rate === undefined || held.available >= held.capacity) return held.available;
  const dripped = Math.floor((Math.max(0, elapsedMs) * rate.amount) / rate.periodMs);
  return Math.min(held.capacity, held.available + dripped);
}

/** The rate in force: that of the schedule window whose capacity the bucket has now, or of the limit itself. */
export function rateOf(limit: Limit | undefined, capacity: number): Rate | undefined {
  if (limit === undefined || limit.refillAmount === 0) return undefined;
  const base = { amount: limit.refillAmount, periodMs: limit.refillPeriodMs };
  if (capacity === limit.capacity) return base;
  const windows = (limit.schedule ?? []).map((entry) => ({
    capacity: entry.scale === undefined ? (entry.capacity ?? limit.capacity) : Math.floor(limit.capacity * entry.scale),
    amount: entry.scale === undefined ? (entry.refillAmount ?? limit.refillAmount) : limit.refillAmount * entry.scale,
    periodMs: entry.refillPeriodMs ?? limit.refillPeriodMs,
  }));
  const open = windows.find((window) => window.capacity === capacity);
  // No window fits: the bucket still has other limits than those that are stored, and their rate is unknown.
  return open === undefined ? undefined : { amount: open.amount, periodMs: open.periodMs };
}

type LevelState = "debt" | "empty" | "low" | "plenty";

export function stateOf(level: number, capacity: number): LevelState {
  if (level < 0) return "debt";
  if (level === 0) return "empty";
  return level * 5 <= capacity ? "low" : "plenty";
}
