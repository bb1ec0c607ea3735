import type { Terms } from "../../bucket/balance.ts";
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
  // In two parts, so that no product that is still below MILLI_MAX leaves the exact integers on the way.
  const whole = Math.floor(milli / 1000);
  const product = whole * perMille + Math.floor(((milli - whole * 1000) * perMille) / 1000);
  // Validation refuses scales that pass the largest capacity; should one get here, less is granted, never an inexact number.
  return Math.min(MILLI_MAX, Math.max(1, product));
}
