import { withoutShadowed } from "../../domain/bucket/bucket-questions.ts";
import { type BucketState, holdEndMs, type LimitState } from "../../domain/bucket/bucket-state.ts";
import { PLAIN_TICKET, type Ticket, ticketOf } from "../../domain/bucket/give-back.ts";
import { givenBack, type Slice, sliceEndingBy } from "../../domain/bucket/holds.ts";
import { rulesOf } from "../../domain/limits/kinds/table.ts";
import type { Claim } from "../../ports/bucket-store.ts";
import type { Image } from "../item/codec.ts";
import { type Env, passedAt, sidesFor } from "./intent.ts";
import type { Job, JobOutcome } from "./job.ts";
import { endingFirst } from "./slots.ts";

/** The state that a write left, without tokens, and its decisions on limits that refuse nothing. */
type Written = Pick<Extract<JobOutcome, { kind: "taken" }>, "written" | "readingMs" | "by" | "orLeft">;

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

type Taken = Extract<JobOutcome, { kind: "taken" }>;

/** The item as one job of a write left it: the write took for the jobs in their order, and the image shows what all of them left. */
export function imageAfterJob(
  of: Claim | Job["of"],
  { image, by, readingMs }: Pick<Taken, "image" | "by" | "readingMs">,
): Image {
  const { jobs } = by;
  if (jobs.length === 1) return image;
  const first = jobs.findIndex((job) => job.of === of) + 1;
  const later = jobs.slice(first).flatMap((job, i) => {
    return job.of.bypass ? [] : [{ amounts: withoutShadowed(job.amounts, passedAt(by.sides, first + i)) }];
  });
  if (later.length === 0) return image;
  const limits = image.state.limits.map((held) => {
    let milli = 0;
    for (const { amounts } of later) for (const one of amounts) if (one.limit === held.name) milli += one.milli;
    if (milli === 0) return held;
    const slices = withoutLater(held, milli, of.holdMs, Math.max(readingMs, image.state.epochMs));
    return { ...held, tokensMilli: held.tokensMilli + milli, slices };
  });
  return { ...image, state: { ...image.state, limits } };
}

/** The slices without what later jobs of the write took: all of them hold as long, so it went into the same one. */
function withoutLater(
  { limit, slices }: LimitState,
  milli: number,
  holdMs: number | undefined,
  atMs: number,
): readonly Slice[] {
  const own = rulesOf(limit).holdsSlots ? sliceEndingBy(slices, holdEndMs(limit, holdMs, atMs)) : undefined;
  return (own && givenBack(slices, own, milli)) ?? slices;
}
