import type { Part } from "../../bucket/balance.ts";
import type { BucketKey } from "../../domain/bucket/bucket-key.ts";
import type { BucketState, LimitState } from "../../domain/bucket/bucket-state.ts";
import type { Amount } from "../../domain/charge/amounts.ts";
import type { Floor } from "../../domain/limits/limit-numbers.ts";
import { type LimitSet, type SetOrigin, supersedes } from "../../domain/limits/limit-set.ts";
import type { Item } from "../../ports/item-store.ts";
import { VU } from "./attributes.ts";
import type { WriteBuilder } from "./write-builder.ts";

interface SeenItem {
  readonly item: Item;
  readonly state: BucketState;
}

/** Limits for a bucket, and when they were read. */
export interface Install {
  readonly set: LimitSet;
  readonly origin: SetOrigin;
}

/**
 * Differences on a table which the original, the Python implementation, writes too. `OWN` is for a table that only this
 * implementation writes; `SHARED` (shared/dialect.ts) is for a table with both.
 */
export interface Dialect {
  // Limits and operations.

  /** Throws for limits that cannot be kept on this table. */
  checkLimits(set: LimitSet): void;
  /** Throws if a bucket cannot be topped up: the original would spend the purchase differently. */
  checkTopUp(bucket: BucketKey): void;

  // Reading items. Our own writes change terms only together with the epoch; the original changes them in place.

  /** True if two items of one epoch differ only in tokens, counters and marks. */
  sameParameters(item: Item, before: Item): boolean;
  /** The rounding by which the terms of a bucket are divided among its shards. The original rounds each part down. */
  readonly partRounding: Part["rounding"];

  // Taking.

  /** The most items that one transaction of a take writes, so that related items have room too. */
  readonly atomicItemsMax: number;
  /** Makes the write fail if the original has changed the terms of these limits in place. */
  pinTerms(builder: WriteBuilder, seen: SeenItem, limits: readonly { readonly limit: string }[]): void;
  /** True if a write must move the epoch for reasons that only the original gives. */
  needsRebase(seen: SeenItem, wanted: SharedWant): boolean;
  /**
   * True if a take may spend what was refilled since the epoch. The original spends stored tokens without looking at the refill,
   * and a rate that it lowers in place under an old epoch would multiply the meaning of a negative balance.
   */
  spendsRefill(held: LimitState, elapsedMs: number): boolean;
  /** True if a take notes its reading: limits that change later count from then on at the earliest. */
  readonly notesTakes: boolean;
  /** True if the original reads the counter of writes, so that it must be refilled exactly. */
  readonly readsWriteCounter: boolean;
  /** True if the original may have set an expiry that comes before a debt is paid: it ignores debts. */
  readonly expiryIgnoresDebts: boolean;
  /** The number of parts of each quota at its last grant, as attributes. Only the original reads them. */
  grantsOf(state: BucketState): Item;
  /** The deadline after which the original no longer treats a soft limit as soft. `random`: a number in [0, 1). */
  softUntilMs(atMs: number, random: () => number): number;

  // Giving back. The original spends what is stored, also above the capacity.

  /** True if a give-back must read the item first. */
  readonly creditNeedsImage: boolean;
  /** Makes sure that tokens above the capacity are cut before they are spent. */
  capCredit(builder: WriteBuilder, seen: SeenItem, credit: Amount): void;
  /** Like `capCredit`, within a rebase: at most `mostMilli` may be stored to stay within the capacity. */
  capRebasedCredit(builder: WriteBuilder, held: LimitState, mostMilli: number): void;
  /** True if a rebase leaves `vu` = 0 on the item. To us that says "read configuration again", to the original "cut first". */
  marksRebased(rebased: BucketState, before: Item, configConfirmed: boolean): boolean;

  // Configuration. The original does not say when it read what it writes, so a difference does not show which is newer.

  /** The limits that a write may install: the given ones, or a set that only adds what the item lacks. */
  installable(install: Install | undefined, configConfirmed: boolean): Install | undefined;
  /** True if limits that differ from the item's may be newer, so that configuration must be read again. */
  mayBeNewer(claimed: SetOrigin, stored: SetOrigin): boolean;
  announcesConfig(item: Item): boolean;
  /** True if the original's soft stamp on a limit has run out: configuration says whether it is still soft. */
  hasSoftStampOver(seen: SeenItem, readingMs: number): boolean;
  /** The subject of a doubt. If the item says something else meanwhile, configuration must be read again. */
  doubtAbout(seen: SeenItem & { readonly canonical: string }, isStamped: boolean): string;
  /** True if configuration was read so long ago that the item may repeat what it said before. */
  isReadTooOld(origin: SetOrigin, readingMs: number): boolean;
  /** True if installing limits on every shard stops at a doubt: the original changed them meanwhile. */
  readonly installStopsOnDoubt: boolean;

  // Usage.

  /** True if counters are those of the open hour. The original adds to them without end, and its aggregator takes differences. */
  readonly countsByHour: boolean;

  // Shards.

  readonly mayReshard: boolean;
  /** True if shards may be missing because no request has come to them yet; they are made out of a sibling then. */
  readonly makesMissingShards: boolean;
}

/** The parts of an intent that matter to the original. */
interface SharedWant {
  readonly readingMs: number;
  readonly moves: readonly (Amount & { readonly floors?: readonly Floor[] })[];
  readonly configConfirmed: boolean;
}

/** The original stores a deadline for softness; ours lasts until configuration changes. */
export const SOFT_FOREVER_MS = 253_402_300_799_000;

/** The most items of one transaction of an `ItemStore`. */
export const TRANSACTION_ITEMS_MAX = 100;

/** A table that only this implementation writes. */
export const OWN: Dialect = {
  checkLimits: () => {},
  checkTopUp: () => {},
  sameParameters: () => true,
  partRounding: "exact",
  atomicItemsMax: TRANSACTION_ITEMS_MAX,
  pinTerms: () => {},
  needsRebase: () => false,
  spendsRefill: () => true,
  notesTakes: true,
  readsWriteCounter: false,
  expiryIgnoresDebts: false,
  grantsOf: () => NO_ATTRIBUTES,
  softUntilMs: () => SOFT_FOREVER_MS,
  creditNeedsImage: false,
  capCredit: () => {},
  capRebasedCredit: () => {},
  marksRebased: (_, before, configConfirmed) => before[VU] === 0 && !configConfirmed,
  installable: (install) => install,
  mayBeNewer: supersedes,
  announcesConfig: (item) => item[VU] === 0,
  hasSoftStampOver: () => false,
  doubtAbout: () => "",
  isReadTooOld: () => false,
  installStopsOnDoubt: false,
  countsByHour: true,
  mayReshard: true,
  makesMissingShards: false,
};

const NO_ATTRIBUTES: Item = Object.freeze({});
