import { ValidationError } from "./errors.ts";

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

/** Zeros would look as if nothing had been used. */
export function usageNotKept(): ValidationError {
  return new ValidationError(
    "usage_not_kept",
    "This store was opened with `usage: false`, so that no usage is counted; open it without, or with `usage: { keepMs }`.",
  );
}
