import type { BucketState } from "../../domain/bucket/bucket-state.ts";
import { PLAIN_TICKET, type Ticket, ticketOf } from "../../domain/bucket/give-back.ts";
import { withoutShadowed } from "../../domain/limits/shadow.ts";
import type { Env } from "./intent.ts";
import type { Job, JobOutcome } from "./job.ts";
import { sidesFor } from "./passed.ts";
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
  const sides = sidesFor(by, of);
  const taken = sides === undefined ? amounts : withoutShadowed(amounts, sides.shadowed);
  const left = (state: BucketState) => ticketOf(state, taken, readingMs, env.calendar, of.holdMs);
  const ticket = orLeft === undefined ? left(written) : endingFirst(left(written), orLeft.map(left));
  return sides === undefined ? ticket : { ...ticket, ...sides };
}
