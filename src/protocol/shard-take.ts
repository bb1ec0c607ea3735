import type { ItemKey } from "../ports/item-store.ts";
import type { BucketCache } from "./bucket-cache.ts";
import type { Image } from "./codec.ts";
import type { ProtocolContext } from "./context.ts";
import { nextTake } from "./decide/take.ts";
import { onTake } from "./decide/take-answer.ts";
import { imageFor, startTake, type TakeAction, type TakeProgress, takeUntilMs } from "./decide/take-phase.ts";
import { drive, type Event, type Machine, type Turn } from "./drive.ts";
import type { Move } from "./intent.ts";
import { type Job, type JobOutcome, newestOf } from "./job.ts";
import { RETRY } from "./retry-policy.ts";
import { guessesFor, noteSides } from "./tolerance.ts";

/** Takes and debits at one shard: in one write for all jobs where they fit together, in as many as it needs. */
export async function takeAtShard(
  context: ProtocolContext,
  cache: BucketCache,
  key: ItemKey,
  jobs: readonly Job[],
): Promise<JobOutcome[]> {
  const { policy, attemptsMax } = budgetOf(jobs);
  const start = startTake(jobs, cache.seen(key.shard), context.exact);
  const outcomes: Outcomes = await drive(new ShardTake(context, cache, key), start, { policy, attemptsMax }, context);
  return jobs.map((job) => outcomes.get(job) as JobOutcome);
}

function budgetOf(jobs: readonly Job[]) {
  const policy = RETRY.take;
  return { policy, attemptsMax: policy.attempts + policy.attemptsPerLimit * newestOf(jobs).set.limits.length };
}

type Outcomes = ReadonlyMap<Job, JobOutcome>;

/** The machine of takes, with the cache of the bucket for its facts. */
class ShardTake implements Machine<TakeProgress, TakeAction, Outcomes> {
  readonly #context: ProtocolContext;
  readonly #cache: BucketCache;
  readonly #key: ItemKey;

  constructor(context: ProtocolContext, cache: BucketCache, key: ItemKey) {
    this.#context = context;
    this.#cache = cache;
    this.#key = key;
  }

  next(progress: TakeProgress, { nowMs, over }: Turn): TakeAction {
    const { readings, env, nonces } = this.#context;
    const { pending, readingMs, nonce } = progress;
    const cache = this.#cache;
    const seen = imageFor(progress, cache.seen(this.#key.shard));
    const doubt =
      seen?.image === undefined || pending.length === 0 ? "none" : readings.doubtOf(cache, seen, pending, env);
    const facts = {
      nowMs,
      over,
      key: this.#key,
      seen,
      doubt,
      silence: cache.silence(this.#key.shard),
      nonceSlot: nonces.slot,
      freshNonce: nonce === undefined && pending.length > 0 ? nonces.next() : 0,
      guesses: (image: Image, moves: readonly Move[]) => guessesFor(cache, image, moves, readingMs),
    };
    return nextTake(progress, facts, env);
  }

  on(progress: TakeProgress, action: TakeAction, event: Event): TakeProgress {
    const after = onTake(progress, action, event);
    // A transaction that stood in the way is an answer of the store.
    if (event.kind === "refused" && event.why === "conflict") this.#cache.noteSilence(this.#key.shard, undefined);
    else if (event.kind === "unknown" || event.kind === "unread" || event.kind === "refused") {
      this.#cache.noteSilence(this.#key.shard, event.cause);
    }
    if (action.do === "write" && (event.kind === "applied" || event.kind === "failed")) {
      const { intent } = action.sent;
      const { image } = event.seen;
      if (image !== undefined) noteSides(this.#cache, image, intent, intent.readingMs, event.kind === "applied");
    }
    if (action.do === "settle" && action.outcome.kind === "short") this.#cache.noteRefusal(progress.readingMs);
    if (progress.phase.at === "ambiguous" && after.phase.at === "guess") this.#watchLate(progress);
    return after;
  }

  untilMs(progress: TakeProgress): number {
    return takeUntilMs(progress);
  }

  throttled(): void {
    this.#context.throttled(this.#cache);
  }

  /** Its outcome was reported as unknown. Should it turn out to have been applied, no caller was granted anything for it. */
  #watchLate({ phase, readingMs }: TakeProgress): void {
    if (phase.at !== "ambiguous") return;
    const { laters, sent } = phase;
    for (const later of laters) {
      void later.then((answer) => {
        if (answer.kind === "applied") this.#context.landedLate(this.#key, sent.jobs, answer, readingMs);
      });
    }
  }
}
