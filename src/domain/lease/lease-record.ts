import type { Amount } from "../charge/amounts.ts";
import type { Limit } from "../limits/limit.ts";
import type { SetOrigin } from "../limits/limit-set.ts";
import type { Holding } from "./holding.ts";

/** What becomes of what is held when nobody ends a lease in time: it stays charged, or is given back. */
export type OnExpiry = "charge" | "refund";

/** Where a stored lease stands: only an open one can be changed. */
export type StoredLeaseStatus = "open" | "settled" | "rolledBack" | "expired";

/** What one limit held when the lease last took from it. Whole tokens. */
export interface SeenLimit {
  readonly limit: string;
  /** Negative in debt. */
  readonly available: number;
  readonly capacity: number;
}

/** One level of a chain that a lease was taken from, with the limits it was taken under. */
export interface LeaseLevel {
  readonly entityId: string;
  /** Its limits over all resources, in a bucket of their own. Absent: those on the resource. */
  readonly total?: true;
  readonly limits: readonly Limit[];
  /** Names of those that the lease is charged to: a parent's may be for callers only. Absent: all. */
  readonly charged?: readonly string[];
  readonly origin: SetOrigin;
  /** Let through by a bypass: only usage knows of it. */
  readonly bypass: boolean;
  /** Empty where nothing was taken at the start. */
  readonly seen: readonly SeenLimit[];
  /** What was asked of shadow limits that would have refused it: it is shown as consumed, and was not charged. Absent: nothing. */
  readonly passed?: readonly Amount[];
}

/** One resource of a lease; its levels from the entity upwards. */
export interface LeaseResourceRecord {
  readonly resource: string;
  readonly levels: readonly LeaseLevel[];
  /** Soft limits of all levels that were below zero when they were last seen: `day`, one level up `day^1`. */
  readonly overdrawn: readonly string[];
}

/** What a lease holds of one of its buckets with one ticket. */
export interface LeaseHolding extends Holding {
  /** Which resource of the lease, and which level of it. */
  readonly at: readonly [resource: number, level: number];
}

/** How a lease was closed, and when. */
interface LeaseClosing {
  readonly atMs: number;
  /** What it was closed with, as a text to compare a repeat by; empty where time closed it. */
  readonly by: string;
}

/**
 * A lease as a store keeps it: a value that is replaced as a whole. Of two writers that replace the same version one wins.
 */
export interface LeaseRecord {
  readonly leaseId: string;
  /** 1 when it is created; one more with every change. */
  readonly version: number;
  /** Of the write that made this version: by it a writer knows its own write again when the answer was lost. */
  readonly writer: string;
  readonly status: StoredLeaseStatus;
  readonly entityId: string;
  /** The resource of the request first. */
  readonly resources: readonly LeaseResourceRecord[];
  readonly holdings: readonly LeaseHolding[];
  readonly openedAtMs: number;
  readonly expiresAtMs: number;
  readonly onExpiry: OnExpiry;
  /** Undefined while it is open. */
  readonly closing: LeaseClosing | undefined;
  /**
   * What the change to this version takes out of `holdings`, and may not have been given back: it is written only when an answer
   * was lost. Whoever moves the record to a version without it gives it back, and nobody else.
   */
  readonly owed?: readonly LeaseHolding[];
  /** What its request had to leave, and what it consumes further has to: so many percent of every limit. Absent: nothing. */
  readonly leavePercent?: number;
  /**
   * Until then somebody may be renewing its slots, whose tickets are not certain before it says so: whoever wants to change it waits.
   * Absent: nobody is. Only on stores that do not change a record together with its buckets.
   */
  readonly renewingUntilMs?: number;
  /** As the request had them. */
  readonly requestId: string | undefined;
  readonly idempotencyKey: string | undefined;
}

/** How long a lease is remembered after it was closed, and an answer under its idempotency key. */
export const LEASE_REMEMBERED_MS = 24 * 3_600_000;

/** From when on somebody has to look after a lease: to end it, or to give back what it owes. Undefined: there is nothing to do. */
export function dueAtMs({ owed, closing, openedAtMs, expiresAtMs }: LeaseRecord): number | undefined {
  if (owed !== undefined) return closing?.atMs ?? openedAtMs;
  return closing === undefined ? expiresAtMs : undefined;
}

/** From when on a closed lease is as if it had never been; undefined while it is open. */
export function forgottenAtMs({ closing }: Pick<LeaseRecord, "closing">): number | undefined {
  return closing === undefined ? undefined : closing.atMs + LEASE_REMEMBERED_MS;
}
