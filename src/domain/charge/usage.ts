import { given } from "../names/given.ts";

/** A field of a snapshot that counts something of each limit. */
export type UsageCounter = "counters" | "overdrafts" | "bypassed" | "wouldRefuse" | "heldMs";

/** The counts of some windows, by what they count and then by limit. */
export type UsageCounts = Readonly<Record<UsageCounter, Readonly<Record<string, number>>>>;

/**
 * Everything that is counted by limit, in the order in which it is shown, and the mark of its counts. Stores, exports and sums walk through
 * this table; another counter is one row more, and its attributes (`protocol/item/attributes.ts`). All counts are stored in thousandths:
 * tokens as millitokens, requests as 1000 each, held time as thousandths of a slot times milliseconds.
 */
const MARKS: Readonly<Record<UsageCounter, string>> = {
  counters: "",
  overdrafts: "od",
  bypassed: "by",
  wouldRefuse: "wr",
  heldMs: "hu",
};

export const USAGE_COUNTERS: readonly UsageCounter[] = Object.keys(MARKS) as UsageCounter[];

const BY_MARK: ReadonlyMap<string, UsageCounter> = new Map(USAGE_COUNTERS.map((counter) => [MARKS[counter], counter]));

/** The name under which stores keep one of a limit's counts: tokens by the limit's own; `#` cannot stand in a limit's name. */
export function countName(counter: UsageCounter, limit: string): string {
  const mark = MARKS[counter];
  return mark === "" ? limit : `${limit}#${mark}`;
}

/** Something of each counter. */
export function perCounter<T>(of: (counter: UsageCounter) => T): Record<UsageCounter, T> {
  return Object.fromEntries(USAGE_COUNTERS.map((counter) => [counter, of(counter)])) as Record<UsageCounter, T>;
}

/** Counts as stores keep them, by what they count. */
export function countersOf(counted: Iterable<readonly [name: string, count: number]>): UsageCounts {
  const sums = perCounter(() => new Map<string, number>());
  for (const [name, count] of counted) {
    const [limit = name, mark = ""] = name.split("#");
    addTo(sums[BY_MARK.get(mark) ?? "counters"], [[limit, count]]);
  }
  return perCounter((counter) => Object.fromEntries(sums[counter]));
}

/** Counts by the names under which stores keep them: what `countersOf` reads. */
export function namedCounts(counts: UsageCounts): readonly (readonly [name: string, count: number])[] {
  return USAGE_COUNTERS.flatMap((counter) =>
    Object.entries(counts[counter]).map(([limit, count]) => [countName(counter, limit), count] as const),
  );
}

// A limit may be called "constructor": sums are kept in maps, which have no inherited names.
function addTo(sums: Map<string, number>, counts: Iterable<readonly [string, number]>): void {
  for (const [limit, count] of counts) sums.set(limit, (sums.get(limit) ?? 0) + count);
}

/** How long the windows of usage are. They begin and end by UTC, unless a zone is named. */
export type UsageWindow = "hourly" | "daily" | "monthly";

/** Windows that begin at the midnights of a zone. An hour (UTC) belongs to the window in which it begins. */
export interface ZonedWindow {
  readonly length: "daily" | "monthly";
  readonly tz: string;
  /** The start of the window that contains an instant. */
  startOf(atMs: number): number;
  /** First ms after the window that starts at an instant. */
  endOf(startMs: number): number;
}

/** The windows of a question: by UTC, or by a zone. */
export type Windows = UsageWindow | ZonedWindow;

export function lengthOf(windows: Windows): UsageWindow {
  return typeof windows === "string" ? windows : windows.length;
}

/** The window that starts at an instant, as snapshots show it. */
export function shownWindow(windows: Windows, startMs: number) {
  const shown = { window: lengthOf(windows), windowStartMs: startMs, windowEndMs: windowEndMs(windows, startMs) };
  return typeof windows === "string" ? shown : { ...shown, tz: windows.tz };
}

/** Tokens that an entity used on a resource in one window, less those that it gave back. */
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
  /** The zone at whose midnights windows begin. Absent: UTC. */
  readonly tz?: string;
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

/** Usage under totals over all resources, added up. */
export interface UsageUnderTotals {
  /** Tokens by limit. */
  readonly total: Readonly<Record<string, number>>;
  /** How many requests were granted. */
  readonly requests: number;
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
  /** What totals over all resources counted: in no other number here. Absent: none did. */
  readonly inTotal?: UsageUnderTotals;
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
export function windowStartMs(window: Windows, atMs: number): number {
  if (typeof window === "object") return window.startOf(atMs);
  if (window === "hourly") return hourOf(atMs);
  if (window === "daily") return Math.floor(atMs / DAY_MS) * DAY_MS;
  return monthStartMs(atMs, 0);
}

/** First ms after the window that starts at `startMs`. */
export function windowEndMs(window: Windows, startMs: number): number {
  if (typeof window === "object") return window.endOf(startMs);
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
    const average = Array.from(this.#sums.counters, ([limit, tokens]) => {
      return [limit, tokens / (this.#windows.get(limit) as number)] as const;
    });
    return {
      snapshotCount: this.#snapshotCount,
      total,
      average: Object.fromEntries(average),
      requests: this.#requests,
      ...others,
      ...given({ firstWindowStartMs: this.#firstMs, lastWindowStartMs: this.#lastMs }),
    };
  }
}

function monthStartMs(atMs: number, later: number): number {
  const date = new Date(atMs);
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + later, 1);
}
