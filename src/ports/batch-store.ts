import type { BucketKey } from "../domain/bucket/bucket-key.ts";
import type { CountedAmount } from "../domain/charge/amounts.ts";
import type { AuditEvent } from "../domain/config/audit.ts";
import type { Page, PageRequest } from "../domain/names/paging.ts";
import type { BucketOwner, DraftData } from "./bucket-store.ts";
import type { KeyMark } from "./lease-write.ts";

/** One limit of a bucket as a store works with it on the straight line between two boundaries. */
export interface StraightLevel {
  /** Of the limit; of slots that are held also until when. */
  readonly name: string;
  readonly capacityMilli: number;
  readonly refillAmountMilli: number;
  readonly refillPeriodMs: number;
  /** Never a reason to refuse; below zero it counts an overdraft. */
  readonly soft: boolean;
  /** Of a session: the first use opens a window of this length. 0: it is none. -1: these are slots that are held, which nobody counts. */
  readonly windowMs: number;
  readonly tokensMilli: number;
  readonly remainder: number;
  /** What was counted in the open hour; null: nothing. */
  readonly countedMilli: number | null;
  readonly windowStartMs: number | null;
  readonly topUpMilli: number;
  readonly resets: number;
}

/** A bucket as a store keeps it. All numbers are safe integers; null stands for "never" or "none". */
export interface StraightRow {
  /** Of `limitsText`: two rows with the same have the same limits in the same order. */
  readonly signature: string;
  /** `Shape.text`. */
  readonly limitsText: string;
  readonly epochMs: number;
  /** From then on nothing is taken from the row as it is: it is brought there first. */
  readonly renewAtMs: number;
  readonly validUntilMs: number | null;
  /** The last write that went by limits which may be older than the store's. */
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
  /** What was told of its limits, as text (straight/row-marks.ts); null: nothing. Only `mark` changes it. */
  readonly marks: string | null;
}

/** Usage for its table: by counter, of one hour. */
export interface LeftUsage {
  readonly hourMs: number;
  readonly requests: number;
  readonly amounts: readonly CountedAmount[];
}

/** What a row is to be before the batch, if it is still of this version; 0: if there is none. It contains no take. */
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
  /** The request that it was worked out for, by its place: where that is `stale`, `clock` or `keyLost`, nothing is brought. */
  readonly request: number;
}

/** Which level of a row is a shadow, and in which what is taken of it is held; undefined: nothing is held. */
export interface ShadowPlace {
  readonly place: number;
  readonly slice: number | undefined;
}

/** What one request does to one bucket; its amounts are by the place of the level in the row. */
export interface BatchClaim {
  /** By its place in the batch. */
  readonly bucket: number;
  /** The row must be of these limits, or the request is answered `again`. */
  readonly signature: string;
  /** And must have gone through changes up to this number; -1: whatever it went through. */
  readonly changeNumber: number;
  /** And, where that was decisive, of this origin. */
  readonly origin: { readonly asOfMs: number; readonly generation: number | null } | undefined;
  /** Null: nothing is asked of that level. Below 0: slots that a take adds to those that are held. */
  readonly amounts: readonly (number | null)[];
  readonly bypass: boolean;
  /** Of a take: so many percent of every limit that it takes from, but for soft ones, must be left. */
  readonly leavePercent: number;
  /** Of a take: the limits that let it pass where they do not have enough, and then give and count nothing. */
  readonly shadows: readonly ShadowPlace[];
  /** Of a credit or renewal: in which period or slice each amount was taken. Undefined: all are given back. */
  readonly pins: readonly LevelPin[] | undefined;
  /** The instant for which pins were decided, or into which slice slots go; a row of a later epoch is answered `again`. Null: any will do. */
  readonly judgedMs: number | null;
  /**
   * Counted beside the amounts once the request is applied; also where the bucket of a credit is forgotten (`lost`). Not the time of
   * slots (`#hu` of their limit) that the slice of their pin no longer has.
   */
  readonly strays: readonly CountedAmount[];
  /** Of a credit: what is counted where the bucket is forgotten. */
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
  /** Configuration must be of this generation; undefined: whatever it is. */
  readonly generation: number | undefined;
  /** It goes by limits that may be older than the store's: the instant is noted on the row. */
  readonly isNoted: boolean;
  readonly claims: readonly BatchClaim[];
  /** Of a take: what is written down with it once it is applied. */
  readonly draft: BatchLease | undefined;
}

/** A lease, the answer under a key, or both: as data, with what the take has answered. */
export interface BatchLease extends DraftData {
  /** Must still be the caller's, or nothing is done. */
  readonly key: KeyMark | undefined;
}

/**
 * What is written of a draft: in place of the record of a lease, and of the answer under a key. `LeaseForm` tells what it stands for.
 */
export interface DraftedLease {
  readonly leaseId: string | undefined;
  readonly text: string;
  /** The reading of the request. */
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
  /** Distinct. */
  readonly buckets: readonly BatchBucket[];
  readonly requests: readonly BatchRequest[];
  readonly countsUsage: boolean;
  /** A reading that is further ahead of the store's own clock is refused; undefined: readings are not compared. */
  readonly aheadMaxMs: number | undefined;
}

/** What a claim left, or found where nothing was taken: by the place of the limit. */
export interface ClaimLevels {
  readonly tokensMilli: readonly number[];
  /** Only where one of the limits is a session. */
  readonly windows: readonly (number | null)[] | undefined;
  readonly validUntilMs: number | null | undefined;
  /** The places of the shadows that would have refused the claim: of them nothing was taken. Absent: none. */
  readonly shadowed?: readonly number[];
}

/**
 * What became of a request.
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
      /** It was done before, unseen: these are the answers of then. */
      readonly repeated: boolean;
      readonly generation: number;
      /** The store's clock. */
      readonly serverMs: number;
      /** By the place of the bucket; null: there is none. */
      readonly rows: readonly (SeenRow | null)[];
      readonly replies: readonly RequestReply[];
    }
  | { readonly kind: "superseded" }
  | { readonly kind: "rolledBack"; readonly cause: unknown }
  | { readonly kind: "unavailable"; readonly applied: "no" | "unknown"; readonly cause: unknown };

/** By what an operation is remembered. */
export interface OperationKey {
  readonly namespaceId: string;
  readonly bucket: BucketKey;
  readonly idempotencyKey: string;
  /** What was done then or before is forgotten. */
  readonly forgottenMs: number;
}

/** A row that replaces one of a version, once for its key, together with the audit event. */
export interface RowOperation extends OperationKey {
  readonly nowMs: number;
  /** What is remembered under the key. */
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

/** What a store in one transaction needs to have for takes: the straight line of `bucket/`, and rows that are compared by version. */
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
  /** In the order of the keys; undefined where there is none. Numbers are as they are stored: they may be damaged. */
  read(namespaceId: string, keys: readonly BucketKey[]): Promise<readonly (VersionedRow | undefined)[]>;
  /** By entity id, then by resource. */
  listKeys(namespaceId: string, owner: BucketOwner, page: PageRequest): Promise<Page<BucketKey>>;
  /** Some buckets from a place on, by entity id, then by resource. */
  some(namespaceId: string, from: BucketKey, limitMax: number): Promise<readonly StoredBucket[]>;
  /** Deletes buckets that are still of these versions, and keeps their usage; answers how many. */
  forget(namespaceId: string, idle: readonly IdleBucket[]): Promise<number>;
  /** By entity id. */
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
