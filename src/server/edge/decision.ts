import type { LimitStanding } from "../../domain/charge/rate-limit-headers.ts";
import type { LimiterError } from "../../domain/names/errors.ts";
import type { CallPart } from "../../edge/plan-call.ts";
import type { Refusal } from "../../engine/refusal/refusal.ts";
import type { Problem } from "../problem.ts";

export interface CallRefusal {
  /** A `code` of the library or of the service. */
  readonly code: string;
  /** Undefined: it is not known when the call would be granted. */
  readonly retryAfterMs: number | undefined;
  /** The refusal of limits; undefined: something else refused. */
  readonly limits: Refusal | undefined;
  /** The error that says it; undefined for a refusal of limits that were only looked at. */
  readonly error: LimiterError | Problem;
}

export interface Decision {
  /** Undefined: it is granted. */
  readonly refusal: CallRefusal | undefined;
  /** The parts of which something was taken or looked at, or would have been. */
  readonly parts: readonly CallPart[];
  /** The indexes of the descriptors that stood in the way. */
  readonly over: ReadonlySet<number>;
  /** The standings of the limits, of every part. */
  readonly standings: readonly LimitStanding[];
  /** Undefined: the call opened none. */
  readonly leaseId: string | undefined;
  /** Why the call was let through without being counted; undefined: it was counted. */
  readonly degraded: string | undefined;
}

/** A call that is granted, of which nothing is told. */
export const GRANTED: Decision = {
  refusal: undefined,
  parts: [],
  over: new Set(),
  standings: [],
  leaseId: undefined,
  degraded: undefined,
};
