/**
 * Rules of the protocol that a short trace breaks the promise without. All of them hold, always; a test switches one off to
 * show that something fails then.
 */
export interface Rules {
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
  sharedRebasesOver: true,
  sharedCreditMarks: true,
  sharedKeepsExpired: true,
  sharedReadsAfter: true,
  sharedKeepsShards: true,
  sharedPinsTerms: true,
  sharedKeepsStored: true,
};
