import { type BucketKey, TOTAL_RESOURCE } from "../../src/domain/bucket/bucket-key.ts";
import type { BucketState } from "../../src/domain/bucket/bucket-state.ts";
import { type LevelConfig, levelAt } from "../../src/domain/config/config.ts";
import type { Limit } from "../../src/domain/limits/limit.ts";
import { limitSet, type SetOrigin } from "../../src/domain/limits/limit-set.ts";
import type { ModelBucket } from "../kit/model-bucket.ts";
import type { Journal } from "./journal.ts";
import type { Truth } from "./truth.ts";
import type { Since } from "./truth-levels.ts";

/** A write that brings no limits of its own. */
interface Write {
  readonly nowMs: number;
  /**
   * Changes up to this one must be met, and the ends behind them that its reading shows: so many changes of anything had been made when it
   * began. Later ones may be, and ends that another clock has shown.
   */
  readonly dueRank: number;
  /** The last write that went by the limits of a lease. */
  readonly heldMs: number | undefined;
}

/** What a write brings of changes by itself. */
export interface Brought {
  readonly origin?: SetOrigin | undefined;
  readonly isByLease?: boolean;
}

/**
 * Which changes of stored limits buckets have met by writes that are no takes: those go by what is stored, and not by what their lease
 * knows. The store knows a change by its number and the truth by its rank; which is which shows whenever somebody reads configuration.
 */
export class MetChanges {
  readonly #truth: Truth;
  readonly #journal: Journal;
  readonly #latestMs: () => number;
  readonly #ranks = new Map<number, number>();
  /** Buckets of which it is not known what a write has done to them. */
  readonly #doubted = new Set<string>();

  /** `latestMs`: the latest instant that any clock shows. */
  constructor(truth: Truth, journal: Journal, latestMs: () => number) {
    this.#latestMs = latestMs;
    this.#truth = truth;
    this.#journal = journal;
  }

  /** Somebody has read a level. */
  read(entityId: string, resource: string, found: LevelConfig): void {
    for (const { fromMs, version } of this.#truth.stages(entityId, resource)) {
      const { changes = [], totalsChanges = [] } = levelAt(found, fromMs);
      const { onResource, totals } = version;
      for (const [i, { number }] of changes.entries()) this.#ranks.set(number, onResource.changes[i]?.number ?? 0);
      for (const [i, { number }] of totalsChanges.entries()) this.#ranks.set(number, totals.changes[i]?.number ?? 0);
    }
  }

  doubt({ id }: BucketKey): void {
    this.#doubted.add(id);
  }

  /**
   * Before a write is told to the model: one before it, of which nothing was heard, may have met changes, or itself, where it goes by the
   * limits of a lease.
   */
  perhaps(bucket: BucketKey, model: ModelBucket, state: BucketState, write: Omit<Write, "dueRank"> & Brought): void {
    // A take by the limits of a lease meets what is stored before them.
    const isByStored = write.isByLease && state.origin.generation !== null;
    const known = Math.max(model.metNumber, isByStored ? 0 : (write.origin?.changeNumber ?? 0));
    const isFurther = (state.origin.changeNumber ?? 0) > known;
    if (isFurther && (write.isByLease || this.#doubted.has(bucket.id)))
      this.met(bucket, model, state, { ...write, dueRank: 0 });
  }

  /** The model meets what the store's bucket has met, each change from its instant; what is wrong with that. */
  met(bucket: BucketKey, model: ModelBucket, state: BucketState, { nowMs, dueRank, heldMs }: Write): string[] {
    // One that goes by limits of a request stays: stored ones come back with a request.
    if (model.origin.generation === null) return [];
    // What is hidden until an end that its reading does not show is not due.
    const due = this.#unmet(bucket, model, nowMs).findLast(({ number }) => Math.floor(number) <= dueRank);
    const { changeNumber = 0, generation } = state.origin;
    if (changeNumber <= model.metNumber) {
      return due === undefined ? [] : [`a write left it without the change from ${due.fromMs} on`];
    }
    const unmet = this.#unmet(bucket, model, this.#latestMs());
    const dueLast = unmet.findLastIndex(({ number }) => number <= (due?.number ?? 0));
    const last = Math.max(dueLast, this.#lastMet(unmet, state));
    const met = unmet.slice(0, last + 1).map(({ fromMs, limits }) => ({ fromMs, set: limitSet(limits) }));
    const newest = met.at(-1);
    if (newest === undefined) return [`a write brought it to the change ${changeNumber}, which was not made`];
    this.#journal.count("changes met by writes that are no takes");
    this.#ranks.set(changeNumber, unmet[last]?.number ?? 0);
    const changes = met.map((change) => ({ ...change, number: changeNumber }));
    model.bring(newest.set, { asOfMs: nowMs, generation: generation ?? 0, changeNumber, changes }, nowMs, heldMs);
    return [];
  }

  /** Whether a change that the bucket has not met makes something else of a limit of slots. */
  endsSlots(bucket: BucketKey, model: ModelBucket, name: string): boolean {
    const isOther = (limit: Limit) => limit.name === name && limit.holdMs === undefined;
    return this.#unmet(bucket, model, this.#latestMs()).some(({ limits }) => limits.some(isOther));
  }

  #unmet({ entityId, resource }: BucketKey, model: ModelBucket, readingMs: number): readonly Since[] {
    const { onResource, totals } = this.#truth.levelBy(entityId, resource, readingMs);
    // Nobody can go by levels that do not go together.
    if (onResource.isTorn || totals.isTorn) return [];
    const metRank = this.#ranks.get(model.metNumber) ?? 0;
    return (resource === TOTAL_RESOURCE ? totals : onResource).changes.filter(({ number }) => number > metRank);
  }

  /** By its number where somebody has read it, otherwise by its limits; all of them where others were brought by the same write. */
  #lastMet(unmet: readonly Since[], { origin, signature }: BucketState): number {
    const rank = this.#ranks.get(origin.changeNumber ?? 0);
    if (rank !== undefined) return unmet.findLastIndex(({ number }) => number <= rank);
    const last = unmet.findLastIndex(({ limits }) => limitSet(limits).signature === signature);
    return last < 0 ? unmet.length - 1 : last;
  }
}
