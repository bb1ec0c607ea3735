import type { LimitKind } from "./limit-kind.ts";

/** How one limit of one entity stood when it was asked for. Whole tokens, rounded down; `available` is negative in debt. */
export interface Status {
  /** Whose limit: the entity that asked, or a parent of it. */
  readonly entityId: string;
  /** On which resource. */
  readonly resource: string;
  /** The limit's name. */
  readonly limit: string;
  /** The measure that it counts; its name, unless it was set to count another. */
  readonly counts: string;
  /** Whole tokens, rounded down; negative in debt, however small the debt. */
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
  /**
   * When the bucket was looked at, where that was not for this request: the refusal is from memory (`denyMemoryMs`), or the bucket
   * could not be reached. Absent: for this request.
   */
  readonly asOfMs?: number;
}

/** Why a limit stands in the way, in words. One that owes refuses a request for 0 too. */
export function shortfallText({
  limit,
  entityId,
  available,
  requested,
}: Pick<Status, "limit" | "entityId" | "available" | "requested">): string {
  if (available >= 0) return `${limit} of ${entityId} has ${available} left, ${requested} requested`;
  return `${limit} of ${entityId} is ${-available} in debt, ${requested} requested; nothing is granted until the debt is refilled`;
}
