import { BoundedMap } from "../domain/bounded-map.ts";
import type { BucketKey } from "../domain/bucket-key.ts";
import { availableMilli, findLimit } from "../domain/bucket-state.ts";
import type { Calendar } from "../domain/calendar.ts";
import type { LimitSet } from "../domain/limit-set.ts";
import type { Item, ItemKey } from "../ports/item-store.ts";
import { namesOf, RF, WCU } from "./attributes.ts";
import { decode, type Image, numberOf } from "./codec.ts";
import type { Job, JobOutcome } from "./job.ts";
import type { Lane } from "./lane.ts";
import { type Rate, ratedAgain } from "./write-rate.ts";

/** What was last seen of one shard. */
export interface Seen {
  /** Undefined: there is no such item. */
  readonly image: Image | undefined;
  /** From a read that may be old: it chooses forms, but nobody is refused by it. */
  readonly hearsay: boolean;
  readonly atMs: number;
  /** Which of all things learnt this was. */
  readonly order: number;
}

/** What this process remembers of one bucket. Nothing depends on it but how many rounds a write takes. */
export class BucketMemory {
  readonly key: BucketKey;
  readonly shards: (Seen | undefined)[] = [];
  shardCount = 1;
  /** By shard: readings of configuration up to a number are in doubt, because of what the shard says. */
  readonly doubts: ({ readonly upTo: number; readonly says: string } | undefined)[] = [];
  /** When it last refused somebody. */
  refusedAtMs = Number.NEGATIVE_INFINITY;
  /** When a request of several levels was last refused because of it, or held up by others on the same levels. */
  scarceAtMs = Number.NEGATIVE_INFINITY;
  /** When it was last noticed that a limit had been nearly emptied. */
  drainedAtMs = Number.NEGATIVE_INFINITY;
  /** When it was last seen that others write too: then what is remembered is likely old. */
  companyAtMs = Number.NEGATIVE_INFINITY;
  /** On which side of its brim a limit is likely found next. */
  readonly lately = new Map<string, "below" | "over">();
  /** What everybody takes of a limit, as a part of what drips in: 1 is all of it. */
  readonly loads = new Map<string, number>();
  /** How busy each shard is, by what all clients wrote to it. */
  readonly rates: (Rate | undefined)[] = [];
  /** The ways of this process to the shards. */
  readonly lanes: (Lane<Job, JobOutcome> | undefined)[] = [];
  /** The number of shards is being changed by this process. */
  resizing = false;
  /** Not before this is that tried again. */
  resizeAfterMs = Number.NEGATIVE_INFINITY;

  constructor(key: BucketKey) {
    this.key = key;
  }

  /** Whether others are likely to have written since. */
  hasCompany(atMs: number): boolean {
    return atMs - this.companyAtMs < COMPANY_MS;
  }

  /** Whether requests of several levels should ask for it first. */
  isScarce(atMs: number): boolean {
    return isLately(this.scarceAtMs, atMs, SCARCE_MS);
  }

  /** Whether all it had was wanted lately: it refused somebody, or was nearly emptied. Nothing of it may be wasted then. */
  isWanted(atMs: number): boolean {
    return isLately(this.refusedAtMs, atMs, SCARCE_MS) || isLately(this.drainedAtMs, atMs, DRAINED_MS);
  }

  /** What to expect of a shard; undefined when nothing is known. */
  seen(shard: number): Seen | undefined {
    return this.shards[shard];
  }

  /** What was last seen of the shards there are. */
  images(): Image[] {
    const images: Image[] = [];
    for (let shard = 0; shard < this.shardCount; shard++) {
      const image = this.shards[shard]?.image;
      if (image !== undefined) images.push(image);
    }
    return images;
  }

  forget(): void {
    this.shards.length = 0;
  }
}

/** Remembers the last images of many buckets, bounded. */
export class Memories {
  readonly #known = new BoundedMap<BucketMemory>(BUCKETS_REMEMBERED / 2);
  readonly #calendar: Calendar;
  readonly #shared: boolean;
  /** Asked for several times in a row by each request. */
  #latest: BucketMemory | undefined;
  #learnt = 0;

  constructor(calendar: Calendar, shared: boolean) {
    this.#calendar = calendar;
    this.#shared = shared;
  }

  /** How much has been learnt so far: to be noted before something is asked, for answers overtake each other. */
  get learnt(): number {
    return this.#learnt;
  }

  of(key: BucketKey): BucketMemory {
    if (this.#latest?.key.id === key.id) return this.#latest;
    let memory = this.#known.get(key.id);
    if (memory === undefined) {
      memory = new BucketMemory(key);
      this.#known.set(key.id, memory);
    }
    this.#latest = memory;
    return memory;
  }

  /** Takes in how an item stands. `own`: how many writes of this process lie between this and what was seen before. */
  learn(key: ItemKey, item: Item | undefined, about: LearnOptions): Seen {
    return this.learnIn(this.of(key.bucket), key, item, about);
  }

  learnIn(memory: BucketMemory, key: ItemKey, item: Item | undefined, about: LearnOptions): Seen {
    const before = memory.shards[key.shard];
    if (item === undefined) {
      if (about.hearsay && before?.image !== undefined && !before.hearsay) return before;
      const missing: Seen = { image: undefined, hearsay: about.hearsay, atMs: about.atMs, order: ++this.#learnt };
      // Somebody else has seen it since it was asked for.
      if (before?.image !== undefined && before.order > about.asked) return missing;
      memory.shards[key.shard] = missing;
      if (key.shard === 0 && !about.hearsay) memory.shardCount = 1;
      return missing;
    }
    const like = before?.image;
    const { atMs, hearsay, set } = about;
    // What somebody heard does not replace what was seen later.
    if (hearsay && before !== undefined && like !== undefined && !before.hearsay && isOlder(item, like.item))
      return before;
    const image = decode(key, item, { calendar: this.#calendar, shared: this.#shared, like, set });
    const seen: Seen = { image, hearsay, atMs, order: ++this.#learnt };
    // What was learnt while this was under way may be later than this.
    if (before !== undefined && like !== undefined && before.order > about.asked && isOlder(item, like.item))
      return seen;
    memory.shards[key.shard] = seen;
    memory.shardCount = image.shardCount;
    const writes = (numberOf(item, WRITES) ?? 0) / 1000;
    memory.rates[key.shard] = ratedAgain(memory.rates[key.shard], writes, atMs);
    if (before === undefined) return seen;
    if (writes - (numberOf(like?.item ?? NO_ITEM, WRITES) ?? 0) / 1000 > about.own) memory.companyAtMs = atMs;
    if (like !== undefined && atMs > before.atMs && memory.hasCompany(atMs))
      learnLoads(memory, like, image, { fromMs: before.atMs, toMs: atMs });
    return seen;
  }
}

export interface LearnOptions {
  readonly atMs: number;
  readonly hearsay: boolean;
  readonly set: LimitSet | undefined;
  readonly own: number;
  /** What had been learnt when it was asked for. */
  readonly asked: number;
}

function isLately(thenMs: number, atMs: number, spanMs: number): boolean {
  const ageMs = atMs - thenMs;
  return ageMs >= 0 && ageMs < spanMs;
}

function isOlder(item: Item, than: Item): boolean {
  // Every write is counted; an item that was made anew counts from the beginning, but from a later epoch.
  return (
    (numberOf(item, WRITES) ?? 0) < (numberOf(than, WRITES) ?? 0) &&
    (numberOf(item, RF) ?? 0) <= (numberOf(than, RF) ?? 0)
  );
}

function learnLoads(
  memory: BucketMemory,
  before: Image,
  after: Image,
  { fromMs, toMs }: { readonly fromMs: number; readonly toMs: number },
): void {
  for (const held of after.state.limits) {
    const { name, terms } = held;
    if (terms.refillAmountMilli === 0) continue;
    const { tc } = namesOf(name);
    const taken = (numberOf(after.item, tc) ?? 0) - (numberOf(before.item, tc) ?? 0);
    const load = (taken * terms.refillPeriodMs) / (terms.refillAmountMilli * (toMs - fromMs));
    // A single span may be short, and tell little.
    memory.loads.set(name, ((memory.loads.get(name) ?? load) + load) / 2);
    const was = findLimit(before.state, name);
    // As if it had all been taken at once, right after the limit was seen.
    const lowestMilli = was === undefined ? 0 : availableMilli(before.state, was, fromMs) - taken;
    if (lowestMilli * NEARLY_EMPTY < terms.capacityMilli) memory.drainedAtMs = toMs;
  }
}

/** A limit is nearly empty when it has less than this part of its capacity: what the tolerance may hold back. */
const NEARLY_EMPTY = 16;
const COMPANY_MS = 10_000;
/** Long enough for the next of several pulses; all it costs is a trip more. */
const SCARCE_MS = 10_000;
const DRAINED_MS = 2_000;
const NO_ITEM: Item = Object.freeze({});
const BUCKETS_REMEMBERED = 20_000;
const WRITES = namesOf(WCU).tc;
