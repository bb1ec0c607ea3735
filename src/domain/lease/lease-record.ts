import type { Amount } from "../charge/amounts.ts";
import type { CallerAmount } from "../charge/caller-usage.ts";
import type { Limit } from "../limits/limit.ts";
import type { SetOrigin } from "../limits/limit-set.ts";
import type { Holding } from "./holding.ts";

/** The fate of what is held when nobody ends a lease in time: it stays charged, or is given back. */
export type OnExpiry = "charge" | "refund";

/** The status of a stored lease: only an open one can be changed. */
export type StoredLeaseStatus = "open" | "settled" | "rolledBack" | "expired";

/** The balance of one limit when the lease last took from it. Whole tokens. */
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
  /** The amounts asked of shadow limits that would have refused them: they are shown as consumed, and were not charged. Absent: none. */
  readonly passed?: readonly Amount[];
}

/** One resource of a lease; its levels from the entity upwards. */
export interface LeaseResourceRecord {
  readonly resource: string;
  readonly levels: readonly LeaseLevel[];
  /** Soft limits of all levels that were below zero when they were last seen: `day`, one level up `day^1`. */
  readonly overdrawn: readonly string[];
  /** What is counted beside the buckets, by measure. Absent: nothing is. */
  readonly beside?: readonly CallerAmount[];
}

/** A holding, and the bucket of the lease that it is of. */
export interface LeaseHolding extends Holding {
  readonly at: readonly [resource: number, level: number];
}

interface LeaseClosing {
  readonly atMs: number;
  /** The request that closed it, as a text to compare a repeat by; empty where time closed it. */
  readonly by: string;
}

/**
 * A lease as a store keeps it: a value that is replaced as a whole. Of two writers that replace the same version one wins.
 */
export interface LeaseRecord {
  readonly leaseId: string;
  /** 1 when it is created; one more with every change. */
  readonly version: number;
  /** The writer of this version, which knows its own write again by it when the answer was lost. */
  readonly writer: string;
  readonly status: StoredLeaseStatus;
  readonly entityId: string;
  /** The resource of the request first. */
  readonly resources: readonly LeaseResourceRecord[];
  readonly holdings: readonly LeaseHolding[];
  readonly openedAtMs: number;
  readonly expiresAtMs: number;
  readonly onExpiry: OnExpiry;
  readonly closing: LeaseClosing | undefined;
  /**
   * Holdings that the change to this version has taken out, and that may not have been given back: it is written only when an answer was
   * lost. The process that moves the record to a version without it gives them back, and no other.
   */
  readonly owed?: readonly LeaseHolding[];
  /** Percent of every limit that its request had to leave, and that what it consumes further must leave. Absent: none. */
  readonly leavePercent?: number;
  /**
   * Until this instant a process may be renewing its slots, whose tickets are not certain before: other changes wait. Absent: none is. Only
   * on stores that do not change a record together with its buckets.
   */
  readonly renewingUntilMs?: number;
  readonly requestId: string | undefined;
  readonly idempotencyKey: string | undefined;
}

/** A lease is remembered for so long after it was closed, and an answer under its idempotency key. */
export const LEASE_REMEMBERED_MS = 24 * 3_600_000;

/** The instant at which a lease must be ended, or must give back what it owes. Undefined: there is nothing to do. */
export function dueAtMs({ owed, closing, openedAtMs, expiresAtMs }: LeaseRecord): number | undefined {
  if (owed !== undefined) return closing?.atMs ?? openedAtMs;
  return closing === undefined ? expiresAtMs : undefined;
}

/** The instant from which a closed lease is as if it had never been; undefined while it is open. */
export function forgottenAtMs({ closing }: Pick<LeaseRecord, "closing">): number | undefined {
  return closing === undefined ? undefined : closing.atMs + LEASE_REMEMBERED_MS;
}
