import type { LimitKind } from "./limit-kind.ts";

/** How one limit of one entity stood when it was asked for. Whole tokens; `available` is negative in debt. */
export interface Status {
  /** Whose limit: the entity that asked, or a parent of it. */
  readonly entityId: string;
  /** On which resource. */
  readonly resource: string;
  /** The limit's name. */
  readonly limit: string;
  /** Whole tokens, negative in debt. */
  readonly available: number;
  /** Whole tokens: the most it holds at present. */
  readonly capacity: number;
  /** Whole tokens. */
  readonly requested: number;
  /** Whether it had too little. */
  readonly exceeded: boolean;
  /** How it is filled again. */
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
