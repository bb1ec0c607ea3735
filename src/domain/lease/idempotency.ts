import { ConflictError, ValidationError } from "../names/errors.ts";
import { shown } from "../names/names.ts";

/** Another request with the same key is under way. */
export function keyInProgress(key: string): ConflictError {
  return new ConflictError(
    "idempotency_in_progress",
    `A request with the idempotency key ${shown(key)} is still running; repeat it in a second for its result.`,
  );
}

/** The key was given before, and something else was asked with it. */
export function keyReused(key: string): ValidationError {
  return new ValidationError(
    "idempotency_key_reused",
    `The idempotency key ${shown(key)} was used for another request; use a new key for a new request.`,
  );
}

/** A key that is given must be one: `null` is no way to say that there is none. */
export function checkIdempotencyKey(value: unknown): string {
  if (typeof value === "string" && /^[A-Za-z0-9._:-]{1,64}$/.test(value)) return value;
  throw new ValidationError(
    "idempotency_key_invalid",
    `idempotencyKey is ${shown(value)}; use 1 to 64 letters, digits and . _ : -`,
  );
}
