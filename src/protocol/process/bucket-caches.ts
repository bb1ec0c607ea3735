import type { BucketKey } from "../../domain/bucket/bucket-key.ts";
import { ItemUnreadable } from "../../domain/bucket/item-unreadable.ts";
import type { Calendar } from "../../domain/limits/calendar.ts";
import type { LimitSet } from "../../domain/limits/limit-set.ts";
import { BoundedMap } from "../../domain/names/bounded-map.ts";
import type { Item, ItemKey } from "../../ports/item-store.ts";
import { BN, namesOf, RF, WCU } from "../item/attributes.ts";
import { decode, numberOf } from "../item/codec.ts";
import type { Dialect } from "../item/dialect.ts";
import { BucketCache, type Seen } from "./bucket-cache.ts";
import { noteUtilization } from "./utilization.ts";

/** What is known of the circumstances of an observation. */
interface Observation {
  readonly atMs: number;
  readonly eventuallyConsistent: boolean;
  /** The caller's limits, whose objects are used where the item says the same. */
  readonly set: LimitSet | undefined;
  /** How many writes of this process lie between this observation and the one before. */
  readonly ownWrites: number;
  /** The sequence number when the call was sent: answers overtake each other. */
  readonly sentAtSequence: number;
}

/** The caches of many buckets, bounded. */
export class BucketCaches {
  readonly #known: BoundedMap<BucketCache>;
  readonly #calendar: Calendar;
  readonly #dialect: Dialect;
  /** Asked for several times in a row by each request. */
  #latest: BucketCache | undefined;
  #sequence = 0;

  constructor(calendar: Calendar, dialect: Dialect, bucketsMax: number) {
    this.#known = new BoundedMap(bucketsMax / 2, (cache) => cache.isHeld);
    this.#calendar = calendar;
    this.#dialect = dialect;
  }

  /** The number of the last observation; to be noted before a call is sent. */
  get sequence(): number {
    return this.#sequence;
  }

  /** How many buckets are remembered: at most so many as was said, and those that are held. */
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

  /** Does work on buckets, none of which is forgotten until it is done. */
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

  /** The store answered, and showed no item: others were in the way, or several items were written together. */
  noteAnswer({ bucket, shard }: ItemKey): void {
    this.of(bucket).noteAnswered(shard, ++this.#sequence);
  }

  /**
   * Stores how an item stands, unless what is stored is later, and answers what the observation itself showed. An
   * eventually consistent read that is older than what is stored counts as what is stored.
   */
  observe(cache: BucketCache, key: ItemKey, item: Item | undefined, about: Observation): Seen {
    return item === undefined ? this.#observeMissing(cache, key, about) : this.#observeItem(cache, key, item, about);
  }

  #observeMissing(cache: BucketCache, { shard }: ItemKey, about: Observation): Seen {
    const before = cache.seen(shard);
    const { atMs, eventuallyConsistent } = about;
    if (eventuallyConsistent && before?.image !== undefined && !before.eventuallyConsistent) return before;
    const missing: Seen = { image: undefined, eventuallyConsistent, atMs, order: ++this.#sequence };
    // Another call has seen the item since this one was sent: which of the two is later is not known, so the image stays
    // for others. The caller goes by what its own answer showed.
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
      // Not by what it was before: the next caller reads it, and hears the same.
      cache.forgetShards();
      throw new ItemUnreadable(key, decoded.damage);
    }
    const { image } = decoded;
    // What was observed while this call was under way is later than its answer.
    if (isBehind && before.order > about.sentAtSequence) {
      return { image, eventuallyConsistent, atMs, order: about.sentAtSequence };
    }
    const seen: Seen = { image, eventuallyConsistent, atMs, order: ++this.#sequence };
    cache.noteShard(shard, seen, image.shardCount);
    const writes = (numberOf(item, WRITES) ?? 0) / 1000;
    cache.noteWrites(shard, writes, atMs);
    if (before === undefined) return seen;
    // Where there was no item before, other processes created it.
    const writesBefore = like === undefined ? 0 : (numberOf(like.item, WRITES) ?? 0) / 1000;
    if (writes - writesBefore > about.ownWrites) cache.noteOtherWriter(atMs);
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
