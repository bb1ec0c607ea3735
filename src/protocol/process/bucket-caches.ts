import type { BucketKey } from "../../domain/bucket/bucket-key.ts";
import { availableMilli, findLimit } from "../../domain/bucket/bucket-state.ts";
import { ItemUnreadable } from "../../domain/bucket/item-unreadable.ts";
import type { LimitSet } from "../../domain/limits/limit-set.ts";
import type { Calendar } from "../../domain/limits/schedule.ts";
import { BoundedMap } from "../../domain/names/bounded-map.ts";
import type { Item, ItemKey } from "../../ports/item-store.ts";
import { BN, namesOf, RF, UH, WCU } from "../item/attributes.ts";
import { decode, type Image, numberOf } from "../item/codec.ts";
import type { Dialect } from "../item/dialect.ts";
import { BucketCache, nextRate, type Seen } from "./bucket-cache.ts";

/** Notes the share of the refill that all processes took between two observations. The tolerance depends on it (ADR 7). */
function noteUtilization(
  cache: BucketCache,
  before: Image,
  after: Image,
  { fromMs, toMs }: { readonly fromMs: number; readonly toMs: number },
): void {
  // Counters begin anew with every hour.
  if (before.item[UH] !== after.item[UH]) return;
  const { utilization } = cache;
  for (const { name, terms } of after.state.limits) {
    if (terms.refillAmountMilli === 0) continue;
    const { tc } = namesOf(name);
    // It decides nothing, so it may be rounded.
    const taken = Number(after.item[tc] ?? 0) - Number(before.item[tc] ?? 0);
    const used = (taken * terms.refillPeriodMs) / (terms.refillAmountMilli * (toMs - fromMs));
    // A single short span says little.
    utilization.set(name, ((utilization.get(name) ?? used) + used) / 2);
    const was = findLimit(before.state, name);
    // Assume that all was taken at once, right after the limit was seen.
    const lowestMilli = was === undefined ? 0 : availableMilli(before.state, was, fromMs) - taken;
    if (lowestMilli * NEARLY_EMPTY < terms.capacityMilli) cache.drainedAtMs = toMs;
  }
}

/** A limit with less than this part of its capacity is nearly empty: the tolerance may hold back as much. */
const NEARLY_EMPTY = 16;

/** The circumstances of an observation. */
interface Observation {
  readonly atMs: number;
  readonly eventuallyConsistent: boolean;
  /** The caller's limits, whose objects are used if the item has the same. */
  readonly set: LimitSet | undefined;
  /** The number of this process's writes between this observation and the one before. */
  readonly ownWrites: number;
  /** The sequence number when the call was sent: answers overtake each other. */
  readonly sentAtSequence: number;
}

export class BucketCaches {
  readonly #known: BoundedMap<BucketCache>;
  readonly #calendar: Calendar;
  readonly #dialect: Dialect;
  /** Each request asks for the same cache several times in a row. */
  #latest: BucketCache | undefined;
  #sequence = 0;

  constructor(calendar: Calendar, dialect: Dialect, bucketsMax: number) {
    this.#known = new BoundedMap(bucketsMax / 2, (cache) => cache.isHeld);
    this.#calendar = calendar;
    this.#dialect = dialect;
  }

  /** The number of the last observation; note it before a call is sent. */
  get sequence(): number {
    return this.#sequence;
  }

  /** The number of cached buckets: at most the given number, plus those that are held. */
  get size(): number {
    return this.#known.size;
  }

  of(key: BucketKey): BucketCache {
    if (this.#latest?.key.id === key.id) return this.#latest;
    let cache = this.#known.get(key.id);
    if (cache === undefined) {
      cache = new BucketCache(key);
      this.#known.set(key.id, cache);
    }
    this.#latest = cache;
    return cache;
  }

  /** Runs work on buckets, none of which is evicted until it is done. */
  async holding<Result>(keys: readonly BucketKey[], work: () => Promise<Result>): Promise<Result> {
    const held = keys.map((key) => {
      const cache = this.of(key);
      cache.hold();
      return cache;
    });
    try {
      return await work();
    } finally {
      for (const cache of held) cache.letGo();
    }
  }

  /** The store answered without an item: others were in the way, or several items were written together. */
  noteAnswer({ bucket, shard }: ItemKey): void {
    this.of(bucket).noteAnswered(shard, ++this.#sequence);
  }

  /**
   * Stores the state of an item, unless a later one is stored, and returns what the observation itself showed. For an eventually
   * consistent read that is older than the stored state, it returns that.
   */
  observe(cache: BucketCache, key: ItemKey, item: Item | undefined, about: Observation): Seen {
    return item === undefined ? this.#observeMissing(cache, key, about) : this.#observeItem(cache, key, item, about);
  }

  #observeMissing(cache: BucketCache, { shard }: ItemKey, about: Observation): Seen {
    const before = cache.seen(shard);
    const { atMs, eventuallyConsistent } = about;
    if (eventuallyConsistent && before?.image !== undefined && !before.eventuallyConsistent) return before;
    const missing: Seen = { image: undefined, eventuallyConsistent, atMs, order: ++this.#sequence };
    // Another call has seen the item since this one was sent. The order of the two is unknown, so the image stays for others;
    // this caller goes by its own answer.
    if (before?.image !== undefined && before.order > about.sentAtSequence) return missing;
    cache.noteShard(shard, missing, shard === 0 && !eventuallyConsistent ? 1 : undefined);
    return missing;
  }

  #observeItem(cache: BucketCache, key: ItemKey, item: Item, about: Observation): Seen {
    const { shard } = key;
    const before = cache.seen(shard);
    const like = before?.image;
    const { atMs, eventuallyConsistent, set } = about;
    const isBehind = before !== undefined && like !== undefined && isOlder(item, like.item);
    if (isBehind && eventuallyConsistent && !before.eventuallyConsistent) return before;
    const decoded = decode(key, item, { calendar: this.#calendar, dialect: this.#dialect, like, set });
    if (decoded.kind === "damaged") {
      // Drop the older image: the next caller reads the item and gets the same error.
      cache.forgetShards();
      throw new ItemUnreadable(key, decoded.damage);
    }
    const { image } = decoded;
    // Observations made while this call was under way are later than its answer.
    if (isBehind && before.order > about.sentAtSequence) {
      return { image, eventuallyConsistent, atMs, order: about.sentAtSequence };
    }
    const seen: Seen = { image, eventuallyConsistent, atMs, order: ++this.#sequence };
    cache.noteShard(shard, seen, image.shardCount);
    const writes = (numberOf(item, WRITES) ?? 0) / 1000;
    cache.rates[shard] = nextRate(cache.rates[shard], writes, atMs);
    if (before === undefined) return seen;
    // If there was no item before, other processes created it.
    const writesBefore = like === undefined ? 0 : (numberOf(like.item, WRITES) ?? 0) / 1000;
    if (writes - writesBefore > about.ownWrites) cache.otherWriterAtMs = atMs;
    if (like !== undefined && atMs > before.atMs && cache.hasOtherWriters(atMs)) {
      noteUtilization(cache, like, image, { fromMs: before.atMs, toMs: atMs });
    }
    return seen;
  }
}

// Every write is counted. An item that was deleted and created again counts from 0, but has a later epoch.
function isOlder(item: Item, than: Item): boolean {
  return (
    item[BN] === than[BN] &&
    (numberOf(item, WRITES) ?? 0) < (numberOf(than, WRITES) ?? 0) &&
    (numberOf(item, RF) ?? 0) <= (numberOf(than, RF) ?? 0)
  );
}

const WRITES = namesOf(WCU).tc;
