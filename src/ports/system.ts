/** Time in ms since the Unix epoch. */
export interface Clock {
  now(): number;
  /** Ms since some instant, with fractions, going on evenly: how long something took. Absent: `now` tells it. */
  steadyMs?(): number;
  /** Waits; rejects with the signal's reason when aborted. A simulated clock resolves when it is advanced. */
  sleep(ms: number, signal: AbortSignal | undefined): Promise<void>;
  /** The same, but the process may end meanwhile. Absent: `sleep` does not keep it alive either. */
  sleepInBackground?(ms: number, signal: AbortSignal | undefined): Promise<void>;
}

/** A short text that stands for a long one: the same for the same, and two that differ never have one. */
export interface Digest {
  of(text: string): string;
}

export interface Random {
  /** A new identifier, url-safe, never twice. */
  id(): string;
}

/** The turns of whatever runs this process's other work. */
export interface Turns {
  /** Resolves after other work that is ready has run. */
  next(): Promise<void>;
}

/** Tells whoever runs this process what is probably a mistake. */
export interface Warnings {
  /** Tells it once for each key, and not for ever: after so many warnings the rest is kept quiet. Answers whether it was told now. */
  once(key: string, text: () => string): boolean;
  /** Another warning has told it. */
  done(key: string): void;
}
