import type { BucketState } from "../../domain/bucket-state.ts";
import { PLAIN_TICKET, type Ticket, ticketOf } from "../../domain/give-back.ts";
import type { Claim } from "../../ports/bucket-store.ts";
import type { Env } from "./intent.ts";
import type { Job, JobOutcome } from "./job.ts";
import { endingFirst } from "./slots.ts";

/** What a write left of its jobs: the state, tokens aside, and how many of the last of them left a soft limit below zero. */
type Written = Pick<Extract<JobOutcome, { kind: "taken" }>, "written" | "readingMs" | "by" | "orLeft">;

/** The ticket of one job of a write. */
export function ticketOfJob(
  { of, amounts }: Pick<Job, "of" | "amounts">,
  { written, readingMs, by, orLeft }: Written,
  env: Env,
): Ticket {
  if (of.bypass) return PLAIN_TICKET;
  const left = (state: BucketState) => ticketOf(state, amounts, readingMs, env.calendar, of.holdMs);
  const ticket = orLeft === undefined ? left(written) : endingFirst(left(written), orLeft.map(left));
  return by.overdrafts.length === 0 ? ticket : { ...ticket, overdrawn: overdrawnBy(by, of) };
}

/** The soft limits that one request of a write left below zero: of those that took from a limit, the last so many. */
function overdrawnBy({ jobs, overdrafts }: Written["by"], of: Claim | Job["of"]): readonly string[] {
  return overdrafts.flatMap(({ limit, milli }) => {
    const takers = jobs.filter((job) => !job.of.bypass && job.amounts.some((one) => one.limit === limit));
    const place = takers.findIndex((job) => job.of === of);
    return place >= takers.length - milli / 1000 && place >= 0 ? [limit] : [];
  });
}
