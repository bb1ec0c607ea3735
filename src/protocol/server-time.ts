/** What a process knows of the time of the store's servers. */
export interface ServerTime {
  /** The latest that the server's clock can show; `Infinity` where nobody knows. */
  latestMs(): number;
  /** Whether the clock has heard of the server's time; always true of one that does not listen. */
  isKnown(): boolean;
}

/** For a clock that is believed as it is. */
export const TRUSTED_CLOCK: ServerTime = { latestMs: () => Number.POSITIVE_INFINITY, isKnown: () => true };
