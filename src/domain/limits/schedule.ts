import type { Balance, Terms } from "../../bucket/balance.ts";
import { MILLI_MAX } from "./limit-numbers.ts";

/** One window of a schedule. While `cron` matches, capacity and rate are scaled, or replaced where a value is given. */
export interface ScheduleEntry {
  /** Five fields. The window is open in the minutes that they name. */
  readonly cron: string;
  /** An IANA time zone. Default: `"UTC"`. */
  readonly tz?: string;
  /**
   * Multiplies capacity and refill amount; at most three decimal places. Not together with the three options below.
   * Default: 1.
   */
  readonly scale?: number;
  /** The capacity in this window, in whole tokens. Default: as outside. */
  readonly capacity?: number;
  /** The refill amount in this window, in whole tokens. Default: as outside. */
  readonly refillAmount?: number;
  /** The refill period in this window, in ms: whole seconds. Default: as outside. */
  readonly refillPeriodMs?: number;
}

/** When a calendar quota is full again: at the first minute of each run of minutes that the cron names. */
export interface Reset {
  /** Five fields. `"hourly"`, `"daily"`, `"weekly"`, `"monthly"` and `"yearly"` can be given in place of a cron. */
  readonly cron: string;
  /** An IANA time zone. Default: `"UTC"`. */
  readonly tz?: string;
}

/** The zone of an entry or reset that names none. */
export const TZ_DEFAULT = "UTC";

/**
 * The terms in force: those of the first entry that matches, else the base. Scaling rounds down, but never a positive
 * value to nothing: a limit that no request can ever pass again is not what "scale" asks for. A rate of 0 stays 0 (quotas).
 */
export function effectiveTerms(
  base: Terms,
  schedule: readonly ScheduleEntry[],
  matches: (cron: string, tz: string) => boolean,
): Terms {
  const entry = schedule.find(({ cron, tz }) => matches(cron, tz ?? TZ_DEFAULT));
  if (entry === undefined) return base;
  if (entry.scale !== undefined) {
    const perMille = perMilleOf(entry.scale);
    return {
      capacityMilli: scaled(base.capacityMilli, perMille),
      refillAmountMilli: scaled(base.refillAmountMilli, perMille),
      refillPeriodMs: base.refillPeriodMs,
    };
  }
  return {
    capacityMilli: entry.capacity === undefined ? base.capacityMilli : entry.capacity * 1000,
    refillAmountMilli: entry.refillAmount === undefined ? base.refillAmountMilli : entry.refillAmount * 1000,
    refillPeriodMs: entry.refillPeriodMs ?? base.refillPeriodMs,
  };
}

/** A scale in thousandths: it has at most three decimal places. */
export function perMilleOf(scale: number): number {
  return Math.round(scale * 1000);
}

function scaled(milli: number, perMille: number): number {
  if (milli === 0) return 0;
  // The product is made of two parts, so that none that is below MILLI_MAX leaves the exact integers on the way.
  const whole = Math.floor(milli / 1000);
  const product = whole * perMille + Math.floor(((milli - whole * 1000) * perMille) / 1000);
  // Validation refuses scales that pass the largest capacity; should one get here, less is granted, never an inexact number.
  return Math.min(MILLI_MAX, Math.max(1, product));
}

/** Whether a cron is meant as a schedule window (every matching minute) or as a reset (the first minute of each run). */
export type CronUse = "window" | "reset";

/**
 * What the core asks of cron patterns and time zones. A cron is a pattern of *local* minutes, five fields. Instants are
 * ms since the Unix epoch. All but `problemOf` expect a cron and a zone in which `problemOf` finds nothing wrong, and
 * throw otherwise: that would be our mistake, not the caller's.
 */
export interface Calendar {
  /** A sentence saying what is wrong with the cron or the zone, its value and the remedy; `undefined` when all is well. */
  problemOf(cron: string, tz: string, use: CronUse): string | undefined;

  /** Whether the cron matches the local minute in which `atMs` lies. */
  matches(cron: string, tz: string, atMs: number): boolean;

  /** The first instant after `atMs` at which `matches` gives the other answer; `Infinity` when it never does. */
  nextChange(cron: string, tz: string, atMs: number): number;

  /** The first reset after `atMs`; `Infinity` when there is none. */
  nextReset(cron: string, tz: string, atMs: number): number;

  /** The last reset at or before `atMs`; `-Infinity` when there is none. */
  previousReset(cron: string, tz: string, atMs: number): number;
}

/** The part of a calendar that checking a limit needs. */
export type CronCheck = Pick<Calendar, "problemOf">;

/** The windows of a schedule, and what a limit can hold: outside of all, then in each. */
interface Windows {
  readonly entries: readonly ScheduleEntry[];
  readonly capacitiesMilli: readonly number[];
}

/** A window that stands behind another so often is taken to do so always. */
const BEHIND_MAX = 1_000;

/**
 * Cuts a balance into which nothing drips by every window that is in force between two instants. Only windows count
 * that hold less than there is, and from each instant it goes on to the next at which one of these can be in force: so years with
 * windows every minute are few steps. Undefined where one stands behind others again and again.
 */
export function cutByWindows(
  balance: Balance,
  { entries, capacitiesMilli }: Windows,
  { fromMs, toMs }: { readonly fromMs: number; readonly toMs: number },
  calendar: Calendar,
  /** The steps of a search. */
  steps: { take(): boolean } | undefined,
): Balance | "no steps left" | undefined {
  let { tokensMilli, remainder } = balance;
  let atMs = fromMs;
  for (let looked = 0; looked < BEHIND_MAX; looked++) {
    let nextMs = Number.POSITIVE_INFINITY;
    for (const [i, capacityMilli] of capacitiesMilli.entries()) {
      // A limit that is full has no past, so one that holds as much cuts off the fraction.
      const cuts = capacityMilli < tokensMilli || (capacityMilli === tokensMilli && remainder !== 0);
      if (cuts) nextMs = Math.min(nextMs, inForceAfter(entries, i === 0 ? entries.length : i - 1, atMs, calendar));
    }
    if (nextMs > toMs) return { tokensMilli, remainder };
    if (steps?.take() === false) return "no steps left";
    atMs = nextMs;
    const inForce = entries.findIndex((entry) => isOpen(entry, atMs, calendar));
    const capacityMilli = capacitiesMilli[inForce + 1] ?? tokensMilli;
    if (capacityMilli <= tokensMilli) [tokensMilli, remainder] = [capacityMilli, 0];
  }
  return undefined;
}

/**
 * Before this instant the entry at a place is not in force, as it is not now. At the place behind all stands what is outside of
 * all windows: that is always open.
 */
function inForceAfter(entries: readonly ScheduleEntry[], place: number, atMs: number, calendar: Calendar): number {
  const changeOf = ({ cron, tz }: ScheduleEntry) => calendar.nextChange(cron, tz ?? TZ_DEFAULT, atMs);
  const own = entries[place];
  if (own !== undefined && !isOpen(own, atMs, calendar)) return changeOf(own);
  // The windows that stand before it now must end first.
  const before = entries.slice(0, place).filter((entry) => isOpen(entry, atMs, calendar));
  const clearMs = Math.max(atMs + 1, ...before.map(changeOf));
  return own === undefined ? clearMs : Math.min(clearMs, changeOf(own));
}

function isOpen({ cron, tz }: ScheduleEntry, atMs: number, calendar: Calendar): boolean {
  return calendar.matches(cron, tz ?? TZ_DEFAULT, atMs);
}
