/** Time in ms since the Unix epoch. */
export interface Clock {
  now(): number;
  /** Waits; rejects with the signal's reason when aborted. A simulated clock resolves when it is advanced. */
  sleep(ms: number, signal: AbortSignal | undefined): Promise<void>;
}

export interface Random {
  /** A new identifier, url-safe, never twice. */
  id(): string;
}
