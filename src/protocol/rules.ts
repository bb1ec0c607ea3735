/**
 * Rules of the protocol that a short trace breaks the promise without. All of them hold, always; a test switches one off to
 * show that something fails then.
 */
export interface Rules {
  /** The epoch only grows, and strictly, so that an epoch pins everything told from it. */
  readonly epochGrows: boolean;
  /** What was taken from a quota is given back only into the period it was taken in. */
  readonly creditPins: boolean;
  /** A rebase says of every limit on the item on which side of the brim it stands, also of those not taken. */
  readonly allSides: boolean;
  /** A shard that is missing is not made before shard 0 was asked how many there are. */
  readonly shardZeroFirst: boolean;
  /** One reading of the clock for all rounds of an acquire. */
  readonly oneReading: boolean;
  /** An item does not expire before it is full. */
  readonly ttlCovers: boolean;
  /** Limits are brought to an item only from a later reading of configuration than the item's own. */
  readonly configOrder: boolean;
  /** A shard that goes is pinned by its tokens too. */
  readonly halvePinsTokens: boolean;
  /** Shared table: over the brim is a rebase. */
  readonly sharedRebasesOver: boolean;
  /** Shared table: a give-back above the brim says so. */
  readonly sharedCreditMarks: boolean;
  /** Shared table: what has expired and is still there is advanced, not replaced. */
  readonly sharedKeepsExpired: boolean;
  /** Shared table: parameters are written only from configuration that was read after the image they are pinned to. */
  readonly sharedReadsAfter: boolean;
  /** Shared table: the number of shards is the original's affair. */
  readonly sharedKeepsShards: boolean;
  /** Shared table: parameters are pinned, because the original changes them in place. */
  readonly sharedPinsTerms: boolean;
  /** Shared table: stored tokens do not go below nothing, lest parameters that change in place multiply what they stand for. */
  readonly sharedKeepsStored: boolean;
}

export const ALL_RULES: Rules = {
  epochGrows: true,
  creditPins: true,
  allSides: true,
  shardZeroFirst: true,
  oneReading: true,
  ttlCovers: true,
  configOrder: true,
  halvePinsTokens: true,
  sharedRebasesOver: true,
  sharedCreditMarks: true,
  sharedKeepsExpired: true,
  sharedReadsAfter: true,
  sharedKeepsShards: true,
  sharedPinsTerms: true,
  sharedKeepsStored: true,
};
