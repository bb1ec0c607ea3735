import type { BucketCache } from "./bucket-cache.ts";
import type { ProtocolContext } from "./context.ts";
import { type Job, type JobOutcome, mayJoin } from "./job.ts";
import { Lane } from "./lane.ts";
import { ShardTakes } from "./shard-take.ts";

const WAITING_MAX = 1_000;

interface LaneParts {
  readonly context: ProtocolContext;
  /** Whether jobs that wait leave together; otherwise one by one. */
  readonly coalesce: boolean;
}

/**
 * The queues of one process, one for each shard. They hang on what is cached of the bucket, which is kept while one of them is
 * busy: that one write of this process is under way to an item at a time is what makes its nonce a proof.
 */
export class ShardLanes {
  readonly #parts: LaneParts;

  constructor(parts: LaneParts) {
    this.#parts = parts;
  }

  add(cache: BucketCache, shard: number, job: Job, signal: AbortSignal | undefined): Promise<JobOutcome> {
    const lane = cache.lanes[shard] ?? this.#laneTo(cache, shard);
    return lane.add(job, signal);
  }

  #laneTo(cache: BucketCache, shard: number): Lane<Job, JobOutcome> {
    const { context, coalesce } = this.#parts;
    const takes = new ShardTakes(context, cache, { bucket: cache.key, shard });
    const lane = new Lane<Job, JobOutcome>({
      run: (jobs) => takes.run(jobs),
      mayJoin: coalesce ? mayJoin : () => false,
      waitingMax: WAITING_MAX,
      crowded: () => ({ kind: "contended" }),
    });
    cache.lanes[shard] = lane;
    return lane;
  }
}
