import type { BucketState } from "../../domain/bucket-state.ts";
import { PLAIN_TICKET, type Ticket, ticketOf } from "../../domain/give-back.ts";
import { withoutShadowed } from "../../domain/shadow.ts";
import type { Env } from "./intent.ts";
import type { Job, JobOutcome } from "./job.ts";
import { passedAt } from "./passed.ts";
import { endingFirst } from "./slots.ts";

/** What a write left of its jobs: the state, tokens aside, and what it decided of limits that refuse nothing. */
type Written = Pick<Extract<JobOutcome, { kind: "taken" }>, "written" | "readingMs" | "by" | "orLeft">;

/** The ticket of one job of a write. */
export function ticketOfJob(
  { of, amounts }: Pick<Job, "of" | "amounts">,
  { written, readingMs, by, orLeft }: Written,
  env: Env,
): Ticket {
  if (of.bypass) return PLAIN_TICKET;
  const { jobs, sides } = by;
  const isPlain = sides.overdrafts.length + sides.passed.length === 0;
  const shadowed = isPlain ? NONE : passedAt(sides, placeIn(jobs, of));
  const taken = withoutShadowed(amounts, shadowed);
  const left = (state: BucketState) => ticketOf(state, taken, readingMs, env.calendar, of.holdMs);
  const ticket = orLeft === undefined ? left(written) : endingFirst(left(written), orLeft.map(left));
  return isPlain ? ticket : { ...ticket, overdrawn: overdrawnBy(by, of), shadowed };
}

/** The soft limits that one request of a write left below zero: of those that took from a limit, the last so many. */
function overdrawnBy({ jobs, sides }: Written["by"], of: Job["of"]): readonly string[] {
  return sides.overdrafts.flatMap(({ limit, milli }) => {
    const takers = jobs.filter((job) => !job.of.bypass && job.amounts.some((one) => one.limit === limit));
    const place = placeIn(takers, of);
    return place >= takers.length - milli / 1000 && place >= 0 ? [limit] : [];
  });
}

const NONE: readonly string[] = [];

function placeIn(jobs: readonly Job[], of: Job["of"]): number {
  return jobs.findIndex((job) => job.of === of);
}
