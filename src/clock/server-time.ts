/** What a process knows of the time of the store's servers. */
export interface ServerTime {
  /** The latest that the server's clock can show; `Infinity` where that is not known. */
  latestMs(): number;
  /** Whether an answer has shown the server's time; always true of a clock that does not go by it. */
  isKnown(): boolean;
}

/** For a clock that is believed as it is. */
export const TRUSTED_CLOCK: ServerTime = { latestMs: () => Number.POSITIVE_INFINITY, isKnown: () => true };
