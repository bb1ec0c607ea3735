import { holdEndMs, type LimitState } from "../../domain/bucket/bucket-state.ts";
import { givenBack, type Slice, sliceEndingBy } from "../../domain/bucket/holds.ts";
import { rulesOf } from "../../domain/limits/kinds/table.ts";
import { withoutShadowed } from "../../domain/limits/shadow.ts";
import type { Claim } from "../../ports/bucket-store.ts";
import type { Image } from "../item/codec.ts";
import type { Job, JobOutcome } from "./job.ts";
import { passedAt } from "./passed.ts";

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
    const slices = withoutLater(held, milli, holdEnd(held, of.holdMs, Math.max(readingMs, image.state.epochMs)));
    return { ...held, tokensMilli: held.tokensMilli + milli, slices };
  });
  return { ...image, state: { ...image.state, limits } };
}

function holdEnd({ limit }: LimitState, holdMs: number | undefined, atMs: number): number {
  return rulesOf(limit).holdsSlots ? holdEndMs(limit, holdMs, atMs) : atMs;
}

/** The slices without what later jobs of the write hold: all of them went into the same one. */
function withoutLater({ limit, slices }: LimitState, milli: number, endMs: number): readonly Slice[] {
  const own = rulesOf(limit).holdsSlots ? sliceEndingBy(slices, endMs) : undefined;
  return (own && givenBack(slices, own, milli)) ?? slices;
}
