import { ValidationError } from "../names/errors.ts";
import type { Limit } from "./limit.ts";

type Field = "holdMs" | "shadow" | "notifyAt";

/**
 * Fields that say more than rates can. A release that does not know such a field takes the limit for a plain one, so it is kept away
 * from where such limits are stored; and the Python original, which ignores them all, from tables that it writes too.
 */
const FIELDS: readonly {
  readonly field: Field;
  readonly code: string;
  readonly what: string;
  readonly why: string;
  readonly instead: string;
}[] = [
  {
    field: "holdMs",
    code: "shared_concurrent",
    what: "says how many are at once",
    why: "its slots would never be free again for Python clients",
    instead: "Leave it out",
  },
  {
    field: "shadow",
    code: "shared_shadow",
    what: "is a shadow",
    why: "Python clients would refuse requests for it",
    instead: "Make it soft",
  },
  {
    field: "notifyAt",
    code: "shared_notify",
    what: "has notifyAt",
    why: "Python clients would take from it and tell nothing",
    instead: "Leave notifyAt out",
  },
];

/** Whether a limit says more than rates can: only releases that know of it may use what stores it. */
export function isBeyondRates(limit: Limit): boolean {
  for (const { field } of FIELDS) if (limit[field] !== undefined) return true;
  return false;
}

/** Throws for a limit that the Python zae-limiter, which writes to the table too, would go by differently. It charges by the name of a limit. */
export function refuseLimitsShared(limits: readonly Limit[]): void {
  const refused = limits.find(({ counts }) => counts !== undefined);
  if (refused !== undefined) {
    const why = `counts ${refused.counts}; on a table shared with the Python zae-limiter, Python clients would not charge it`;
    throw refusedShared("shared_table", refused, why, `Name the limit ${refused.counts}`);
  }
  for (const limit of limits) {
    for (const { field, code, what, why, instead } of FIELDS) {
      if (limit[field] === undefined) continue;
      throw refusedShared(code, limit, `${what}; on a table shared with the Python zae-limiter, ${why}`, instead);
    }
  }
}

function refusedShared(code: string, { name }: Limit, why: string, instead: string): ValidationError {
  return new ValidationError(code, `Limit "${name}" ${why}. ${instead}, or open the table without sharedTable.`);
}
