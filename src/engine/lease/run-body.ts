import { ValidationError } from "../../domain/names/errors.ts";
import { shown } from "../../domain/names/names.ts";
import type { Lease } from "./lease.ts";

/** Throws for a body that cannot be run, before anything is taken for it. */
export function checkBody(body: unknown): void {
  if (typeof body === "function") return;
  throw new ValidationError(
    "body_missing",
    `The body of withLease is ${shown(body)}; give a function, as in withLease(request, async (lease) => { ... }).`,
  );
}

interface LeaseBody<Value, Name extends string> {
  readonly body: (lease: Lease<Name>) => Value | Promise<Value>;
  readonly signal: AbortSignal | undefined;
  /** Called if the end of the lease could not be stored. */
  readonly notStored: (error: unknown) => void;
}

/**
 * Runs a body. Its tokens are kept when it returns, and given back when it throws. The caller gets its value or its error even if the
 * end of the lease could not be stored: the work is done.
 */
export async function runBody<Value, Name extends string>(
  lease: Lease<Name>,
  { body, signal, notStored }: LeaseBody<Value, Name>,
): Promise<Value> {
  let value: Value;
  try {
    // Aborted before the work began: there is nothing to charge.
    signal?.throwIfAborted();
    value = await body(lease);
  } catch (error) {
    await lease.rollback().catch(notStored);
    throw error;
  }
  await lease.settle().catch(notStored);
  return value;
}
