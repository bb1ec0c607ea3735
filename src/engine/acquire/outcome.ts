import type { Lease } from "../lease/lease.ts";
import type { Refusal } from "../refusal/refusal.ts";

/** The tokens were taken. */
export interface Granted<Name extends string = string> {
  /** Always true. */
  readonly ok: true;
  /** The tokens, to be settled or given back. */
  readonly lease: Lease<Name>;
}

/** The answer to a request: a lease, or why it was refused. */
export type Outcome<Name extends string = string> = Granted<Name> | Refusal;
