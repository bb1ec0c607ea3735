import { addTo, perCounter, USAGE_COUNTERS } from "./usage-counters.ts";

/** How long the windows of usage are. They begin and end by UTC. */
export type UsageWindow = "hourly" | "daily" | "monthly";

/** Tokens that an entity used on a resource in one window (UTC), less those that it gave back. */
export interface UsageSnapshot {
  /** The entity that used them. */
  readonly entityId: string;
  /** The resource that they were used on. */
  readonly resource: string;
  /** How long the window is. */
  readonly window: UsageWindow;
  /** First ms of the window. */
  readonly windowStartMs: number;
  /** First ms after the window. */
  readonly windowEndMs: number;
  /** Tokens by limit, less those that were given back. */
  readonly counters: Readonly<Record<string, number>>;
  /** How many requests were granted. */
  readonly requests: number;
  /** By soft limit, how many requests left it below zero. */
  readonly overdrafts: Readonly<Record<string, number>>;
  /** Tokens by limit that passed by a bypass; `counters` has them too. */
  readonly bypassed: Readonly<Record<string, number>>;
  /** By shadow limit, how many requests it would have refused; what they asked of it is in no other count. */
  readonly wouldRefuse: Readonly<Record<string, number>>;
  /** By limit on how many are at once, for how long its slots were held: slots times milliseconds. */
  readonly heldMs: Readonly<Record<string, number>>;
}

/** Usage added up over windows. */
export interface UsageSummary {
  /** How many windows of buckets were added up. */
  readonly snapshotCount: number;
  /** Tokens by limit. */
  readonly total: Readonly<Record<string, number>>;
  /** Tokens by limit in the average window that has the counter. */
  readonly average: Readonly<Record<string, number>>;
  /** How many requests were granted. */
  readonly requests: number;
  /** By soft limit, how many requests left it below zero. */
  readonly overdrafts: Readonly<Record<string, number>>;
  /** Tokens by limit that passed by a bypass; `total` has them too. */
  readonly bypassed: Readonly<Record<string, number>>;
  /** By shadow limit, how many requests it would have refused; what they asked of it is in no other count. */
  readonly wouldRefuse: Readonly<Record<string, number>>;
  /** By limit on how many are at once, for how long its slots were held: slots times milliseconds. */
  readonly heldMs: Readonly<Record<string, number>>;
  /** When the first window begins. Absent: there was none. */
  readonly firstWindowStartMs?: number;
  /** When the last window begins. Absent: there was none. */
  readonly lastWindowStartMs?: number;
}

/** What one entity, or one resource, used in all windows together. */
export interface UsageTotal extends UsageSummary {
  /** The entity, in totals by entity. */
  readonly entityId?: string;
  /** The resource, in totals by resource. */
  readonly resource?: string;
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

/** Adds snapshots up as they come; it holds one number a limit, however many they are. */
export class UsageTally {
  // Maps, because a limit may be called "constructor", which every plain object has already.
  readonly #sums = perCounter(() => new Map<string, number>());
  readonly #windows = new Map<string, number>();
  #snapshotCount = 0;
  #requests = 0;
  #firstMs: number | undefined;
  #lastMs: number | undefined;

  add(snapshot: UsageSnapshot): void {
    const { windowStartMs: startMs, requests } = snapshot;
    this.#snapshotCount += 1;
    this.#requests += requests;
    this.#firstMs = Math.min(this.#firstMs ?? startMs, startMs);
    this.#lastMs = Math.max(this.#lastMs ?? startMs, startMs);
    for (const counter of USAGE_COUNTERS) addTo(this.#sums[counter], Object.entries(snapshot[counter]));
    addTo(
      this.#windows,
      Object.keys(snapshot.counters).map((limit) => [limit, 1]),
    );
  }

  summary(): UsageSummary {
    const { counters: total, ...others } = perCounter((counter) => Object.fromEntries(this.#sums[counter]));
    const average = Array.from(
      this.#sums.counters,
      ([limit, tokens]) => [limit, tokens / (this.#windows.get(limit) as number)] as const,
    );
    return {
      snapshotCount: this.#snapshotCount,
      total,
      average: Object.fromEntries(average),
      requests: this.#requests,
      ...others,
      ...(this.#firstMs === undefined ? {} : { firstWindowStartMs: this.#firstMs }),
      ...(this.#lastMs === undefined ? {} : { lastWindowStartMs: this.#lastMs }),
    };
  }
}

function monthStartMs(atMs: number, later: number): number {
  const date = new Date(atMs);
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + later, 1);
}
