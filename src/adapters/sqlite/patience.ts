/**
 * How to wait for a write lock that another process holds. SQLite's own busy handler sleeps longer with every try, so a
 * process that keeps writing starves the other for seconds; a short random sleep meets the gaps between its transactions.
 */
export const NAP_MAX_MS = 0.1;

/** Naps before a call stops blocking its event loop and waits on a timer: a few milliseconds at most. */
export const NAPS_MAX = 40;

/** And on each turn of that timer: whoever has the lock keeps it for long, and others want the event loop. */
export const NAPS_LATER_MAX = 8;

/** How long a change of configuration, or a read that meets a recovery, waits. */
export const CHANGE_WAIT_MS = 1_000;

/** Opening waits longer: another process may be migrating the file. */
export const OPEN_WAIT_MS = 5_000;

const cell = new Int32Array(new SharedArrayBuffer(4));

/** Blocks the thread for a random time up to `NAP_MAX_MS`. */
export function nap(random: () => number): void {
  Atomics.wait(cell, 0, 0, random() * NAP_MAX_MS);
}

/** The delay of the timer between two rounds of naps. */
export function pauseMs(random: () => number): number {
  return 1 + Math.floor(random() * 3);
}
