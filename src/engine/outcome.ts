import type { Lease } from "./lease.ts";
import type { Refusal } from "./refusal.ts";

export interface Granted<Name extends string = string> {
  readonly ok: true;
  readonly lease: Lease<Name>;
}

/** What became of a request: a lease, or why it was refused. */
export type Outcome<Name extends string = string> = Granted<Name> | Refusal;
