import { LimiterError, RateLimiterUnavailable } from "../../domain/names/errors.ts";
import type { MaybePromise } from "../../ports/bucket-store.ts";

/**
 * Waits until all of the work has come to its end, also when some of it fails, and answers the values in order. What failed is
 * thrown then: one error as it is, several as one that names them all.
 */
export async function allDone<Value>(work: readonly MaybePromise<Value>[]): Promise<Value[]> {
  const values: Value[] = [];
  const errors: unknown[] = [];
  for (const outcome of await Promise.allSettled(work)) {
    if (outcome.status === "fulfilled") values.push(outcome.value);
    else errors.push(outcome.reason);
  }
  if (errors.length > 0) throw joinedError(errors);
  return values;
}

/** One error for all: by its class and code that of an outage if one of them was an outage, and else of the first. */
function joinedError(errors: readonly unknown[]): unknown {
  if (errors.length === 1) return errors[0];
  const [cause] = errors;
  const message = errors.map((error) => (error instanceof Error ? error.message : String(error))).join(" ");
  if (errors.some((error) => error instanceof RateLimiterUnavailable)) {
    return new RateLimiterUnavailable(message, { cause, errors });
  }
  if (cause instanceof LimiterError) return new LimiterError(cause.code, message, { cause, errors });
  return new AggregateError(errors, message, { cause });
}
