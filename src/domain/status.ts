import type { LimitKind } from "./limit-kind.ts";

/** How one limit of one entity stood when it was asked for. Whole tokens; `available` is negative in debt. */
export interface Status {
  readonly entityId: string;
  readonly resource: string;
  /** The limit's name. */
  readonly limit: string;
  readonly available: number;
  readonly capacity: number;
  readonly requested: number;
  readonly exceeded: boolean;
  readonly kind: LimitKind;
  /** Measured, never a reason to refuse. */
  readonly soft: boolean;
  /** When a quota is full again by itself; absent for what drips and for a session that has not begun. */
  readonly resetsAtMs?: number;
  /**
   * Milliseconds until this limit alone would grant the request; 0 when it fits, `Infinity` when it never will. Of the
   * primary status of a refusal: until the whole request fits, the same as the refusal's own.
   */
  readonly retryAfterMs: number;
}
