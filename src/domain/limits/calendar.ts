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

/** What checking a limit needs of a calendar. */
export type CronCheck = Pick<Calendar, "problemOf">;
