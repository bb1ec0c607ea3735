import { withoutShadowed } from "../../domain/shadow.ts";
import type { Claim } from "../../ports/bucket-store.ts";
import type { Image } from "../item/codec.ts";
import type { Job, JobOutcome } from "./job.ts";
import { passedAt } from "./passed.ts";

type Taken = Extract<JobOutcome, { kind: "taken" }>;

/** The item as one job of a write left it: the write took for the jobs in their order, and the image shows what all of them left. */
export function imageAfterJob(of: Claim | Job["of"], { image, by }: Pick<Taken, "image" | "by">): Image {
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
    return milli === 0 ? held : { ...held, tokensMilli: held.tokensMilli + milli };
  });
  return { ...image, state: { ...image.state, limits } };
}
