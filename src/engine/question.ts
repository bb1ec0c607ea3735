import type { Limit } from "../domain/limit.ts";

/** A question about an entity on a resource. It takes nothing. */
export interface Question {
  /** The entity that would ask. */
  readonly entityId: string;
  /** The resource that it would ask for. */
  readonly resource: string;
  /** Limits to answer for, in place of the stored ones. Default: the stored limits. */
  readonly limits?: readonly Limit[];
}
