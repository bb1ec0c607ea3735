import type { LeaseRecord } from "../domain/lease/lease-record.ts";
import type { Page, PageRequest } from "../domain/names/paging.ts";
import type { CallContext, MaybePromise } from "./bucket-store.ts";
import type { ChangeReply, LeaseChange } from "./lease-change.ts";
import type { KeyFinish, KeyMark, LeaseWrite } from "./lease-write.ts";

/** What is known of an idempotency key. */
export interface KeyRecord extends KeyMark {
  /** Of the request it was first used with. */
  readonly fingerprint: string;
  /** Undefined while the work is under way. */
  readonly answer: string | undefined;
  /** Until when the work counts as under way without a further sign of life. */
  readonly untilMs: number;
}

export interface KeyBegin extends KeyMark {
  readonly fingerprint: string;
  readonly nowMs: number;
  readonly untilMs: number;
}

/** `begun`: the key is the caller's. `known`: it was used before, and is under way or answered. */
export type BeginReply = { readonly kind: "begun" } | { readonly kind: "known"; readonly record: KeyRecord };

/**
 * What became of a write.
 * - `conflict`: the record has another version by now, or is gone; nothing was written.
 * - `keyLost`: the key is no longer the caller's; nothing was written.
 */
export type LeaseReply =
  | { readonly kind: "stored" }
  | { readonly kind: "conflict" }
  | { readonly kind: "keyLost" }
  | { readonly kind: "unavailable"; readonly applied: "no" | "unknown"; readonly cause: unknown };

/** A lease that is to be ended, or owes something. */
export interface DueLease {
  readonly leaseId: string;
  readonly dueAtMs: number;
}

/** Which leases are wanted; absent: all. */
export interface LeaseFilter {
  readonly entityId?: string;
  readonly resource?: string;
}

/**
 * Leases of one namespace, and the idempotency keys they were asked with. A store writes down the tickets of its own buckets
 * and reads them back as they were, also after a restart. What is closed, and a key, is forgotten after
 * `LEASE_REMEMBERED_MS`; when it is deleted is the store's business. A repeat of a write that was applied unseen answers `stored`:
 * a record is known by its writer, an answer by its mark. Calls throw `RateLimiterUnavailable` where no reply says so.
 */
export interface LeaseStore {
  /** Whether `BucketStore.take` writes what `TakeContext.lease` drafts in its own transaction; then `create` is not called. */
  readonly isWrittenByTake: boolean;
  /** Writes a new record, the answer under its key, or both or neither. */
  create(write: LeaseWrite, nowMs: number): MaybePromise<LeaseReply>;
  get(leaseId: string): MaybePromise<LeaseRecord | undefined>;
  /**
   * Replaces the version before this one; with `finish` in one step with the answer under a key. One that owes something also
   * replaces the same version of the same writer: that says afterwards what it owes.
   */
  move(next: LeaseRecord, finish: KeyFinish | undefined, nowMs: number): MaybePromise<LeaseReply>;
  /**
   * Changes a lease together with the buckets it was taken from. Only of a store whose transaction covers both; on others the
   * caller debits before it moves the record, and credits after it.
   */
  change?(change: LeaseChange, context: CallContext): MaybePromise<ChangeReply>;
  /** Leases that are open as stored; also those whose time is up but whose end nobody has written yet. */
  listOpen(filter: LeaseFilter, page: PageRequest): MaybePromise<Page<LeaseRecord>>;
  /** Some leases that were due at `nowMs` (`dueAtMs`), the oldest first where the store can tell. */
  findDue(nowMs: number, limitMax: number): MaybePromise<readonly DueLease[]>;
  /** Takes a key that is new, forgotten, or whose work has died. */
  beginKey(begin: KeyBegin): MaybePromise<BeginReply>;
  /** The work goes on. Answers whether the key is still the caller's. */
  renewKey(mark: KeyMark, times: { readonly nowMs: number; readonly untilMs: number }): MaybePromise<boolean>;
  /** The work was refused or failed: the key may be used anew. Nothing where it is no longer the caller's. */
  releaseKey(mark: KeyMark, nowMs: number): MaybePromise<void>;
}
