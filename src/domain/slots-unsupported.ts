import { ValidationError } from "./errors.ts";
import { rulesOf } from "./kinds/table.ts";
import type { Limit } from "./limit.ts";

/** Throws for a limit on how many are at once, for a store that cannot hold slots yet. */
export function refuseSlots(limits: readonly Limit[], store: string): void {
  const slots = limits.find((limit) => rulesOf(limit).holdsSlots);
  if (slots === undefined) return;
  throw new ValidationError(
    "concurrent_unsupported",
    `Limit "${slots.name}" says how many are at once, which ${store} does not support yet. Use the memory store or SQLite, or a limit that refills.`,
  );
}
