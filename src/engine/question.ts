import type { Limit } from "../domain/limit.ts";

/** A question about an entity on a resource that takes nothing. */
export interface Question {
  /** Who would ask. */
  readonly entityId: string;
  /** For what. */
  readonly resource: string;
  /** Answer for these limits in place of the stored ones. */
  readonly limits?: readonly Limit[];
}
