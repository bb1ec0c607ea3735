import type { BucketKey } from "../../domain/bucket/bucket-key.ts";
import { advanced, type BucketState, findLimit, type LimitState, wholeOf } from "../../domain/bucket/bucket-state.ts";
import { MarkKeeper } from "../../domain/bucket/mark-keeper.ts";
import { crossedOf, dueOf, periodOf, toldText, type Use, useOf } from "../../domain/bucket/mark-words.ts";
import { rulesOf } from "../../domain/limits/kinds/table.ts";
import type { Crossed } from "../../domain/limits/thresholds.ts";
import type { Claim, Held } from "../../ports/bucket-store.ts";
import type { ProtocolContext } from "../context.ts";
import {
  type MarkAction,
  type MarkPlan,
  type MarkProgress,
  type MarkResult,
  markEnded,
  nextMark,
  onMark,
  SENDING_MARK,
} from "../decide/mark.ts";
import { namesOf } from "../item/attributes.ts";
import type { Image } from "../item/codec.ts";
import { drive } from "../process/drive.ts";
import type { Machine } from "../process/machine.ts";
import { RETRY } from "../process/retry-policy.ts";
import type { BackgroundTasks } from "../shards/background-tasks.ts";
import { readWhole, withoutDeadline } from "../shards/whole.ts";
import { markWrite, type TakeUse, type ThresholdMarks } from "./mark.ts";

/** What was not done, as it is told. */
const NOT_TOLD = "a threshold could not be told";

/** So often another process may be faster with a mark before this one leaves it to the next take. */
const OUTRUN_MAX = 8;

/** A use that may have something to tell, and how shard 0 was seen with it; undefined: it was not. */
interface Looked {
  readonly bucket: BucketKey;
  readonly use: Use;
  /** What it took. */
  readonly milli: number;
  readonly image: Image | undefined;
}

/** `isAsMet`: nothing has changed the mark since the use met it, as far as this process knows. */
interface Met extends Omit<Looked, "bucket"> {
  readonly isAsMet: boolean;
}

/** A bucket as a whole, with the item that has its marks. */
interface Seen {
  readonly state: BucketState;
  readonly image: Image;
}

/** Percentages of limits that takes have reached (`notifyAt`), on items: the mark is swapped in by a conditional write. */
export class Marks implements ThresholdMarks {
  readonly #context: () => ProtocolContext;
  readonly #background: () => BackgroundTasks;
  readonly #keeper = new MarkKeeper<Looked>();

  constructor(context: () => ProtocolContext, background: () => BackgroundTasks) {
    this.#context = context;
    this.#background = background;
  }

  watch(listener: (crossed: Crossed) => void): () => void {
    return this.#keeper.listeners.watch(listener);
  }

  told(): Promise<void> {
    return this.#keeper.told();
  }

  look(of: Claim | Held, { amounts, readingMs }: TakeUse, left: BucketState, image?: Image): void {
    // By the limits that the bucket has: a lease may have been taken under older ones, which told nothing.
    if (of.bypass || left.plain) return;
    const { env, caches } = this.#context();
    // Shards that no request came to since may be in an earlier period.
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
    const { caches } = this.#context();
    const run = (one: Looked) => this.#run(one, one === looked ? image : this.#startOf(one));
    const holding = (work: () => Promise<void>) => caches.holding([bucket], work);
    const done = this.#keeper.begin(`${bucket.id}\n${use.limit}`, looked, run, holding);
    if (done !== undefined) this.#background().track(done, bucket, "other", NOT_TOLD);
  }

  /** The mark may have changed since a use met it: by what is known now it often has nothing to tell any more. */
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
        // Only a take sees that so little is used that a mark is taken back: the clock of this process may be ahead of theirs. One of
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
   * What counts as used. Of a bucket in shards only reading all of them tells. Of a quota it is what was used in its period, whatever the
   * limit has become since. Of a limit that refills, what was used once is over when the mark has changed since: what is used now is told. A
   * take of several levels shows no item: others may have given back before it what this process did not know of, and of a limit that refills
   * no more is told than the item shows.
   */
  #useNow(held: LimitState, { state, image }: Seen, { use, milli, image: met, isAsMet }: Met): Use {
    const hasPeriods = rulesOf(use.rule).hasPeriods || rulesOf(held.limit).hasPeriods;
    if (image.shardCount === 1 && (isAsMet || hasPeriods)) {
      if (met !== undefined || hasPeriods) return use;
      const after = Math.min(use.used.after, this.#usedIn(held, state, { use, milli }));
      return { ...use, used: { ...use.used, before: Math.min(use.used.before, after), after } };
    }
    // By a clock that is behind, more would be used than any take has left.
    const readingMs = isAsMet ? use.readingMs : Math.max(this.#nowMs(use), state.writtenMs ?? 0);
    return useOf(held, state, { milli: isAsMet ? milli : 0, readingMs }, this.#context().env.calendar);
  }

  #usedIn(held: LimitState, state: BucketState, { use, milli }: Pick<Met, "use" | "milli">): number {
    return useOf(held, state, { milli, readingMs: use.readingMs }, this.#context().env.calendar).used.after;
  }

  /** The period that was last taken from: shards are looked at now, and have come as far as that. */
  #lastOf({ image }: Seen, { limit, period }: Use): string | undefined {
    const { state, shardCount } = image;
    const held = shardCount === 1 ? findLimit(state, limit) : undefined;
    return held === undefined ? period : periodOf(held, state.epochMs, this.#context().env.calendar);
  }

  #swap(image: Image, use: Use, percent: number): Promise<MarkResult> {
    const context = this.#context();
    const number = context.nonces.next();
    const { tb } = namesOf(use.limit);
    const plan: MarkPlan = {
      readingMs: use.readingMs,
      write: markWrite(image.key, image.item, use, { percent, number }),
      isOurs: ({ item }) => item[tb] === number,
    };
    const machine: Machine<MarkProgress, MarkAction, MarkResult> = {
      ended: markEnded,
      next: (progress, turn) => nextMark(progress, turn, plan),
      on: (progress, action, event) => onMark(progress, action, event, plan),
      untilMs: () => Number.POSITIVE_INFINITY,
      throttled: () => {},
    };
    const policy = RETRY.notify;
    return drive(machine, SENDING_MARK, { policy, attemptsMax: policy.attempts, caller: undefined }, context);
  }

  /** The whole bucket, read now; undefined where there is none. */
  async #read(bucket: BucketKey, readingMs: number): Promise<Seen | undefined> {
    const context = this.#context();
    const [whole] = await readWhole(context, [bucket], withoutDeadline(readingMs));
    const image = whole?.images.find(({ key }) => key.shard === 0);
    if (whole === undefined || image === undefined) return undefined;
    const state = wholeOf(
      whole.images.map((one) => one.state),
      context.env.calendar,
    );
    return { image, state: advanced(state, readingMs, context.env.calendar) };
  }

  #seenIn(image: Image, readingMs: number): Seen {
    return { image, state: advanced(image.state, readingMs, this.#context().env.calendar) };
  }

  #nowMs({ readingMs }: Use): number {
    return Math.max(readingMs, this.#context().clock.now());
  }
}
