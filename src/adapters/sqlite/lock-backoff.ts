/**
 * How to wait for a write lock that another process holds. SQLite's own busy handler sleeps longer with every try, so a
 * process that keeps writing starves the other for seconds; a short random sleep meets the gaps between its transactions.
 */
const BLOCK_MAX_MS = 0.1;

/** How often a call tries again while blocking its event loop, before it waits on a timer: a few milliseconds at most. */
export const BLOCKING_RETRIES_MAX = 40;

/** The same after the first wait on the timer: a lock that was held so long stays held, and others want the event loop. */
export const BLOCKING_RETRIES_LATER_MAX = 8;

/** How long a change of configuration, or a read that meets a recovery, waits. */
export const CHANGE_WAIT_MS = 1_000;

/** Opening waits longer: another process may be migrating the file. */
export const OPEN_WAIT_MS = 5_000;

const cell = new Int32Array(new SharedArrayBuffer(4));

/** Blocks the thread for a random time up to `BLOCK_MAX_MS`. */
export function blockBriefly(random: () => number): void {
  Atomics.wait(cell, 0, 0, random() * BLOCK_MAX_MS);
}

/** The delay of the timer between two rounds of blocking retries. */
export function retryDelayMs(random: () => number): number {
  return 1 + Math.floor(random() * 3);
}
