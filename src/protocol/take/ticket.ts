import { PLAIN_TICKET, type Ticket, ticketOf } from "../../domain/give-back.ts";
import { withoutShadowed } from "../../domain/shadow.ts";
import type { Env } from "./intent.ts";
import type { Job, JobOutcome } from "./job.ts";
import { passedAt } from "./passed.ts";

/** What a write left of its jobs: the state, tokens aside, and what it decided of limits that refuse nothing. */
type Written = Pick<Extract<JobOutcome, { kind: "taken" }>, "written" | "readingMs" | "by">;

/** The ticket of one job of a write. */
export function ticketOfJob(
  { of, amounts }: Pick<Job, "of" | "amounts">,
  { written, readingMs, by: { jobs, sides } }: Written,
  env: Env,
): Ticket {
  if (of.bypass) return PLAIN_TICKET;
  if (sides.overdrafts.length + sides.passed.length === 0) return ticketOf(written, amounts, readingMs, env.calendar);
  const place = jobs.findIndex((job) => job.of === of);
  const shadowed = passedAt(sides, place);
  const ticket = ticketOf(written, withoutShadowed(amounts, shadowed), readingMs, env.calendar);
  // Of the requests that took from a soft limit, the last so many left it below zero.
  const overdrawn = sides.overdrafts.flatMap(({ limit, milli }) => {
    const takers = jobs.filter((job) => !job.of.bypass && job.amounts.some((one) => one.limit === limit));
    const rank = takers.findIndex((job) => job.of === of);
    return rank >= takers.length - milli / 1000 && rank >= 0 ? [limit] : [];
  });
  return { ...ticket, overdrawn, shadowed };
}
