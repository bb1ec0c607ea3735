import type { Amount } from "../domain/charge/amounts.ts";
import type { LeaseRecord } from "../domain/lease/lease-record.ts";
import type { Answer, Claim, Held, RenewReply, TakenAnswer, WriteReply } from "./bucket-store.ts";
import type { KeyFinish, KeyMark } from "./lease-write.ts";

/** Amounts that are debited from, or given back to, one bucket. */
export interface Movement {
  readonly held: Held;
  readonly amounts: readonly Amount[];
  /** Of a credit; see `CreditContext.slotsUsed`. */
  readonly slotsUsed?: true;
  /** Of a credit: why, where that is not why the lease is changed. Slots come back when the work is done. */
  readonly reason?: "settle";
  /** Of a renewal: the change is made without it where it is lost. The limit refuses nothing. */
  readonly isOptional?: true;
}

/**
 * What a change of a lease does to buckets: it takes more if all of it is there, renews slots if they are still held, or moves differences,
 * which nothing refuses.
 */
export type LeaseMoves =
  | { readonly kind: "take"; readonly claims: readonly Claim[] }
  | { readonly kind: "renew"; readonly renewals: readonly Movement[] }
  | { readonly kind: "difference"; readonly debits: readonly Movement[]; readonly credits: readonly Movement[] };

/** What was taken for a change: the answers of its claims, of its renewals, or of its debits, in order. */
export type Charged =
  | { readonly kind: "take"; readonly taken: readonly TakenAnswer[] }
  | { readonly kind: "renew"; readonly renewed: readonly RenewReply[] }
  | { readonly kind: "difference"; readonly debited: readonly AppliedWrite[] };

export type AppliedWrite = Extract<WriteReply, { readonly kind: "applied" }>;

/** What becomes of a debit in a transaction. */
export type Debited = Extract<WriteReply, { readonly kind: "applied" | "tooDeep" }>;

/** A change of a stored lease: its buckets, its record and the answer under its key, all of them or none. */
export interface LeaseChange {
  readonly leaseId: string;
  /** The version that it replaces. */
  readonly version: number;
  /** Of the version that it makes: a repeat of a change that was applied unseen is known by it. */
  readonly writer: string;
  /** Must still be the caller's, or nothing is changed. */
  readonly key: KeyMark | undefined;
  readonly moves: LeaseMoves;
  /** What is written down, made of what was taken, inside the transaction. */
  writeOf(charged: Charged): ChangeWrite;
}

/** The lease as it is after a change, and the answer under its key. */
interface ChangeWrite {
  readonly record: LeaseRecord;
  readonly finish: KeyFinish | undefined;
}

/**
 * What became of a change.
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
