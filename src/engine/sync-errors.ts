import { ValidationError } from "../domain/errors.ts";
import type { Store } from "../ports/store.ts";

export function cannotWait(): ValidationError {
  return new ValidationError("sync_unsupported", "tryAcquireSync cannot wait; leave `wait` out, or use tryAcquire.");
}

export function syncUnsupported({ name }: Pick<Store, "name">): ValidationError {
  return new ValidationError("sync_unsupported", `The store ${name} cannot answer synchronously; use tryAcquire.`);
}
