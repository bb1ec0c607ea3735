import { ValidationError } from "../names/errors.ts";
import { shown } from "../names/names.ts";

/** How long a store keeps what is there to be read and decides nothing: afterwards it goes, so that growth is bounded. */
export interface Retention {
  /** From the end of the hour in which it was counted; undefined: usage is not counted at all. */
  readonly usageKeepMs: number | undefined;
  readonly auditKeepMs: number;
}

const DAY_MS = 86_400_000;

/** Where nothing else was asked for: 400 days reach back over a year and the month before it. */
export const FILE_RETENTION: Retention = { usageKeepMs: 400 * DAY_MS, auditKeepMs: 400 * DAY_MS };

/** Memory is not for book-keeping. */
export const MEMORY_RETENTION: Retention = { usageKeepMs: 2 * DAY_MS, auditKeepMs: 400 * DAY_MS };

/** An embedded store keeps usage for as long as it was opened for: a stored number would be a second, silent say in it. */
export function refuseUsageKeptDays({ usageKeptDays }: { readonly usageKeptDays?: number | null }): void {
  if (usageKeptDays === undefined || usageKeptDays === null) return;
  throw new ValidationError(
    "usage_kept_days_unsupported",
    `usageKeptDays is ${usageKeptDays}, but this store's retention is set when it is opened; ` +
      `open it with \`usage: { keepMs: ${usageKeptDays * DAY_MS} }\` instead.`,
  );
}

/** On a table shared with the original usage is what its aggregator writes, for as long as that one is told to keep it. */
export function refuseUsageKeptDaysShared({ usageKeptDays }: { readonly usageKeptDays?: number | null }): void {
  if (usageKeptDays === undefined || usageKeptDays === null) return;
  throw new ValidationError(
    "usage_kept_days_unsupported",
    `usageKeptDays is ${usageKeptDays}, but on a table shared with the original, its aggregator sets the retention; ` +
      "set `usage_retention_days` of its stack, or open the table without `sharedTable`.",
  );
}

/** For how many days a table may keep usage. */
export function checkUsageKeptDays(days: unknown): number {
  if (typeof days === "number" && Number.isSafeInteger(days) && days >= 1 && days <= USAGE_KEPT_DAYS_MAX) return days;
  throw new ValidationError(
    "usage_kept_days_invalid",
    `usageKeptDays is ${shown(days)}; give whole days, from 1 to ${USAGE_KEPT_DAYS_MAX}.`,
  );
}

/** Ten years. */
export const USAGE_KEPT_DAYS_MAX = 3650;

/** Zeros would look as if nothing had been used. */
export function usageNotKept(): ValidationError {
  return new ValidationError(
    "usage_not_kept",
    "This store was opened with `usage: false` and counts no usage; open it without, or with `usage: { keepMs }`.",
  );
}
