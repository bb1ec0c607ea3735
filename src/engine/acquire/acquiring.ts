import type { LimitSource } from "../../domain/config/config.ts";
import type { Limit } from "../../domain/limits/limit.ts";
import type { Lease } from "../lease/lease.ts";
import type { Refusal } from "../refusal/refusal.ts";
import type { AcquireRequest } from "./request.ts";

/** The tokens were taken. */
export interface Granted<Name extends string = string> {
  /** Always true. */
  readonly ok: true;
  /** The tokens, to be settled or given back. */
  readonly lease: Lease<Name>;
}

/** The answer to a request: a lease, or why it was refused. */
export type Outcome<Name extends string = string> = Granted<Name> | Refusal;

/** The methods that middleware and adapters call. `RateLimiter` and `LimiterClient` have them. */
export interface Acquiring {
  /** Takes the tokens and answers a lease, or throws `RateLimitExceeded`. */
  acquire(request: AcquireRequest): Promise<Lease>;
  /** Takes the tokens, or answers why it cannot. */
  tryAcquire(request: AcquireRequest): Promise<Outcome>;
  /** Takes the tokens and runs the function; settles when it returns, gives back when it throws. */
  withLease<Value>(request: AcquireRequest, body: (lease: Lease) => Value | Promise<Value>): Promise<Value>;
  /** The limits of an entity on a resource, and the level that they come from. */
  resolveLimits(
    entityId: string,
    resource: string,
  ): Promise<{ readonly limits: readonly Limit[]; readonly source: LimitSource }>;
}
