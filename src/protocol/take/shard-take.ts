import type { ItemKey } from "../../ports/item-store.ts";
import type { ProtocolContext } from "../context.ts";
import { nextTake } from "../decide/take.ts";
import { onTake } from "../decide/take-answer.ts";
import {
  imageFor,
  startTake,
  type TakeAction,
  type TakeFacts,
  type TakeProgress,
  type TakeWrite,
  takeEnded,
  takeUntilMs,
} from "../decide/take-phase.ts";
import { UP } from "../item/attributes.ts";
import type { Image } from "../item/codec.ts";
import type { BucketCache } from "../process/bucket-cache.ts";
import { drive } from "../process/drive.ts";
import type { Ended, Event, Machine, Turn } from "../process/machine.ts";
import { RETRY } from "../process/retry-policy.ts";
import type { Job, JobOutcome } from "./job.ts";
import { LateWatch } from "./late-watch.ts";
import { guessesFor, noteSides } from "./tolerance.ts";

/** Hears what became of a job. */
type Tell = (job: Job, outcome: JobOutcome) => void;

/** Where nobody else writes, the image is right. */
const noGuesses = () => undefined;

/**
 * Takes and debits at one shard: in one write for all jobs where they fit together, in as many as it needs. The machine of
 * takes, with the cache of the bucket for its facts; it holds nothing of the jobs itself.
 */
export class ShardTakes implements Machine<TakeProgress, TakeAction, readonly JobOutcome[]> {
  readonly #context: ProtocolContext;
  readonly #cache: BucketCache;
  readonly #key: ItemKey;

  constructor(context: ProtocolContext, cache: BucketCache, key: ItemKey) {
    this.#context = context;
    this.#cache = cache;
    this.#key = key;
  }

  /** An outcome for each job, in their order. Of several, each is told as soon as it is decided: others may have more time. */
  run(jobs: readonly Job[], tell: Tell): Promise<readonly JobOutcome[]> {
    const start = startTake(jobs, this.#cache.seen(this.#key.shard), this.#context.exact);
    const policy = RETRY.take;
    // What is sent together has the same limits.
    const limitCount = (jobs[0] as Job).of.set.limits.length;
    const budget = { policy, attemptsMax: policy.attempts + policy.attemptsPerLimit * limitCount, caller: undefined };
    return drive(jobs.length === 1 ? this : telling(this, tell), start, budget, this.#context);
  }

  ended(progress: TakeProgress): Ended<readonly JobOutcome[]> | undefined {
    return takeEnded(progress);
  }

  next(progress: TakeProgress, { nowMs, over }: Turn): TakeAction {
    const { readings, env, nonces } = this.#context;
    const { pending, readingMs, nonce } = progress;
    const cache = this.#cache;
    const seen = imageFor(progress, cache.seen(this.#key.shard));
    const doubt = seen?.image === undefined ? "none" : readings.doubtOf(cache, seen, pending, env);
    const facts: TakeFacts = {
      nowMs,
      over,
      key: this.#key,
      seen,
      doubt,
      lastFault: cache.lastFault(this.#key.shard),
      sheet: cache.sheet(this.#key.shard),
      nonceSlot: nonces.slot,
      freshNonce: nonce === undefined ? nonces.next() : 0,
      freshBirth: seen?.image === undefined ? nonces.next() : 0,
      guesses: cache.hasOtherWriters(readingMs) ? (...by) => guessesFor(cache, ...by, readingMs) : noGuesses,
    };
    return nextTake(progress, facts, env);
  }

  on(progress: TakeProgress, action: TakeAction, event: Event): TakeProgress {
    const after = onTake(progress, action, event);
    if (action.do === "write" && (event.kind === "applied" || event.kind === "failed")) {
      const { intent } = action.sent;
      const { image } = event.seen;
      if (image !== undefined) noteSides(this.#cache, image, intent, intent.readingMs, event.kind === "applied");
      if (image !== undefined && event.kind === "applied") this.#noteHours(action, image);
    }
    if (action.do === "settle" && action.outcome.kind === "short") this.#cache.noteRefusal(progress.readingMs);
    if (progress.phase.at === "ambiguous" && after.phase.at === "guess") this.#watchLate(progress);
    return after;
  }

  #noteHours({ write }: TakeWrite, image: Image): void {
    if (write.copy !== undefined) this.#context.rolled(image);
    else if (write.remove.length > 0 && !(UP in image.item)) this.#cache.noteSheet(this.#key.shard, undefined);
  }

  untilMs(progress: TakeProgress): number {
    return takeUntilMs(progress);
  }

  throttled(): void {
    this.#context.throttled(this.#cache);
  }

  /** Its outcome was reported as unknown. Should it turn out to have been applied, no caller was granted anything for it. */
  #watchLate({ phase }: TakeProgress): void {
    if (phase.at !== "ambiguous") return;
    const watch = new LateWatch(phase, this.#context.landedLate);
    for (const later of phase.laters) void later.answer.then((answer) => watch.on(later, answer));
  }
}

type TakeMachine = Machine<TakeProgress, TakeAction, readonly JobOutcome[]>;

/** The machine, which tells of each job when it is settled. */
function telling(machine: TakeMachine, tell: Tell): TakeMachine {
  return {
    ended: (progress) => machine.ended(progress),
    next: (progress, turn) => machine.next(progress, turn),
    on: (progress, action, event) => {
      const after = machine.on(progress, action, event);
      for (const { jobs, outcome } of after.settled.slice(progress.settled.length)) {
        for (const job of jobs) tell(job, outcome);
      }
      return after;
    },
    untilMs: (progress) => machine.untilMs(progress),
    throttled: () => machine.throttled(),
  };
}
