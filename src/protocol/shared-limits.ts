import type { BucketKey } from "../domain/bucket-key.ts";
import { ValidationError } from "../domain/errors.ts";
import type { LimitSet } from "../domain/limit-set.ts";

/** Throws for limits that cannot be kept on a table which the original writes too. */
export function checkShared({ limits }: LimitSet): void {
  const session = limits.find(({ resetAfterMs }) => resetAfterMs !== undefined);
  if (session === undefined) return;
  throw new ValidationError(
    "shared_session",
    `Limit "${session.name}" is a session quota; on a table that the original writes too its windows would open twice. ` +
      "Use a calendar quota, or open the table without sharedTable.",
  );
}

export function sharedTopUp({ entityId, resource }: BucketKey): ValidationError {
  return new ValidationError(
    "shared_top_up",
    `${entityId} on ${resource} cannot be topped up on a table that the original writes too: it would spend what was ` +
      "bought in another way. Open it without sharedTable, or raise the limit.",
  );
}
