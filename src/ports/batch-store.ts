import type { BucketKey } from "../domain/bucket/bucket-key.ts";
import type { CountedAmount } from "../domain/charge/amounts.ts";
import type { AuditEvent } from "../domain/config/audit.ts";
import type { Page, PageRequest } from "../domain/names/paging.ts";
import type { BucketOwner, DraftData, KeyMark } from "./bucket-store.ts";
import type { TouchedNames } from "./record-store.ts";

/** One limit of a bucket as a store works with it on the straight line between two boundaries. */
export interface StraightLevel {
  /** The name of the limit; for slots that are held also their end. */
  readonly name: string;
  readonly capacityMilli: number;
  readonly refillAmountMilli: number;
  readonly refillPeriodMs: number;
  /** The limit refuses nothing; below zero it counts an overdraft. */
  readonly soft: boolean;
  /** The length of the window that the first use of a session opens. 0: it is none. -1: these are slots that are held, which nobody counts. */
  readonly windowMs: number;
  readonly tokensMilli: number;
  readonly remainder: number;
  /** The count of the open hour; null: none. */
  readonly countedMilli: number | null;
  readonly windowStartMs: number | null;
  readonly topUpMilli: number;
  readonly resets: number;
}

/** A bucket as a store keeps it. All numbers are safe integers; null stands for "never" or "none". */
export interface StraightRow {
  /** Rows with the same signature have the same limits in the same order. */
  readonly signature: string;
  /** `Shape.text`. */
  readonly limitsText: string;
  readonly epochMs: number;
  /** A take from this instant on brings the row there first. */
  readonly renewAtMs: number;
  readonly validUntilMs: number | null;
  /** The instant of the last write that went by limits which may be older than the store's. */
  readonly writtenMs: number | null;
  readonly asOfMs: number;
  readonly generation: number | null;
  /** The number of the newest change of stored limits that the bucket has gone through. */
  readonly metNumber: number;
  readonly hourMs: number;
  readonly requests: number;
  readonly levels: readonly StraightLevel[];
}

/** A row with a number that grows with every write, and no other row of the same key ever had. */
export interface VersionedRow extends StraightRow {
  readonly version: number;
  /** The marks of what was told of its limits, as text (straight/row-codec.ts); null: none. Only `mark` changes them. */
  readonly marks: string | null;
}

/** Usage of one hour for its table, by counter. */
export interface LeftUsage {
  readonly hourMs: number;
  readonly requests: number;
  readonly amounts: readonly CountedAmount[];
}

/** A row that replaces one of this version before the batch; 0: where there is none. It contains no take. */
interface Brought {
  readonly version: number;
  readonly row: StraightRow;
  readonly left: readonly LeftUsage[];
}

export interface BatchBucket {
  readonly key: BucketKey;
  readonly brought: BatchBrought | undefined;
}

interface BatchBrought extends Brought {
  /** The place of the request that it was worked out for: where that is `stale`, `clock` or `keyLost`, nothing is brought. */
  readonly request: number;
}

/** The level of a row that is a shadow, and the one in which what is taken of it is held; undefined: nothing is held. */
export interface ShadowPlace {
  readonly place: number;
  readonly slice: number | undefined;
}

/** The change of one bucket by one request; its amounts are by the place of the level in the row. */
export interface BatchClaim {
  /** The place of the bucket in the batch. */
  readonly bucket: number;
  /** The row must be of these limits, or the request is answered `again`. */
  readonly signature: string;
  /** The row must have gone through changes up to this number; -1: whatever it went through. */
  readonly changeNumber: number;
  /** The row must be of this origin, where that was decisive. */
  readonly origin: { readonly asOfMs: number; readonly generation: number | null } | undefined;
  /** Null: nothing is asked of that level. Below 0: slots that a take adds to those that are held. */
  readonly amounts: readonly (number | null)[];
  /**
   * The claim of a take with nothing besides its signature, number of change and amounts, on limits that all refuse, drip or begin anew by the calendar: it
   * does not matter to the row whether it comes by itself or summed with others of the same reading.
   */
  readonly isSummable: boolean;
  readonly bypass: boolean;
  /** Percent of every limit that a take takes from, but for soft ones, that must be left. */
  readonly leavePercent: number;
  /** The limits that let a take pass where they do not have enough, and then give and count nothing. */
  readonly shadows: readonly ShadowPlace[];
  /** The period or slice in which each amount of a credit or renewal was taken. Undefined: all are given back. */
  readonly pins: readonly LevelPin[] | undefined;
  /** The instant for which pins were decided, or into which slice slots go; a row of a later epoch is answered `again`. Null: any will do. */
  readonly judgedMs: number | null;
  /**
   * Counted beside the amounts once the request is applied; also where the bucket of a credit is forgotten (`lost`). Not the time of
   * slots (`#hu` of their limit) that the slice of their pin no longer has.
   */
  readonly strays: readonly CountedAmount[];
  /** The usage that a credit counts where the bucket is forgotten. */
  readonly lost: LeftUsage | undefined;
}

export interface BatchPin {
  readonly resets: number;
  readonly windowStartMs: number | null;
}

/** `skip`: it is not given back; `skipUsed`: and usage keeps it. Undefined: it is given back whatever the period. */
export type LevelPin = BatchPin | SlicePin | "skip" | "skipUsed" | undefined;

/**
 * Of slots. `from`: what is given back was held in this level, which loses it; where it has less, nothing is given back. `isUsed`: usage
 * keeps it. `into`: what is held in this level is held in that one from now on; where it has less, the request is answered `gone`.
 */
type SlicePin = { readonly from: number; readonly isUsed: boolean } | { readonly into: number };

/**
 * All its claims or none. A debit, a credit and a renewal have one claim each. A renewal moves slots that are held from one level to
 * another.
 */
export interface BatchRequest {
  readonly kind: "take" | "debit" | "credit" | "renew";
  readonly nowMs: number;
  /** The generation that configuration must be of; undefined: any. */
  readonly generation: number | undefined;
  /** The request goes by limits that may be older than the store's: the instant is noted on the row. */
  readonly isNoted: boolean;
  readonly claims: readonly BatchClaim[];
  /** The draft that is written with a take once it is applied. */
  readonly draft: BatchLease | undefined;
}

/** A lease, the answer under a key, or both: as data, with what the take has answered. */
export interface BatchLease extends DraftData {
  /** The key must still be the caller's, or nothing is done. */
  readonly key: KeyMark | undefined;
}

/** A draft as it is written, in place of the record of a lease, and of the answer under a key. `LeaseForm` tells what it stands for. */
export interface DraftedLease {
  readonly leaseId: string | undefined;
  readonly text: string;
  readonly nowMs: number;
  /** One a claim: the row as the batch left it, with its limits, and what the claim left. */
  readonly buckets: readonly { readonly key: BucketKey; readonly row: SeenRow; readonly levels: ClaimLevels }[];
}

/** Requests of one namespace that are done one after the other in one transaction. */
export interface Batch {
  readonly namespaceId: string;
  readonly lane: string;
  /** Grows by 1 with every batch of the lane that is not a repeat. */
  readonly seq: number;
  /** The batch may be under way already. What becomes of this one is remembered, also where nothing is done: the other is not done after it. */
  readonly isRepeat: boolean;
  /** Distinct. */
  readonly buckets: readonly BatchBucket[];
  readonly requests: readonly BatchRequest[];
  readonly countsUsage: boolean;
  /** A reading that is further ahead of the store's own clock is refused; undefined: readings are not compared. */
  readonly aheadMaxMs: number | undefined;
  /** Names that its requests go by, beside the entities and resources of its buckets. Requests are `stale` only if a change touched one of them all. */
  readonly goesBy: readonly string[];
}

/** The levels that a claim left, or found where nothing was taken: by the place of the limit. */
export interface ClaimLevels {
  readonly tokensMilli: readonly number[];
  /** The windows, where one of the limits is a session. */
  readonly windows: readonly (number | null)[] | undefined;
  readonly validUntilMs: number | null | undefined;
  /** The places of the shadows that would have refused the claim: nothing was taken of them. Absent: none. */
  readonly shadowed?: readonly number[];
}

/**
 * The outcome of a request.
 * - `again`: a row is not as the request expects it; the answer has the row, and nothing was done.
 * - `gone`: of a credit, there is no bucket. `tooDeep`: as of `WriteReply`. `stale`: configuration has moved on.
 * - `clock`: the reading is ahead of the store's clock. `keyLost`: the key of its draft is no longer the caller's.
 */
export type RequestReply =
  | { readonly kind: "applied"; readonly claims: readonly (ClaimLevels | null)[] }
  | { readonly kind: "short"; readonly short: readonly boolean[]; readonly claims: readonly (ClaimLevels | null)[] }
  | { readonly kind: "stale" | "again" | "gone" | "tooDeep" | "clock" | "keyLost" };

/** A row as the batch left it; `limitsText` is absent where the signature is that of a claim or of what was brought. */
export interface SeenRow extends Omit<VersionedRow, "limitsText" | "levels"> {
  readonly limitsText: string | undefined;
  readonly tokensMilli: readonly number[];
  readonly remainders: readonly number[];
  readonly countedMilli: readonly (number | null)[];
  readonly windows: readonly (number | null)[];
  readonly topUpsMilli: readonly number[];
  readonly resets: readonly number[];
}

/**
 * `superseded`: a later batch of the lane was done already; this one was not done now.
 * `rolledBack`: nothing was done for the sake of others; the same batch may be sent again.
 */
export type BatchReply =
  | {
      readonly kind: "done";
      /** The batch was done before, unseen: these are the answers of then. */
      readonly repeated: boolean;
      readonly generation: number;
      /** The changes since the oldest generation of its requests; undefined: they are all of the one that there is. */
      readonly changes: TouchedNames | undefined;
      /** The store's clock. */
      readonly serverMs: number;
      /** The rows by the place of the bucket; null: there is none. */
      readonly rows: readonly (SeenRow | null)[];
      readonly replies: readonly RequestReply[];
    }
  | { readonly kind: "superseded" }
  | { readonly kind: "rolledBack"; readonly cause: unknown }
  | { readonly kind: "unavailable"; readonly applied: "no" | "unknown"; readonly cause: unknown };

/** The key by which an operation is remembered. */
export interface OperationKey {
  readonly namespaceId: string;
  readonly bucket: BucketKey;
  readonly idempotencyKey: string;
  /** Operations of this instant or before are forgotten. */
  readonly forgottenMs: number;
}

/** A row that replaces one of a version, once for its key, together with the audit event. */
export interface RowOperation extends OperationKey {
  readonly nowMs: number;
  /** The text that is remembered under the key. */
  readonly amountsText: string;
  readonly event: AuditEvent;
  readonly brought: Brought;
}

/**
 * `known`: the key was used before; `amounts` as text. `moved`: the row is of another version by now. `namespaceGone`: there is no active
 * namespace of this id.
 */
export type RowOperationReply =
  | { readonly kind: "done" }
  | { readonly kind: "known"; readonly amountsText: string }
  | { readonly kind: "moved" | "namespaceGone" };

/** A store that takes in one transaction: by the straight line of `bucket/`, on rows that are compared by version. */
export interface BatchStore {
  /**
   * Never rejects for what a server or a network does. `timeoutMs`: how long the callers wait. It may answer later, but within twice
   * that: what was taken for callers that are gone is given back.
   */
  apply(batch: Batch, timeoutMs: number): Promise<BatchReply>;
  operate(operation: RowOperation): Promise<RowOperationReply>;
  /** The amounts remembered under the key of an operation, as text. */
  operated(key: OperationKey): Promise<string | undefined>;
  /**
   * Swaps what was told of a bucket for something else, if it is still as it was seen; answers whether it was. It makes a new version of
   * the row. Throws `RateLimiterUnavailable`, also where it may have been done.
   */
  mark(
    namespaceId: string,
    key: BucketKey,
    marks: { readonly seen: string | null; readonly next: string },
  ): Promise<boolean>;
  /** Reads rows in the order of the keys; undefined where there is none. Numbers are as they are stored: they may be damaged. */
  read(namespaceId: string, keys: readonly BucketKey[]): Promise<readonly (VersionedRow | undefined)[]>;
  /** Lists keys by entity id, then by resource. */
  listKeys(namespaceId: string, owner: BucketOwner, page: PageRequest): Promise<Page<BucketKey>>;
  /**
   * Lists some buckets from a place on, by entity id, then by resource. Rows of which the epoch is before an instant are read; of the others, which
   * nearly all are where a sweep looks, the key alone.
   */
  some(
    namespaceId: string,
    from: BucketKey,
    bounds: { readonly limitMax: number; readonly epochBeforeMs: number },
  ): Promise<readonly LookedAtBucket[]>;
  /** Deletes buckets that are still of these versions, and keeps their usage; answers how many. */
  forget(namespaceId: string, idle: readonly IdleBucket[]): Promise<number>;
  /** Lists buckets of a resource by entity id. */
  listByResource(namespaceId: string, resource: string, page: PageRequest): Promise<Page<StoredBucket>>;
}

/** A bucket that may be forgotten. */
export interface IdleBucket {
  readonly key: BucketKey;
  readonly version: number;
  /** Usage beside that of its row: counted if the bucket goes. */
  readonly left: readonly LeftUsage[];
}

export interface StoredBucket {
  readonly key: BucketKey;
  readonly row: VersionedRow;
}

export interface LookedAtBucket {
  readonly key: BucketKey;
  readonly row: VersionedRow | undefined;
}
