import { ValidationError } from "../names/errors.ts";
import { shown } from "../names/names.ts";
import type { LimitsChange } from "./config.ts";

/** The time for which a store keeps what decides nothing: afterwards it is deleted, so that growth is bounded. */
export interface Retention {
  /** Ms from the end of the hour in which it was counted; undefined: usage is not counted at all. */
  readonly usageKeepMs: number | undefined;
  readonly auditKeepMs: number;
}

const DAY_MS = 86_400_000;

/** The default of a store that is a file: 400 days reach back over a year and the month before it. */
export const FILE_RETENTION: Retention = { usageKeepMs: 400 * DAY_MS, auditKeepMs: 400 * DAY_MS };

/** The default of memory, which is not for book-keeping. */
export const MEMORY_RETENTION: Retention = { usageKeepMs: 2 * DAY_MS, auditKeepMs: 400 * DAY_MS };

/** An embedded store keeps usage for as long as it was opened for: a stored number would be a second, silent say in it. */
export function refuseUsageKeptDays({ usageKeptDays: days }: Pick<LimitsChange, "usageKeptDays">): void {
  if (days === undefined || days === null) return;
  throw keptElsewhere(
    days,
    "this store's retention is set when it is opened; " +
      `open it with \`usage: { keepMs: ${days * DAY_MS} }\` instead`,
  );
}

/** On a table shared with the original its aggregator writes the usage, and keeps it as long as its stack says. */
export function refuseUsageKeptDaysShared({ usageKeptDays: days }: Pick<LimitsChange, "usageKeptDays">): void {
  if (days === undefined || days === null) return;
  throw keptElsewhere(
    days,
    "on a table shared with the original, its aggregator sets the retention; " +
      "set `usage_retention_days` of its stack, or open the table without `sharedTable`",
  );
}

function keptElsewhere(days: number, why: string): ValidationError {
  return new ValidationError("usage_kept_days_unsupported", `usageKeptDays is ${days}, but ${why}.`);
}

/** Checks the number of days for which a table keeps usage. */
export function checkUsageKeptDays(days: unknown): number {
  if (typeof days === "number" && Number.isSafeInteger(days) && days >= 1 && days <= USAGE_KEPT_DAYS_MAX) return days;
  throw new ValidationError(
    "usage_kept_days_invalid",
    `usageKeptDays is ${shown(days)}; give whole days, from 1 to ${USAGE_KEPT_DAYS_MAX}.`,
  );
}

/** Ten years. */
export const USAGE_KEPT_DAYS_MAX = 3650;

/** The error in place of zeros, which would look as if nothing had been used. */
export function usageNotKept(): ValidationError {
  return new ValidationError(
    "usage_not_kept",
    "This store was opened with `usage: false` and counts no usage; open it without, or with `usage: { keepMs }`.",
  );
}
