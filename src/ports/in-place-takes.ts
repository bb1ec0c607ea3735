import type { BucketState } from "../domain/bucket/bucket-state.ts";
import type { Slice } from "../domain/bucket/holds.ts";
import type { LimitedBucket } from "../domain/bucket/limited-bucket.ts";
import type { Amount } from "../domain/charge/amounts.ts";
import type { BucketStore, TakenAnswer } from "./bucket-store.ts";

/**
 * The shortest way, which a store in this process's memory has beside its port: one bucket, no plan and hardly an object. A store
 * need not have it, and a limiter that does not find it takes the other way.
 */
export interface InPlaceTakes {
  /**
   * An answer if it was taken. Undefined when it was not, for whatever reason: nothing has changed then, and `BucketStore.take`
   * answers why.
   */
  takeOne(
    of: PlacedBucket,
    take: readonly Amount[],
    nowMs: number,
    generation: number | undefined,
  ): TakenInPlace | undefined;
}

/** A bucket that is asked for again and again by the same object. */
export interface PlacedBucket extends LimitedBucket {
  /** Where the store last found it, for the store alone. */
  place?: unknown;
}

/** Buckets that may have the shortest way. */
export type BucketsMaybeInPlace = BucketStore & Partial<InPlaceTakes>;

export interface TakenInPlace extends TakenAnswer {
  /** Where later takes write the same state in place until it is first looked at. */
  readonly shared?: SharedState;
}

/**
 * The tokens of each limit, in the order of the state's limits. Of one limit, and of two, they are numbers: of the first here, of the
 * second beside it, so that no list is made. A bucket with slots has the slices of each limit after its tokens, always in a list.
 */
export type TokensLeft = number | readonly (number | readonly Slice[])[];

/** A state that later takes go on changing. */
export interface SharedState {
  /** What the latest take left: to be asked before anything else is done with the bucket. */
  tokensLeft(): TokensLeft;
  /** Undefined where there are not two, or all are in the list. */
  secondLeft(): number | undefined;
  /** The state as the take that left these tokens showed it; a value of its own. */
  stateWith(left: TokensLeft, ofSecond: number | undefined): BucketState;
}
