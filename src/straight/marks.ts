import type { BucketKey } from "../domain/bucket/bucket-key.ts";
import { advanced, type BucketState, findLimit } from "../domain/bucket/bucket-state.ts";
import { dueOf, MarkKeeper, periodOf, toldText, type Use, useOf } from "../domain/bucket/mark-keeper.ts";
import type { Amount } from "../domain/charge/amounts.ts";
import { rulesOf } from "../domain/limits/kinds/table.ts";
import type { Calendar } from "../domain/limits/schedule.ts";
import { crossedOf } from "../domain/limits/thresholds.ts";
import { RateLimiterUnavailable } from "../domain/names/errors.ts";
import type { BatchStore, VersionedRow } from "../ports/batch-store.ts";
import type { Claim, Held } from "../ports/bucket-store.ts";
import { marksIn, marksWith, recordOfRow } from "./row-codec.ts";

/** A mark is left to the next take after this many tries: others were faster, or the store did not answer. */
const TRIES_MAX = 8;

/** A use that may have something to tell. */
interface Looked {
  readonly bucket: BucketKey;
  readonly use: Use;
}

interface MarksParts {
  readonly store: Pick<BatchStore, "mark" | "read">;
  readonly namespaceId: string;
  readonly calendar: Calendar;
  readonly now: () => number;
}

/** Percentages of limits that takes have reached (`notifyAt`), on a store that takes in batches: the mark is swapped in by a second statement. */
export class StraightMarks {
  readonly keeper = new MarkKeeper<Looked>();
  readonly #parts: MarksParts;
  #numbers = 0;
  /** By which this process knows its own marks. */
  readonly #id: string;

  constructor(parts: MarksParts, id: string) {
    this.#parts = parts;
    this.#id = id;
  }

  /** A take or a debit left the bucket in this state. */
  look(of: Claim | Held, amounts: readonly Amount[], state: BucketState, readingMs: number): void {
    // By the limits that the bucket has: a lease may have been taken under older ones, which told nothing.
    if (of.bypass || state.plain) return;
    for (const { limit: name, milli } of amounts) {
      const held = findLimit(state, name);
      if (held?.limit.notifyAt === undefined) continue;
      const use = useOf(held, state, { milli, readingMs }, this.#parts.calendar);
      const mark = toldText(held, use);
      if (dueOf(use, { now: mark, seen: mark }) !== undefined) {
        // Marks of a bucket are one value.
        void this.keeper.begin(of.bucket.id, { bucket: of.bucket, use }, this.#run, (work) => work());
      }
    }
  }

  /** A store that does not answer has not told it: the next take does. */
  readonly #run = (looked: Looked): Promise<void> => this.#swap(looked).catch(() => {});

  async #swap({ bucket, use }: Looked): Promise<void> {
    const { store, namespaceId } = this.#parts;
    const number = `${this.#id}${++this.#numbers}`;
    let sent: { readonly use: Use; readonly tell: readonly number[] } | undefined;
    let met: string | undefined;
    for (let tries = 0; tries < TRIES_MAX; tries++) {
      const [row] = await store.read(namespaceId, [bucket]);
      if (row === undefined) return;
      const [mark, its] = marksIn(row.marks)[use.limit] ?? [];
      // An answer was lost, and it was ours.
      if (its === number && sent !== undefined) return this.#tell(bucket, sent.use, sent.tell);
      if (tries === 0) met = its;
      const isAsMet = its === met;
      const now = this.#now(bucket, row, use, isAsMet);
      // It is read after the take: what the take itself met is not known.
      const due = now && dueOf(now.use, { now: mark, seen: undefined, last: now.last });
      if (now === undefined || due === undefined) return;
      // Only the take itself saw that so little is used that a mark is taken back; others may have taken, and told that, since.
      if (due.tell.length === 0 && (!isAsMet || now.isMoreUsed)) return;
      sent = { use: now.use, tell: due.tell };
      const next = marksWith(row.marks, use.limit, { percent: due.told, period: use.period, number });
      try {
        if (await store.mark(namespaceId, bucket, { seen: row.marks, next })) {
          return this.#tell(bucket, now.use, due.tell);
        }
      } catch (error) {
        if (!(error instanceof RateLimiterUnavailable)) throw error;
      }
    }
  }

  /** `isAsMet`: the mark of this limit is the one that was there when its take was first looked at. */
  #now(bucket: BucketKey, row: VersionedRow, use: Use, isAsMet: boolean) {
    const { calendar, now } = this.#parts;
    const readingMs = Math.max(use.readingMs, now());
    const { state: stored } = recordOfRow(row, bucket, calendar);
    const state = advanced(stored, readingMs, calendar);
    const held = findLimit(state, use.limit);
    const before = findLimit(stored, use.limit);
    if (held === undefined || before === undefined) return undefined;
    const last = periodOf(before, stored.epochMs, calendar);
    // If a limit refills, an earlier use is over once the mark has changed. A quota may have become such a limit.
    const seen = useOf(held, state, { milli: 0, readingMs: isAsMet ? use.readingMs : readingMs }, calendar);
    const isMoreUsed = seen.used.after > use.used.after;
    const hasPeriods = rulesOf(use.rule).hasPeriods || rulesOf(held.limit).hasPeriods;
    if (isAsMet || hasPeriods) return { use, last, isMoreUsed };
    return { use: { ...seen, period: use.period }, last, isMoreUsed };
  }

  #tell(bucket: BucketKey, use: Use, percents: readonly number[]): void {
    this.keeper.listeners.tell(percents.map((percent) => crossedOf(bucket, use, percent)));
  }
}
