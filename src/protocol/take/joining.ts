import type { Job } from "./job.ts";

/** Whether two jobs may be sent in one write. */
export function mayJoin(first: Job, next: Job): boolean {
  const isAlike = first.kind === next.kind && first.of.set.signature === next.of.set.signature;
  // What is held for different times goes into different slices.
  if (first.of.holdMs !== next.of.holdMs) return false;
  // Together they must stay among the exact numbers.
  if (!isAlike || isTooLargeToJoin(first) || isTooLargeToJoin(next)) return false;
  // What is sent together ends together, by the earliest deadline: a job with hardly any time left goes by itself.
  if (Math.abs(next.untilMs - first.untilMs) > (first.untilMs - first.readingMs) / 2) return false;
  // A job that cannot be sent to read configuration again does not hold up those that can.
  return (first.of.origin.reading === undefined) === (next.of.origin.reading === undefined);
}

function isTooLargeToJoin({ amounts }: Job): boolean {
  return amounts.some(({ milli }) => milli > JOINED_AMOUNT_MAX_MILLI);
}

/** A thousand of these can be summed up. */
const JOINED_AMOUNT_MAX_MILLI = 1_000_000_000_000;
