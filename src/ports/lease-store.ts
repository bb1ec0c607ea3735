import type { BucketState } from "../domain/bucket/bucket-state.ts";
import type { Amount } from "../domain/charge/amounts.ts";
import type { LeaseRecord } from "../domain/lease/lease-record.ts";
import type { Page, PageRequest } from "../domain/names/paging.ts";
import type {
  Answer,
  CallContext,
  Claim,
  Held,
  KeyFinish,
  KeyMark,
  LeaseWrite,
  MaybePromise,
  RenewReply,
  TakenAnswer,
  WriteReply,
} from "./bucket-store.ts";

/** Amounts that are debited from, or given back to, one bucket. */
export interface Movement {
  readonly held: Held;
  readonly amounts: readonly Amount[];
  /** The slots of a credit were used; see `CreditContext.slotsUsed`. */
  readonly slotsUsed?: true;
  /** The reason of a credit, where it is not that of the change. Slots come back when the work is done. */
  readonly reason?: "settle";
  /** The change is made without this renewal where it is lost. The limit refuses nothing. */
  readonly isOptional?: true;
}

/** The moves of a change of a lease: it takes more if all of it is there, renews slots if they are still held, or moves differences. */
export type LeaseMoves =
  | { readonly kind: "take"; readonly claims: readonly Claim[] }
  | { readonly kind: "renew"; readonly renewals: readonly Movement[] }
  | { readonly kind: "difference"; readonly debits: readonly Movement[]; readonly credits: readonly Movement[] };

/** The answers of the claims of a change, of its renewals, or of its debits, in order. */
export type Charged =
  | { readonly kind: "take"; readonly taken: readonly TakenAnswer[] }
  | { readonly kind: "renew"; readonly renewed: readonly RenewReply[] }
  | { readonly kind: "difference"; readonly debited: readonly AppliedWrite[] };

export type AppliedWrite = Extract<WriteReply, { readonly kind: "applied" }>;

/** The outcome of a debit in a transaction. */
export type Debited = Extract<WriteReply, { readonly kind: "applied" | "tooDeep" }>;

/** A change of a stored lease: its buckets, its record and the answer under its key, all of them or none. */
export interface LeaseChange {
  readonly leaseId: string;
  /** The version that it replaces. */
  readonly version: number;
  /** The writer of the version that it makes: a repeat of a change that was applied unseen is known by it. */
  readonly writer: string;
  /** The key must still be the caller's, or nothing is changed. */
  readonly key: KeyMark | undefined;
  readonly moves: LeaseMoves;
  /** Makes the write of what was taken, inside the transaction. */
  writeOf(charged: Charged): ChangeWrite;
}

/** The lease as it is after a change, and the answer under its key. */
interface ChangeWrite {
  readonly record: LeaseRecord;
  readonly finish: KeyFinish | undefined;
}

/**
 * The outcome of a change.
 * - `repeated`: it was applied before, unseen; nothing was changed now.
 * - `short`: what was to be taken is not there; nothing was changed.
 * - `lost`: slots that were to be renewed are held no more; nothing was changed.
 * - `tooDeep`: a debit would leave a debt too deep to be exact; nothing was changed.
 * - `conflict`, `keyLost`: as of `LeaseReply`.
 */
export type ChangeReply =
  | { readonly kind: "stored"; readonly credited: readonly WriteReply[] }
  | { readonly kind: "repeated" }
  | { readonly kind: "short"; readonly answers: readonly Answer[] }
  | { readonly kind: "lost"; readonly renewal: Movement }
  | { readonly kind: "tooDeep"; readonly debit: Movement }
  | { readonly kind: "conflict" }
  | { readonly kind: "keyLost" }
  | { readonly kind: "unavailable"; readonly applied: "no" | "unknown"; readonly cause: unknown };

/** The record of an idempotency key. */
export interface KeyRecord extends KeyMark {
  /** The fingerprint of the request that it was first used with. */
  readonly fingerprint: string;
  /** Undefined while the work is under way. */
  readonly answer: string | undefined;
  /** The work counts as under way up to this instant without a further sign of life. */
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
 * The outcome of a write.
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

/** The leases that are wanted; absent: all. */
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
  /** Lists leases that are open as stored; also those whose time is up but whose end is not written yet. */
  listOpen(filter: LeaseFilter, page: PageRequest): MaybePromise<Page<LeaseRecord>>;
  /** Finds some leases that were due at `nowMs` (`dueAtMs`), the oldest first where the store can tell. */
  findDue(nowMs: number, limitMax: number): MaybePromise<readonly DueLease[]>;
  /** Takes a key that is new, forgotten, or whose work has died. */
  beginKey(begin: KeyBegin): MaybePromise<BeginReply>;
  /** Says that the work goes on. Answers whether the key is still the caller's. */
  renewKey(mark: KeyMark, times: { readonly nowMs: number; readonly untilMs: number }): MaybePromise<boolean>;
  /** Frees the key of work that was refused or failed. Nothing happens where it is no longer the caller's. */
  releaseKey(mark: KeyMark, nowMs: number): MaybePromise<void>;
}

/** The reader of drafts that were written as data; handed to a store when it is opened. */
export interface LeaseForm {
  /** Makes the write that the take would have made: the same at any time and in any process. */
  writeOf(draft: { readonly leaseId: string | undefined; readonly text: string }, taken: DraftedTake): LeaseWrite;
}

/** The outcome of the take of a draft. */
export interface DraftedTake {
  /** The reading that it went by. */
  readonly nowMs: number;
  /** The bucket right after it, by the id of the bucket. */
  stateOf(bucketId: string): BucketState;
  /** The shadows that would have refused it, by the id of the bucket. */
  shadowedOf(bucketId: string): readonly string[];
}
