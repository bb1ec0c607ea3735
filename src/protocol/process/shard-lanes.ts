import type { ProtocolContext } from "../context.ts";
import type { Job, JobOutcome } from "../take/job.ts";
import { mayJoin } from "../take/joining.ts";
import { ShardTakes } from "../take/shard-take.ts";
import type { BucketCache } from "./bucket-cache.ts";
import { Lane } from "./lane.ts";
import { WAITING_MAX } from "./retry-policy.ts";

interface LaneParts {
  readonly context: ProtocolContext;
  /** Whether jobs that wait leave together; otherwise one by one. */
  readonly coalesce: boolean;
}

/**
 * The queues of one process, one for each shard. They hang on what is cached of the bucket, which is held while one of them is
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
      run: (jobs, tell) => takes.run(jobs, tell),
      mayJoin: coalesce ? mayJoin : () => false,
      waitingMax: WAITING_MAX,
      crowded: () => ({ kind: "contended" }),
      clock: context.clock,
      untilMs: (job) => job.untilMs,
      late: (job) => lateOutcome(cache, shard, job),
    });
    cache.lanes[shard] = lane;
    return lane;
  }
}

/** Nothing was sent for it. A store that answered nobody meanwhile is a fault; one that was busy with others is none. */
function lateOutcome(cache: BucketCache, shard: number, { askedAtSequence }: Job): JobOutcome {
  const lastFault = cache.lastFault(shard);
  if (lastFault === undefined && cache.isAnsweredSince(shard, askedAtSequence)) return { kind: "contended" };
  const cause = lastFault ?? new Error("the store has not answered the previous request yet");
  return { kind: "unavailable", applied: "no", cause };
}
