import { divFloor } from "../../bucket/integers.ts";
import { refilledMilli } from "../../bucket/level.ts";
import { type BucketState, findLimit, type LimitState } from "../../domain/bucket/bucket-state.ts";
import type { ItemAnswer, ItemKey } from "../../ports/item-store.ts";
import type { ProtocolContext } from "../context.ts";
import { nextTake, onTake, showsNonce } from "../decide/take.ts";
import {
  type Ambiguous,
  imageFor,
  type Later,
  startTake,
  type TakeAction,
  type TakeFacts,
  type TakeProgress,
  type TakeWrite,
  takeEnded,
  takeUntilMs,
} from "../decide/take-phase.ts";
import { giveBackLate } from "../give-back/crediting.ts";
import { UP } from "../item/attributes.ts";
import type { Image } from "../item/codec.ts";
import type { BucketCache } from "../process/bucket-cache.ts";
import { drive } from "../process/drive.ts";
import { Lane } from "../process/lane.ts";
import type { Machine } from "../process/machine.ts";
import { RETRY, WAITING_MAX } from "../process/retry-policy.ts";
import { resizeInBackground } from "../shards/resize.ts";
import type { Guess, Intent, Move } from "./intent.ts";
import { type Job, type JobOutcome, mayJoin, neededOf, type Sent } from "./job.ts";

/**
 * Handles answers that come too late to a take whose outcome was reported as unknown. `applied` says that this sending landed. A
 * failed one whose item shows the nonce says that another sending of the same take did: the first of the two answers reports one
 * landing.
 */
export class LateWatch {
  readonly #phase: Ambiguous;
  readonly #landed: (sent: Sent) => void;
  /** A landing was reported by its nonce alone; its own answer may still come. */
  #isPresumed = false;
  #isTold = false;

  constructor(phase: Ambiguous, landed: (sent: Sent) => void) {
    this.#phase = phase;
    this.#landed = landed;
  }

  on({ sent }: Later, answer: ItemAnswer): void {
    if (answer.kind === "applied") {
      if (this.#isPresumed) this.#isPresumed = false;
      else this.#tell(sent);
    } else if (answer.kind === "failed" && !this.#isTold && showsNonce(answer.item, sent.intent)) {
      this.#isPresumed = true;
      this.#tell(this.#otherThan(sent));
    }
  }

  #tell(sent: Sent): void {
    this.#isTold = true;
    this.#landed(sent);
  }

  #otherThan(sent: Sent): Sent {
    return this.#phase.lost.find((other) => other !== sent) ?? sent;
  }
}

/**
 * Guesses for limits that the image shows at their capacity, if others write too: another process may have taken from them by the
 * time of the write. A little-used limit is full again by then. A busy one is sometimes below its capacity and sometimes at it;
 * if it is found at it, a little more is cut than needed: at most a second's refill, and only if that is two requests or more,
 * and not all of it is wanted. From then on it stays below for a while, which is then expected. Cutting too much is always safe.
 */
export function guessesFor(
  cache: BucketCache,
  { state }: Image,
  moves: readonly Move[],
  readingMs: number,
): ReadonlyMap<string, Guess> | undefined {
  if (!cache.hasOtherWriters(readingMs)) return undefined;
  let guesses: Map<string, Guess> | undefined;
  for (const move of moves) {
    const { limit: name, milli } = move;
    const held = findLimit(state, name);
    if (held === undefined || milli <= 0 || (cache.utilization.get(name) ?? 0) < BUSY) continue;
    if (held.tokensMilli < brimOf(held, state, readingMs)) continue;
    guesses ??= new Map();
    if (cache.lastSide.get(name) === "below") guesses.set(name, { side: "below", spareMilli: 0 });
    // If all of it is wanted, another request would miss the part that is cut. And a shadow must hold what a hard limit would.
    else {
      const isNeeded = held.limit.shadow || cache.isWanted(readingMs);
      guesses.set(name, { side: "over", spareMilli: isNeeded ? 0 : spareOf(held, move) });
    }
  }
  return guesses;
}

/** Remembers the side of their capacity on which the limits were found; `taken`: the write was applied. */
export function noteSides(
  cache: BucketCache,
  { state }: Image,
  { moves, guesses }: Pick<Intent, "moves" | "guesses">,
  readingMs: number,
  taken: boolean,
): void {
  if (!cache.hasOtherWriters(readingMs)) return;
  for (const { limit: name, milli } of moves) {
    const held = findLimit(state, name);
    if (held === undefined || milli <= 0) continue;
    // After an applied take the tokens are lower by its amount, and by the extra cut.
    const wasOver = held.tokensMilli + (taken ? milli : 0) >= brimOf(held, state, readingMs);
    const wasCut = taken && (guesses?.get(name)?.spareMilli ?? 0) > 0;
    cache.lastSide.set(name, wasOver && !wasCut ? "over" : "below");
  }
}

/** The stored tokens with which a limit is at its capacity at a reading. */
function brimOf({ terms, remainder }: LimitState, { epochMs }: BucketState, readingMs: number): number {
  return terms.capacityMilli - refilledMilli(remainder, terms, readingMs - epochMs);
}

/** A limit above this utilization is seldom full when a request comes. */
const BUSY = 0.3;

function spareOf(held: LimitState, move: Move): number {
  const { capacityMilli, refillAmountMilli, refillPeriodMs } = held.terms;
  const spare = Math.min(divFloor(capacityMilli, 16), divFloor(refillAmountMilli * 1000, refillPeriodMs));
  return spare >= 2 * move.milli && capacityMilli - spare >= neededOf(move, held) ? spare : 0;
}

type TakeMachine = Machine<TakeProgress, TakeAction, readonly JobOutcome[]>;

/** If no other process writes, the image is right. */
const noGuesses = () => undefined;

/**
 * Takes and debits at one shard: in one write for all jobs if they fit together, otherwise in several. The take machine with
 * facts from the bucket's cache; it keeps nothing of the jobs itself.
 */
function takeMachine(context: ProtocolContext, cache: BucketCache, key: ItemKey): TakeMachine {
  const { readings, env, nonces } = context;
  const { shard } = key;
  return {
    ended: takeEnded,
    next: (progress, { nowMs, over }) => {
      const { pending, readingMs, nonce } = progress;
      const seen = imageFor(progress, cache.seen(shard));
      const doubt = seen?.image === undefined ? "none" : readings.doubtOf(cache, seen, pending, env);
      const facts: TakeFacts = {
        nowMs,
        over,
        key,
        seen,
        doubt,
        lastFault: cache.lastFaults[shard],
        sheet: cache.sheets[shard],
        nonceSlot: nonces.slot,
        freshNonce: nonce === undefined ? nonces.next() : 0,
        freshBirth: seen?.image === undefined ? nonces.next() : 0,
        guesses: cache.hasOtherWriters(readingMs) ? (...by) => guessesFor(cache, ...by, readingMs) : noGuesses,
      };
      return nextTake(progress, facts, env);
    },
    on: (progress, action, event) => {
      const after = onTake(progress, action, event);
      if (action.do === "write" && (event.kind === "applied" || event.kind === "failed")) {
        const isApplied = event.kind === "applied";
        const { intent } = action.sent;
        const { image } = event.seen;
        if (image !== undefined) noteSides(cache, image, intent, intent.readingMs, isApplied);
        if (image !== undefined && isApplied) noteHours(context, cache, action, image);
      }
      if (action.do === "settle" && action.outcome.kind === "short") cache.refusedAtMs = progress.readingMs;
      if (progress.phase.at === "ambiguous" && after.phase.at === "guess") watchLate(context, progress.phase);
      return after;
    },
    untilMs: takeUntilMs,
    throttled: () => resizeInBackground(context, cache, "more", context.clock.now()),
  };
}

function noteHours({ rolled }: ProtocolContext, cache: BucketCache, { write }: TakeWrite, image: Image): void {
  if (write.copy !== undefined) rolled(image);
  else if (write.remove.length > 0 && !(UP in image.item)) cache.sheets[image.key.shard] = undefined;
}

/** The outcome of a take was reported as unknown. If it was applied after all, no caller was granted anything for it. */
function watchLate(context: ProtocolContext, phase: Ambiguous): void {
  const watch = new LateWatch(phase, (sent) => giveBackLate(context, sent));
  for (const later of phase.laters) void later.answer.then((answer) => watch.on(later, answer));
}

/** The machine, which also reports each job as soon as it is settled: others may have more time. */
function telling(machine: TakeMachine, tell: (job: Job, outcome: JobOutcome) => void): TakeMachine {
  return {
    ...machine,
    on: (progress, action, event) => {
      const after = machine.on(progress, action, event);
      for (const { jobs, outcome } of after.settled.slice(progress.settled.length)) {
        for (const job of jobs) tell(job, outcome);
      }
      return after;
    },
  };
}

/**
 * Runs a job in the queue of its shard. The queues belong to the cache of the bucket, which is held while one of them is busy: a
 * nonce proves a write only because this process has one write under way to an item at a time.
 */
export function runAtShard(
  context: ProtocolContext,
  cache: BucketCache,
  shard: number,
  job: Job,
  signal: AbortSignal | undefined,
): Promise<JobOutcome> {
  cache.lanes[shard] ??= laneTo(context, cache, shard);
  return cache.lanes[shard].add(job, signal);
}

function laneTo(context: ProtocolContext, cache: BucketCache, shard: number): Lane<Job, JobOutcome> {
  const machine = takeMachine(context, cache, { bucket: cache.key, shard });
  const policy = RETRY.take;
  return new Lane<Job, JobOutcome>({
    run: (jobs, tell) => {
      const start = startTake(jobs, cache.seen(shard), context.exact);
      // Jobs that are sent together have the same limits.
      const limitCount = (jobs[0] as Job).of.set.limits.length;
      const budget = { policy, attemptsMax: policy.attempts + policy.attemptsPerLimit * limitCount };
      return drive(jobs.length === 1 ? machine : telling(machine, tell), start, budget, context);
    },
    mayJoin: context.coalesce ? mayJoin : () => false,
    waitingMax: WAITING_MAX,
    crowded: () => ({ kind: "contended" }),
    clock: context.clock,
    untilMs: (job) => job.untilMs,
    late: (job) => lateOutcome(cache, shard, job),
  });
}

/** Nothing was sent for the job. A store that answered no other job meanwhile is a fault; a busy one is not. */
function lateOutcome(cache: BucketCache, shard: number, { askedAtSequence }: Job): JobOutcome {
  const lastFault = cache.lastFaults[shard];
  if (lastFault === undefined && cache.isAnsweredSince(shard, askedAtSequence)) return { kind: "contended" };
  const cause = lastFault ?? new Error("the store has not answered the previous request yet");
  return { kind: "unavailable", applied: "no", cause };
}
