import { refilledMilli } from "../../bucket/level.ts";
import type { Part } from "../../bucket/share.ts";
import type { Amount } from "../../domain/amounts.ts";
import type { BucketKey } from "../../domain/bucket-key.ts";
import { type BucketState, findLimit, type LimitState } from "../../domain/bucket-state.ts";
import { LEVELS_MAX } from "../../domain/entity.ts";
import { ValidationError } from "../../domain/errors.ts";
import { traitsOf } from "../../domain/limit-kinds.ts";
import { type LimitSet, type SetOrigin, supersedes } from "../../domain/limit-set.ts";
import { refuseCountsShared } from "../../domain/shared-counts.ts";
import type { Item, ItemValue } from "../../ports/item-store.ts";
import { CFA, namesOf, SHARD_COUNT, VU, WCU } from "./attributes.ts";
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
 * that only this implementation writes; `SHARED` is for a table with both.
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
  readonly moves: readonly Amount[];
  readonly configConfirmed: boolean;
}

/** Softness is a deadline to the original; ours lasts until configuration says otherwise. */
export const SOFT_FOREVER_MS = 253_402_300_799_000;

/** What one transaction of an `ItemStore` holds. */
const TRANSACTION_ITEMS_MAX = 100;

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

/** A table that the original writes too. */
export const SHARED: Dialect = {
  checkLimits: ({ limits }) => {
    refuseCountsShared(limits);
    const session = limits.find((limit) => traitsOf(limit).opensWindow);
    if (session === undefined) return;
    throw new ValidationError(
      "shared_session",
      `Limit "${session.name}" is a session quota; on a table shared with the Python zae-limiter its windows would open ` +
        "twice. Use a calendar quota, or open the table without sharedTable.",
    );
  },

  checkTopUp: ({ entityId, resource }) => {
    throw new ValidationError(
      "shared_top_up",
      `${entityId} on ${resource} cannot be topped up on a table shared with the Python zae-limiter, which would spend ` +
        "the tokens differently. Open it without sharedTable, or raise the limit.",
    );
  },

  sameParameters: (item, before) => {
    for (const name of Object.keys(item)) {
      if (item[name] === before[name]) continue;
      // The original brings the numbers of a limit first, and its tokens with a later write: only then it is a limit.
      if (!COUNTED.test(name) || !(name in before || name.startsWith("n"))) return false;
    }
    return Object.keys(before).every((name) => name in item);
  },

  partRounding: "floor",

  // A new item names its owner, which is checked in the same transaction: an item more for each level.
  atomicItemsMax: TRANSACTION_ITEMS_MAX - LEVELS_MAX,

  // Also of limits that are not there: the original may leave, or put there, terms without tokens.
  pinTerms: (builder, { item }, limits) => {
    builder.asSeen(SHARD_COUNT, item);
    for (const { limit } of limits) {
      const { cp, ra, rp } = namesOf(limit);
      builder.asSeen(cp, item).asSeen(ra, item).asSeen(rp, item);
    }
  },

  needsRebase: (seen, { readingMs, moves, configConfirmed }) => {
    const counter = seen.item[namesOf(WCU).tk];
    // Below this the original takes the item for too busy, and makes a slow pass with every request.
    if (typeof counter !== "number" || counter < 1000) return true;
    if (configConfirmed && SHARED.hasSoftStampOver(seen, readingMs)) return true;
    return moves.some((move) => outgrows(seen.state, move, readingMs));
  },

  spendsRefill: ({ limit }, elapsedMs) => limit.soft === true || elapsedMs <= 0,

  // Nothing is known there of when limits were changed.
  notesTakes: false,
  readsWriteCounter: true,
  expiryIgnoresDebts: true,

  grantsOf: ({ limits }) => {
    const item: Record<string, ItemValue> = {};
    for (const { name, limit, part } of limits) {
      if (!traitsOf(limit).refillsSteadily) item[namesOf(name).gc] = part?.grantedAmong ?? part?.count ?? 1;
    }
    return item;
  },

  softUntilMs: (atMs, random) => atMs + Math.floor(STAMP_MS * (0.8 + random() / 5)),

  creditNeedsImage: true,

  capCredit: (builder, { item, state }, { limit, milli }) => {
    const held = findLimit(state, limit);
    if (held === undefined) return;
    const { tk, cp } = namesOf(limit);
    const mostMilli = held.terms.capacityMilli - milli;
    if (held.tokensMilli <= mostMilli) builder.asSeen(cp, item).asSeen(SHARD_COUNT, item).where(tk, "<=", mostMilli);
    else builder.set(VU, 0);
  },

  capRebasedCredit: (builder, { name, tokensMilli }, mostMilli) => {
    // An item that was seen above the capacity is marked; one that was not must not be lifted there unseen.
    if (tokensMilli <= mostMilli) builder.where(namesOf(name).tk, "<=", mostMilli);
  },

  marksRebased: ({ limits }) => limits.some(({ tokensMilli, terms }) => tokensMilli > terms.capacityMilli),

  installable: (install, configConfirmed) => {
    if (configConfirmed || install === undefined || install.origin.given) return install;
    return { set: install.set, origin: { ...install.origin, asOfMs: Number.NEGATIVE_INFINITY } };
  },

  mayBeNewer: () => true,
  announcesConfig: () => false,

  hasSoftStampOver: ({ item, state }, readingMs) =>
    state.limits.some(({ name }) => {
      const stamp = item[namesOf(name).soft];
      return stamp !== undefined && (typeof stamp !== "number" || stamp <= readingMs);
    }),

  // Also of limits that only stand there still: the original changes those in place, too. With when ours last installed some:
  // what the original put there since may look like what it had put there before.
  doubtAbout: ({ canonical, item, state }, isStamped) => {
    const terms = state.limits.map(({ name }) => {
      const { cp, ra, rp } = namesOf(name);
      return `${name},${item[cp]},${item[ra]},${item[rp]}`;
    });
    return [canonical, ...terms, isStamped, item[VU] === 0, item[CFA]].join("/");
  },
  isReadTooOld: ({ asOfMs }, readingMs) => readingMs - asOfMs > READ_MS,
  installStopsOnDoubt: true,
  countsByHour: false,
  mayReshard: false,
  makesMissingShards: true,
};

/**
 * The original spends stored tokens without looking at the refill, and its own refill does not see what was cut: stored
 * tokens must not fall below zero, and nothing is cut without moving the epoch.
 */
function outgrows(state: BucketState, { limit, milli }: Amount, readingMs: number): boolean {
  const held = findLimit(state, limit);
  if (held === undefined || milli < 0) return false;
  const risen = refilledMilli(held.remainder, held.terms, readingMs - state.epochMs);
  const isOver = held.tokensMilli >= held.terms.capacityMilli - risen;
  if (isOver) return risen > 0 || held.tokensMilli > held.terms.capacityMilli;
  // An epoch that is not behind has nothing to add: moved by a moment with each request it would run ahead of all clocks.
  return !SHARED.spendsRefill(held, readingMs - state.epochMs) && held.tokensMilli - milli < 0;
}

const NO_ATTRIBUTES: Item = Object.freeze({});
/** Attributes that a write may change without moving the epoch. */
const COUNTED = /^(b_.*_(tk|tc)|b_rq|ttl|vu|n[0-9a-f])$/;
/** How long the original believes a stamp. */
const STAMP_MS = 60_000;
/** Configuration is installed only so soon after it was read. */
const READ_MS = 1_000;
