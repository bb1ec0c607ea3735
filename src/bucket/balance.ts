/** How time acts on a balance between two boundaries: `refillAmountMilli` every `refillPeriodMs`, up to `capacityMilli`. */
export interface Terms {
  readonly capacityMilli: number;
  readonly refillAmountMilli: number;
  readonly refillPeriodMs: number;
}

/**
 * Tokens as they stood at an epoch. Negative without any debt, or above the capacity without any harm: the level at a time
 * is computed from the epoch, and what stands over the brim is cut off when tokens are taken, not when they drip in.
 */
export interface Balance {
  readonly tokensMilli: number;
  /** What the last rebase left over below one millitoken, as a numerator over `refillPeriodMs`. */
  readonly remainder: number;
}

/** The most that a balance may owe: past this, millitokens would no longer be exact. */
export const DEBT_MAX_MILLI = 9_000_000_000_000_000;
