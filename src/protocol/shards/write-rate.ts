/** How many writes an item gets, seen from its counter of all clients' writes. */
export interface Rate {
  /** Counter and time at the beginning of the span that is being measured. */
  readonly sinceWrites: number;
  readonly sinceMs: number;
  /** Writes a second in the last span; undefined until one has passed. */
  readonly perSecond: number | undefined;
  /** How many spans in a row were above the threshold. */
  readonly busySpans: number;
}

const SPAN_MS = 1_000;

/** An item takes about 1000 writes a second. */
export const BUSY_PER_SECOND = 800;

/** The rate after one more look at the counter. A counter that went back belongs to another item. */
export function ratedAgain(rate: Rate | undefined, writes: number, atMs: number): Rate {
  if (rate === undefined || writes < rate.sinceWrites || atMs < rate.sinceMs) {
    return { sinceWrites: writes, sinceMs: atMs, perSecond: undefined, busySpans: 0 };
  }
  const spanMs = atMs - rate.sinceMs;
  if (spanMs < SPAN_MS) return rate;
  const perSecond = ((writes - rate.sinceWrites) * 1000) / spanMs;
  const busySpans = perSecond >= BUSY_PER_SECOND ? rate.busySpans + 1 : 0;
  return { sinceWrites: writes, sinceMs: atMs, perSecond, busySpans };
}
