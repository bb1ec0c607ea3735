import { divCeil } from "../bucket/integers.ts";

/**
 * Bounds of the server's time: server time minus this machine's steady time, in whole ms, lies between `earliestMs` and
 * `latestMs` at the steady instant `atMs`, and up to 200 ppm further out for every ms since.
 *
 * The bounds are relative to the steady clock, which cannot be set. So the local clock may be set off by an hour at any moment,
 * also while a request is under way, and nothing here becomes wrong.
 */
export interface ClockBounds {
  readonly earliestMs: number;
  readonly latestMs: number;
  /** Steady time at which the request left whose answer tightened the bounds last. */
  readonly atMs: number;
}

/** The Date of one answer, and the steady time before its request left and after the answer was there. */
export interface Observation {
  readonly dateMs: number;
  readonly sentMs: number;
  readonly receivedMs: number;
}

/**
 * The bounds after one more answer; the same object if it taught nothing.
 *
 * A Date is rounded down to the second, and readings to the millisecond. So the server stamped it in [date, date + 1 s), and that
 * was in [sent, received + 1 ms) of our time: the offset lies between date - received - 1 and date + 1 s - sent, both ends
 * excluded. The difference of two whole readings, rounded down either side, does reach both ends. Hence a reading at an end is
 * believed, but bounds with nothing between their ends are a contradiction.
 *
 * An answer that contradicts the bounds replaces them: the machine slept, or two servers disagree, and the latest answer is
 * nearer to what the next write will meet.
 */
export function observed(
  bounds: ClockBounds | undefined,
  { dateMs, sentMs, receivedMs }: Observation,
): ClockBounds | undefined {
  // The clock ran backwards, so it does not show how long the answer took: any upper bound from it might be too tight.
  if (receivedMs < sentMs) return bounds;
  const seen = { earliestMs: dateMs - receivedMs - 1, latestMs: dateMs + 1000 - sentMs, atMs: sentMs };
  if (bounds === undefined) return seen;

  // Both as of the same instant. Answers overtake each other, so the newer of the two may be either.
  const atMs = Math.max(bounds.atMs, sentMs);
  const knownDriftMs = driftMs(atMs - bounds.atMs);
  const seenDriftMs = driftMs(atMs - sentMs);
  const earliestMs = Math.max(bounds.earliestMs - knownDriftMs, seen.earliestMs - seenDriftMs);
  const latestMs = Math.min(bounds.latestMs + knownDriftMs, seen.latestMs + seenDriftMs);
  if (earliestMs >= latestMs) return seen;

  // Drift is rounded up to a whole ms. Were it added for every answer, a thousand answers a second would add a second of it.
  const isTighter = earliestMs > bounds.earliestMs - knownDriftMs || latestMs < bounds.latestMs + knownDriftMs;
  return isTighter ? { earliestMs, latestMs, atMs } : bounds;
}

/** The local reading where it can be the server's time, otherwise the nearest time that can. */
export function correctedMs(localMs: number, bounds: ClockBounds | undefined, steadyMs: number): number {
  if (bounds === undefined) return localMs;
  const drift = driftSince(bounds, steadyMs);
  const latest = steadyMs + bounds.latestMs + drift;
  if (localMs > latest) return latest;
  const earliest = steadyMs + bounds.earliestMs - drift;
  return localMs < earliest ? earliest : localMs;
}

/** The latest time that the server's clock can show at this steady time; Infinity when nothing is known. */
export function latestMs(bounds: ClockBounds | undefined, steadyMs: number): number {
  if (bounds === undefined) return Number.POSITIVE_INFINITY;
  return steadyMs + bounds.latestMs + driftSince(bounds, steadyMs);
}

/** More than a cheap quartz drifts in heat or cold. */
const DRIFT_PPM = 200;

function driftSince(bounds: ClockBounds, steadyMs: number): number {
  // The millisecond of the reading may be nearly over.
  return driftMs(steadyMs + 1 - bounds.atMs);
}

/** The drift of two clocks in this many ms, rounded up. */
function driftMs(ms: number): number {
  return ms <= 0 ? 0 : divCeil(ms * DRIFT_PPM, 1_000_000);
}

/** Knowledge of a process about the time of the store's servers. */
export interface ServerTime {
  /** The latest that the server's clock can show; `Infinity` where that is not known. */
  latestMs(): number;
  /** True once an answer has shown the server's time; always true for a clock that is not disciplined by it. */
  isKnown(): boolean;
}

/** For a local clock that is trusted as it is. */
export const TRUSTED_CLOCK: ServerTime = { latestMs: () => Number.POSITIVE_INFINITY, isKnown: () => true };
