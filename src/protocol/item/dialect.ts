import type { Part } from "../../bucket/share.ts";
import type { BucketKey } from "../../domain/bucket/bucket-key.ts";
import type { BucketState, LimitState } from "../../domain/bucket/bucket-state.ts";
import type { Amount } from "../../domain/charge/amounts.ts";
import type { Floor } from "../../domain/limits/floor.ts";
import { type LimitSet, type SetOrigin, supersedes } from "../../domain/limits/limit-set.ts";
import type { Item } from "../../ports/item-store.ts";
import { VU } from "./attributes.ts";
import type { WriteBuilder } from "./write-builder.ts";

/** An item as it was seen, and the state that it means. */
interface SeenItem {
  readonly item: Item;
  readonly state: BucketState;
}

/** Limits that a bucket shall go by, and when they were read. */
export interface Install {
  readonly set: LimitSet;
  readonly origin: SetOrigin;
}

/**
 * Everything that is different on a table which the original, the Python implementation, writes too. `OWN` is for a table
 * that only this implementation writes; `SHARED` (shared/dialect.ts) is for a table with both.
 */
export interface Dialect {
  // Which limits and operations there are.

  /** Throws for limits that cannot be kept on this table. */
  checkLimits(set: LimitSet): void;
  /** Throws where a bucket cannot be topped up: the original spends what was bought in another way. */
  checkTopUp(bucket: BucketKey): void;

  // Reading items. Our own writes change terms only together with the epoch; the original changes them in place.

  /** Whether nothing but tokens, counters and marks differs between two items of one epoch. */
  sameParameters(item: Item, before: Item): boolean;
  /** How a bucket's terms are divided among its shards. The original rounds each part down. */
  readonly partRounding: Part["rounding"];

  // Taking.

  /** The most items that are written in one transaction with a take, so that what goes with them has room, too. */
  readonly atomicItemsMax: number;
  /** Makes the write fail where the original has changed the terms of these limits in place. */
  pinTerms(builder: WriteBuilder, seen: SeenItem, limits: readonly { readonly limit: string }[]): void;
  /** Whether a write has to move the epoch for reasons that only the original gives. */
  needsRebase(seen: SeenItem, wanted: SharedWant): boolean;
  /**
   * Whether a take may be paid with what was refilled since the epoch. The original spends stored tokens without looking at
   * the refill, and a rate that it lowers in place under an old epoch would multiply what a negative balance stands for.
   */
  spendsRefill(held: LimitState, elapsedMs: number): boolean;
  /** Whether a take says when it was made: changed limits that it did not go by count from then on at the earliest. */
  readonly notesTakes: boolean;
  /** Whether the original goes by the counter of writes, so that it must be refilled exactly. */
  readonly readsWriteCounter: boolean;
  /** Whether the original may have set an expiry that comes before a debt is paid: it does not look at debts. */
  readonly expiryIgnoresDebts: boolean;
  /** Of how many parts each quota was last granted, as attributes. Only the original goes by it. */
  grantsOf(state: BucketState): Item;
  /** Until when the original is to take a limit for soft that is soft by configuration. `random`: a number in [0, 1). */
  softUntilMs(atMs: number, random: () => number): number;

  // Giving back. The original spends what is stored, also above the capacity.

  /** Whether a give-back must know the item before it is written. */
  readonly creditNeedsImage: boolean;
  /** Sees to it that tokens which come back above the capacity are cut before they are spent. */
  capCredit(builder: WriteBuilder, seen: SeenItem, credit: Amount): void;
  /** The same within a rebase: `mostMilli` is the most that may be stored so that it ends up within the capacity. */
  capRebasedCredit(builder: WriteBuilder, held: LimitState, mostMilli: number): void;
  /** Whether a rebase leaves `vu` = 0 on the item. To us that says "read configuration again", to the original "cut first". */
  marksRebased(rebased: BucketState, before: Item, configConfirmed: boolean): boolean;

  // Configuration. The original does not say when it read what it writes, so a difference does not show which is newer.

  /** The limits that a write may install: the given ones, or ones that only add what the item lacks. */
  installable(install: Install | undefined, configConfirmed: boolean): Install | undefined;
  /** Whether limits that differ from the item's may be newer, so that configuration has to be read again. */
  mayBeNewer(claimed: SetOrigin, stored: SetOrigin): boolean;
  /** Whether the item says by `vu` = 0 that configuration changed. */
  announcesConfig(item: Item): boolean;
  /** Whether a limit on the item is soft by a stamp of the original that is over: configuration says whether it still is. */
  hasSoftStampOver(seen: SeenItem, readingMs: number): boolean;
  /** What a doubt is about. An item that says something new in between has to be read after, too. */
  doubtAbout(seen: SeenItem & { readonly canonical: string }, isStamped: boolean): string;
  /** Whether configuration was read so long ago that the item may say the same again that it said before. */
  isReadTooOld(origin: SetOrigin, readingMs: number): boolean;
  /** Whether installing limits on every shard stops where the item casts doubt on them: the original changed them meanwhile. */
  readonly installStopsOnDoubt: boolean;

  // Usage.

  /** Whether counters are those of the open hour. The original adds to them without end, and its aggregator takes differences. */
  readonly countsByHour: boolean;

  // Shards.

  /** Whether the number of shards is ours to change. */
  readonly mayReshard: boolean;
  /** Whether shards may be missing because no request has come to them yet; they are made out of a sibling then. */
  readonly makesMissingShards: boolean;
}

/** What a write wants, as far as it matters to the original. */
interface SharedWant {
  readonly readingMs: number;
  readonly moves: readonly (Amount & { readonly floors?: readonly Floor[] })[];
  readonly configConfirmed: boolean;
}

/** Softness is a deadline to the original; ours lasts until configuration says otherwise. */
export const SOFT_FOREVER_MS = 253_402_300_799_000;

/** What one transaction of an `ItemStore` holds. */
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
