export type UsageWindow = "hourly" | "daily" | "monthly";

/** Net tokens per limit that an entity consumed on a resource in one window (UTC), counted when they were taken or given back. */
export interface UsageSnapshot {
  readonly entityId: string;
  readonly resource: string;
  readonly window: UsageWindow;
  readonly windowStartMs: number;
  /** First ms after the window. */
  readonly windowEndMs: number;
  readonly counters: Readonly<Record<string, number>>;
  /** Granted requests. */
  readonly requests: number;
}

export interface UsageSummary {
  readonly snapshotCount: number;
  readonly total: Readonly<Record<string, number>>;
  /** Per window that has the counter. */
  readonly average: Readonly<Record<string, number>>;
  readonly requests: number;
  readonly firstWindowStartMs?: number;
  readonly lastWindowStartMs?: number;
}

export const HOUR_MS = 3_600_000;
const DAY_MS = 86_400_000;

export function hourOf(atMs: number): number {
  return Math.floor(atMs / HOUR_MS) * HOUR_MS;
}

/** Start of the window that contains an instant. */
export function windowStartMs(window: UsageWindow, atMs: number): number {
  if (window === "hourly") return hourOf(atMs);
  if (window === "daily") return Math.floor(atMs / DAY_MS) * DAY_MS;
  return monthStartMs(atMs, 0);
}

/** First ms after the window that starts at `startMs`. */
export function windowEndMs(window: UsageWindow, startMs: number): number {
  if (window === "hourly") return startMs + HOUR_MS;
  if (window === "daily") return startMs + DAY_MS;
  return monthStartMs(startMs, 1);
}

export function summarize(snapshots: readonly UsageSnapshot[]): UsageSummary {
  // Maps, because a limit may be called "constructor", which every plain object has already.
  const total = new Map<string, number>();
  const windows = new Map<string, number>();
  let requests = 0;
  let first: number | undefined;
  let last: number | undefined;
  for (const snapshot of snapshots) {
    requests += snapshot.requests;
    first = Math.min(first ?? snapshot.windowStartMs, snapshot.windowStartMs);
    last = Math.max(last ?? snapshot.windowStartMs, snapshot.windowStartMs);
    for (const [limit, tokens] of Object.entries(snapshot.counters)) {
      total.set(limit, (total.get(limit) ?? 0) + tokens);
      windows.set(limit, (windows.get(limit) ?? 0) + 1);
    }
  }
  const average = Array.from(total, ([limit, tokens]) => [limit, tokens / (windows.get(limit) as number)] as const);
  return {
    snapshotCount: snapshots.length,
    total: Object.fromEntries(total),
    average: Object.fromEntries(average),
    requests,
    ...(first === undefined ? {} : { firstWindowStartMs: first }),
    ...(last === undefined ? {} : { lastWindowStartMs: last }),
  };
}

function monthStartMs(atMs: number, later: number): number {
  const date = new Date(atMs);
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + later, 1);
}
