import type { BucketKey } from "../domain/bucket/bucket-key.ts";
import type { Amount } from "../domain/charge/amounts.ts";
import type { AuditEvent } from "../domain/config/audit.ts";
import type { Page, PageRequest } from "../domain/names/paging.ts";
import type { BucketOwner, MaybePromise } from "./bucket-store.ts";

/**
 * What an attribute holds. Numbers are exact integers, a bigint is one beyond ±(2^53 - 1). An item that another program wrote, or
 * that is damaged, may have any number; it is read as it stands, and its reader says what is wrong with it.
 */
export type ItemValue = number | bigint | string | boolean;

/** An item as it is stored, without its key. A value: a change makes a new one. */
export type Item = Readonly<Record<string, ItemValue>>;

/**
 * One shard of a bucket; or, with an `operation`, the record of a purchase or reset that is kept beside shard 0; or, with a
 * `sheet`, the usage of a day (`2026-03-15`) that was counted on the shard.
 */
export interface ItemKey {
  readonly bucket: BucketKey;
  readonly shard: number;
  readonly operation?: string;
  readonly sheet?: string;
}

/** A comparison of one attribute with a value. It is false where the attribute is not there, whatever the operator. */
export interface Comparison {
  readonly name: string;
  readonly is: "=" | "<>" | "<" | "<=" | ">" | ">=";
  readonly value: ItemValue;
}

/** A test whether an attribute is there. */
export interface Presence {
  readonly name: string;
  readonly is: "present" | "absent";
}

/** One clause of a condition: it holds when any of its tests does. A condition holds when all its clauses do. */
export type Clause = readonly (Comparison | Presence)[];

/** The existence that a write demands of its item. */
export type Existence = "exists" | "missing" | "either";

/**
 * One conditional write of one item: data, not code, so that it can be sent to a store. `update` changes an item
 * (`item: "either"` makes it when it is not there), `put` replaces it whole, `delete` removes it, `check` only looks.
 */
export interface ItemWrite {
  readonly key: ItemKey;
  readonly kind: "update" | "put" | "delete" | "check";
  readonly item: Existence;
  readonly when: readonly Clause[];
  /** Attributes to set; the whole item of a put. */
  readonly set: Item;
  /** Amounts to add; nothing there counts as 0. Never an attribute of `set` or `remove`. */
  readonly add: Readonly<Record<string, number | bigint>>;
  readonly remove: readonly string[];
  /**
   * Attributes of an update that become what others were before the write, by their names; what was not there counts as 0. Never an
   * attribute of `set`, `add` or `remove`.
   */
  readonly copy?: Readonly<Record<string, string>> | undefined;
  /** The trace for tests that watch the writes. Not part of the write. */
  readonly trace: WriteTrace | undefined;
}

/** The purpose of a write: the claims it serves, and the reading of the clock they go by. */
export interface WriteTrace {
  readonly form: "take" | "rebase" | "create" | "credit" | "share" | "operation";
  readonly readingMs: number;
  /** The instant since which changed limits count, for a rebase. Absent: the reading. */
  readonly changedMs?: number;
  /** Changes of stored limits from before this instant count from it on, for a rebase. */
  readonly heldMs?: number;
  /** Claims, and what a lease holds: the very objects that the store was handed. */
  readonly parts: readonly TracePart[];
  /** The millitokens that a full bucket may have lost by the write, per limit; see the tolerance in docs/protocol.md. */
  readonly spare: readonly Amount[];
}

export interface TracePart {
  readonly of: object;
  readonly kind: "take" | "debit" | "credit" | "renew" | "topUp" | "reset";
  readonly amounts: readonly Amount[];
  /** The soft limits that the request had left below zero, for a give-back that takes the request back, too. */
  readonly undoes?: readonly string[];
  /** The shadows that would have refused a take, and that nothing was taken of; for such a give-back those of the request. */
  readonly shadowed?: readonly string[];
}

/**
 * The answer to one write. `applied` and `failed` show the item, after and before, as it stood at that moment.
 * - `refused`: certainly not written: throttled, in the way of a transaction, or never sent.
 * - `unknown`: perhaps written, perhaps still to be.
 */
export type ItemAnswer =
  | { readonly kind: "applied"; readonly item: Item }
  | { readonly kind: "failed"; readonly item: Item | undefined }
  | Undecided;

export type Undecided =
  | { readonly kind: "refused"; readonly why: "throttled" | "conflict" | "unreachable"; readonly cause: unknown }
  | {
      readonly kind: "unknown";
      readonly cause: unknown;
      /** The answer, should it come after the time was up. Never rejects. */
      readonly later?: Promise<ItemAnswer>;
    };

/** The answer to a transaction: all writes or none, and no images. `failed`: some condition did not hold. */
export type TransactionAnswer = { readonly kind: "applied" } | { readonly kind: "failed" } | Undecided;

export interface ItemCall {
  /** The store answers within this time, or that it is `unknown`. */
  readonly timeoutMs: number;
}

/**
 * A store of single items of one namespace: conditional writes, transactions, reads.
 * Answers are values; only what asking again cannot help is thrown (access denied, a table that is not there).
 */
export interface ItemStore {
  /** Of a delete and a check that were applied, `item` is empty. */
  write(write: ItemWrite, call: ItemCall): MaybePromise<ItemAnswer>;
  /**
   * At most 100 items, each once. The same token again within ten minutes is the same transaction: it is not done twice.
   * The event, if any, is logged in it.
   */
  transact(
    writes: readonly ItemWrite[],
    options: { readonly token: string; readonly event: AuditEvent | undefined },
    call: ItemCall,
  ): MaybePromise<TransactionAnswer>;
  /** In the order of the keys. Not `consistent`: perhaps as they were a while ago. Throws `RateLimiterUnavailable`. */
  read(
    keys: readonly ItemKey[],
    options: { readonly consistent: boolean },
    call: ItemCall,
  ): MaybePromise<readonly (Item | undefined)[]>;
  /** Buckets of an entity, or all of them, that have a shard 0: by entity id, then by resource. */
  listKeys(owner: BucketOwner, page: PageRequest): MaybePromise<Page<BucketKey>>;
  /** Buckets of a resource, by entity id, that have a shard 0. */
  listBuckets(resource: string, page: PageRequest): MaybePromise<Page<BucketKey>>;
}
