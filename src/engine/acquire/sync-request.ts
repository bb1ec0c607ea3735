import { ValidationError } from "../../domain/names/errors.ts";

/** What `tryAcquireSync` cannot do. */
export function cannotWait(): ValidationError {
  return new ValidationError("sync_unsupported", "tryAcquireSync cannot wait; leave `wait` out, or use tryAcquire.");
}

export function storeNotSync(storeName: string): ValidationError {
  return new ValidationError("sync_unsupported", `The store ${storeName} cannot answer synchronously; use tryAcquire.`);
}
