import { ConflictError } from "./errors.ts";
import { shown } from "./names.ts";

/** Another request with the same key is under way. */
export function keyInProgress(key: string): ConflictError {
  return new ConflictError(
    "idempotency_in_progress",
    `A request with the idempotency key ${shown(key)} is under way; repeat it in a second for its answer.`,
  );
}
