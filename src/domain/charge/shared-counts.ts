import type { Limit } from "../limits/limit.ts";
import { ValidationError } from "../names/errors.ts";

/** Throws for a limit that counts another measure than its name: the Python zae-limiter, which writes to the table too, charges by name. */
export function refuseCountsShared(limits: readonly Limit[]): void {
  const limit = limits.find(({ counts }) => counts !== undefined);
  if (limit === undefined) return;
  throw new ValidationError(
    "shared_table",
    `Limit "${limit.name}" counts ${limit.counts}; on a table shared with the Python zae-limiter, Python clients would not charge ` +
      `it. Name the limit ${limit.counts}, or open the table without sharedTable.`,
  );
}
