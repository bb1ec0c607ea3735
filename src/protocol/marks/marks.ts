import type { BucketKey } from "../../domain/bucket/bucket-key.ts";
import { advanced, type BucketState, findLimit, type LimitState } from "../../domain/bucket/bucket-state.ts";
import { dueOf, MarkKeeper, periodOf, toldText, type Use, useOf } from "../../domain/bucket/mark-keeper.ts";
import { rulesOf } from "../../domain/limits/kinds/table.ts";
import { type Crossed, crossedOf } from "../../domain/limits/thresholds.ts";
import type { Claim, Held } from "../../ports/bucket-store.ts";
import type { ProtocolContext } from "../context.ts";
import { type SingleWrite, singleWrite } from "../decide/single-write.ts";
import { namesOf } from "../item/attributes.ts";
import type { Image } from "../item/codec.ts";
import { drive } from "../process/drive.ts";
import { RETRY } from "../process/retry-policy.ts";
import { readWhole, stateOfShards, withoutDeadline } from "../shards/whole.ts";
import { markWrite, type TakeUse, type ThresholdMarks } from "./mark.ts";

const NOT_TOLD = "a threshold could not be told";

/** After this many outruns by other processes the mark is left to the next take. */
const OUTRUN_MAX = 8;

/** A use that may cross a threshold, and the image of shard 0 seen with it, if any. */
interface Looked {
  readonly bucket: BucketKey;
  readonly use: Use;
  /** The amount of the take. */
  readonly milli: number;
  readonly image: Image | undefined;
}

/** `isAsMet`: as far as this process knows, the mark has not changed since the use. */
interface Met extends Omit<Looked, "bucket"> {
  readonly isAsMet: boolean;
}

/** A whole bucket, with the item that has its marks. */
interface Seen {
  readonly state: BucketState;
  readonly image: Image;
}

/** `outrun`: another process was faster, or the item is gone. */
type Swapped =
  | { readonly kind: "ours" }
  | { readonly kind: "outrun"; readonly image: Image | undefined }
  | { readonly kind: "not written"; readonly cause: unknown };

/** Thresholds of limits that takes have crossed (`notifyAt`), on items: a conditional write swaps the mark in. */
export class Marks implements ThresholdMarks {
  readonly #context: () => ProtocolContext;
  readonly #keeper = new MarkKeeper<Looked>();

  constructor(context: () => ProtocolContext) {
    this.#context = context;
  }

  watch(listener: (crossed: Crossed) => void): () => void {
    return this.#keeper.listeners.watch(listener);
  }

  told(): Promise<void> {
    return this.#keeper.told();
  }

  look(of: Claim | Held, { amounts, readingMs }: TakeUse, left: BucketState, image?: Image): void {
    // Only the limits of the bucket count: a lease may have been taken under older ones, which told nothing.
    if (of.bypass || left.plain) return;
    const { env, caches } = this.#context();
    // Shards without a recent request may be in an earlier period.
    const state = left.shards === undefined ? left : advanced(left, readingMs, env.calendar);
    for (const { limit: name, milli } of amounts) {
      const held = findLimit(state, name);
      if (held?.limit.notifyAt === undefined) continue;
      const use = useOf(held, state, { milli, readingMs }, env.calendar);
      const own = left.shards === undefined ? image : undefined;
      const known = own ?? caches.of(of.bucket).seen(0)?.image;
      const mark = known === undefined ? toldText(held, use) : known.item[namesOf(name).th];
      if (dueOf(use, { now: mark, seen: mark }) !== undefined) {
        this.#begin({ bucket: of.bucket, use, milli, image: own });
      }
    }
  }

  #begin(looked: Looked): void {
    const { bucket, use, image } = looked;
    const { caches, background } = this.#context();
    const run = (one: Looked) => this.#run(one, one === looked ? image : this.#startOf(one));
    const holding = (work: () => Promise<void>) => caches.holding([bucket], work);
    const done = this.#keeper.begin(`${bucket.id}\n${use.limit}`, looked, run, holding);
    if (done !== undefined) background.track(done, bucket, "other", NOT_TOLD);
  }

  /** The mark may have changed since the use: by the latest image there is often nothing left to tell. */
  #startOf({ bucket, image }: Looked): Image | undefined {
    const known = this.#context().caches.of(bucket).seen(0);
    return known?.eventuallyConsistent === false ? (known.image ?? image) : image;
  }

  async #run({ bucket, use, milli, image: met }: Looked, start: Image | undefined): Promise<void> {
    const { th } = namesOf(use.limit);
    let seen = start === undefined ? await this.#read(bucket, use.readingMs) : this.#seenIn(start, use.readingMs);
    for (let outruns = 0; seen !== undefined && outruns < OUTRUN_MAX; outruns++) {
      const held = findLimit(seen.state, use.limit);
      if (held === undefined) return;
      const isAsMet = outruns === 0 && (met === undefined || met === start);
      const now = this.#useNow(held, seen, { use, milli, image: met, isAsMet });
      const marks = { now: seen.image.item[th], seen: met?.item[th], last: this.#lastOf(seen, now) };
      const due = dueOf(now, marks);
      if (due === undefined) return;
      if (due.tell.length === 0) {
        // Only a take proves that usage is low enough to take a mark back: the clock of this process may be ahead. A take of
        // several levels shows no item: others may have taken, and told that, before it was read.
        const isSeen = isAsMet && dueOf(use, marks)?.tell.length === 0;
        if (!isSeen || (met === undefined && this.#usedIn(held, seen.state, { use, milli }) > use.used.after)) return;
      }
      const result = await this.#swap(seen.image, now, due.told);
      if (result.kind === "not written") throw result.cause;
      if (result.kind === "ours") {
        this.#keeper.listeners.tell(due.tell.map((percent) => crossedOf(bucket, now, percent)));
        return;
      }
      if (result.image === undefined) return;
      const isOne = result.image.shardCount === 1;
      seen = isOne ? this.#seenIn(result.image, this.#nowMs(use)) : await this.#read(bucket, this.#nowMs(use));
    }
  }

  /**
   * The use that counts. A bucket in shards must be read as a whole. A quota counts its period, whatever the limit has become
   * since. For a limit that refills, an earlier use is over once the mark has changed: the current use is told. A take of several
   * levels shows no item: others may have given back unseen, so a limit that refills tells no more than the item shows.
   */
  #useNow(held: LimitState, { state, image }: Seen, { use, milli, image: met, isAsMet }: Met): Use {
    const hasPeriods = rulesOf(use.rule).hasPeriods || rulesOf(held.limit).hasPeriods;
    if (image.shardCount === 1 && (isAsMet || hasPeriods)) {
      if (met !== undefined || hasPeriods) return use;
      const after = Math.min(use.used.after, this.#usedIn(held, state, { use, milli }));
      return { ...use, used: { ...use.used, before: Math.min(use.used.before, after), after } };
    }
    // By a clock that is behind, more would seem used than any take has left.
    const readingMs = isAsMet ? use.readingMs : Math.max(this.#nowMs(use), state.writtenMs ?? 0);
    return useOf(held, state, { milli: isAsMet ? milli : 0, readingMs }, this.#context().env.calendar);
  }

  #usedIn(held: LimitState, state: BucketState, { use, milli }: Pick<Met, "use" | "milli">): number {
    return useOf(held, state, { milli, readingMs: use.readingMs }, this.#context().env.calendar).used.after;
  }

  /** The period of the last take. Shards are read now, so they are in the current one. */
  #lastOf({ image }: Seen, { limit, period }: Use): string | undefined {
    const { state, shardCount } = image;
    const held = shardCount === 1 ? findLimit(state, limit) : undefined;
    return held === undefined ? period : periodOf(held, state.epochMs, this.#context().env.calendar);
  }

  /** Swaps the mark in. The number of the write stays on the item until another mark replaces it, so a lost answer is sent again. */
  #swap(image: Image, use: Use, percent: number): Promise<Swapped> {
    const context = this.#context();
    const number = context.nonces.next();
    const { tb } = namesOf(use.limit);
    const write = markWrite(image.key, image.item, use, { percent, number });
    const plan: SingleWrite<Swapped> = {
      readingMs: use.readingMs,
      writeFor: () => write,
      answered: (event) => {
        if (event.kind === "refused") return { result: { kind: "not written", cause: event.cause } };
        if (event.kind === "applied") return { result: { kind: "ours" } };
        if (event.kind !== "failed") return undefined;
        const found = event.seen.image;
        return { result: found?.item[tb] === number ? { kind: "ours" } : { kind: "outrun", image: found } };
      },
      gaveUp: (over) => ({ kind: "not written", cause: new Error(`There is no more ${over} for it.`) }),
    };
    const machine = singleWrite(plan, () => undefined, Number.POSITIVE_INFINITY);
    return drive(machine, undefined, { policy: RETRY.notify }, context);
  }

  async #read(bucket: BucketKey, readingMs: number): Promise<Seen | undefined> {
    const context = this.#context();
    const [whole] = await readWhole(context, [bucket], withoutDeadline(readingMs));
    const image = whole?.images.find(({ key }) => key.shard === 0);
    if (whole === undefined || image === undefined) return undefined;
    const { calendar } = context.env;
    return { image, state: advanced(stateOfShards(whole.images, calendar), readingMs, calendar) };
  }

  #seenIn(image: Image, readingMs: number): Seen {
    return { image, state: advanced(image.state, readingMs, this.#context().env.calendar) };
  }

  #nowMs({ readingMs }: Use): number {
    return Math.max(readingMs, this.#context().clock.now());
  }
}
