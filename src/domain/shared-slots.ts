import { ValidationError } from "./errors.ts";
import { rulesOf } from "./kinds/table.ts";
import type { Limit } from "./limit.ts";

/** On a table shared with the original: throws for a limit on how many are at once. */
export function refuseSlotsShared(limits: readonly Limit[]): void {
  const slots = limits.find((limit) => rulesOf(limit).holdsSlots);
  if (slots === undefined) return;
  throw new ValidationError(
    "shared_concurrent",
    `Limit "${slots.name}" says how many are at once; on a table shared with the Python zae-limiter its slots would never be free ` +
      "again. Take the table over with `migrate`, or leave the limit out.",
  );
}
