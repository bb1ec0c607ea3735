import type { BucketState, LimitState } from "../../domain/bucket/bucket-state.ts";
import { type Amount, sumByLimit } from "../../domain/charge/amounts.ts";
import { neededForAll } from "../../domain/limits/limit-numbers.ts";
import { knowsMore } from "../../domain/limits/limit-set.ts";
import type { Claim, Held } from "../../ports/bucket-store.ts";
import type { Image } from "../item/codec.ts";
import { blankIntent, type Intent, type IntentOptions, type Move, NO_USAGE, type Sides } from "./intent.ts";
import { renewalIntent } from "./slots.ts";

/** A claim, or a debit or renewal of a lease, at one shard. */
export interface Job {
  readonly of: Claim | Held;
  readonly kind: "take" | "debit" | "renew";
  readonly amounts: readonly Amount[];
  readonly readingMs: number;
  /** The deadline by the clock; it counts from when the job was asked for, not from when it is sent. */
  readonly untilMs: number;
  /** The last observation when it was asked for: later ones are verified for it. */
  readonly askedAtSequence: number;
}

/** A job without a queue and a deadline. */
export function jobOfClaim(claim: Claim, readingMs: number): Job {
  const untilMs = Number.POSITIVE_INFINITY;
  return { of: claim, kind: "take", amounts: claim.take, readingMs, untilMs, askedAtSequence: 0 };
}

/**
 * True if a bucket must not be created for this job yet. A change of access is announced on existing buckets; a missing one
 * cannot tell of it, so the job must come with configuration that was read for it.
 */
export function mustReadConfig(of: Claim | Held, kind: Job["kind"]): boolean {
  return kind === "take" && of.origin.reading !== undefined && !("isConfigJustRead" in of && of.isConfigJustRead);
}

export type JobOutcome =
  /**
   * `image`: the item as it was seen afterwards. `written`: the state that the write left, without tokens. They differ if the
   * answer was lost and the nonce showed later that the write was applied: the item may be in another period.
   */
  | {
      readonly kind: "taken";
      readonly image: Image;
      readonly written: BucketState;
      readonly readingMs: number;
      /** The write: its jobs in their order, and its decisions on limits that refuse nothing. */
      readonly by: Pick<Sent, "jobs" | "sides">;
      /**
       * After a lost answer: the states that other sendings of the same jobs would have left, any of which may be the one that
       * was applied.
       */
      readonly orLeft?: readonly BucketState[];
    }
  /** `readingMs`: the reading that decided it. */
  | { readonly kind: "short"; readonly state: BucketState; readonly readingMs: number }
  | { readonly kind: "configSuspect"; readonly state: BucketState }
  /** Contention kept it from being decided. */
  | { readonly kind: "contended" }
  | { readonly kind: "unavailable"; readonly applied: "no" | "unknown"; readonly cause: unknown }
  /** The shard is missing; the bucket has others. */
  | { readonly kind: "elsewhere" };

export interface Sent {
  readonly why: "take" | "install-limits" | "repair-epoch";
  /** The jobs that are taken if it is applied; none if it only installs limits or repairs the epoch. */
  readonly jobs: readonly Job[];
  readonly intent: Intent;
  readonly leaves: BucketState;
  readonly sides: Sides;
}

/** The limits of jobs that are sent together: they have the same ones, and the latest reading counts. */
export function newestOf(jobs: readonly Job[]): NonNullable<Intent["install"]> {
  let newest = jobs[0]?.of as Claim | Held;
  for (const { of } of jobs) {
    const knowsAsMuch = (of.origin.changeNumber ?? 0) >= (newest.origin.changeNumber ?? 0);
    if (of.origin.asOfMs > newest.origin.asOfMs ? knowsAsMuch : knowsMore(of.origin, newest.origin)) newest = of;
  }
  return { set: newest.set, origin: newest.origin };
}

/** One write for all jobs. They are of one kind and hold slots for the same time (`mayJoin`). */
export function intentOf(jobs: readonly Job[], options: IntentOptions): Intent {
  const [first] = jobs as readonly [Job];
  const { readingMs, nonce, birth, guesses, configConfirmed, ignoreImageShortage, sheeted } = options;
  if (first.kind === "renew") return renewalIntent(jobs, newestOf(jobs), options);
  const isTake = first.kind === "take";
  const whenShort = isTake ? "refuse" : "owe";
  const { holdMs } = first.of;
  const moved = sumOfJobs(jobs.filter(({ of }) => !of.bypass));
  return {
    readingMs,
    install: newestOf(jobs),
    configConfirmed,
    checksAccess: isTake && jobs.every(({ of }) => of.origin.reading !== undefined),
    isOff: jobs.some(({ of }) => "isOff" in of && of.isOff === true),
    moves: withFloors(
      moved.map(({ limit, milli }) => ({ limit, milli, whenShort, holdMs })),
      jobs,
    ),
    usage: {
      ...NO_USAGE,
      requests: isTake ? jobs.length : 0,
      counters: sumOfJobs(jobs),
      bypassed: sumOfJobs(jobs.filter(({ of }) => of.bypass)),
      sheeted,
    },
    parts: jobs.map(({ of, kind, amounts }) => ({ of, kind, amounts })),
    nonce,
    birth,
    ignoreImageShortage,
    guesses,
  };
}

/** The amounts of the jobs, each limit once. Nearly every write is for one job. */
function sumOfJobs(jobs: readonly Job[]): readonly Amount[] {
  const [first] = jobs;
  if (first === undefined || jobs.length === 1) return first?.amounts ?? [];
  return sumByLimit(jobs.flatMap(({ amounts }) => amounts));
}

/** The parts of a job that its floor needs. */
type Taking = Pick<Job, "of" | "kind" | "amounts">;

/** The percentage of each limit that a job must leave. */
export function leaveOf({ of, kind }: Pick<Taking, "of" | "kind">): number {
  return kind === "take" && "leavePercent" in of ? (of.leavePercent ?? 0) : 0;
}

/** Adds the floors of the jobs, which take one after the other, to the moves. */
function withFloors(moves: readonly Move[], jobs: readonly Taking[]): readonly Move[] {
  if (jobs.every((job) => leaveOf(job) === 0)) return moves;
  return moves.map((move) => {
    let afterMilli = 0;
    const floors = jobs.flatMap((job) => {
      if (job.of.bypass) return [];
      return job.amounts.flatMap(({ limit, milli }) => {
        if (limit !== move.limit) return [];
        afterMilli += milli;
        return [{ afterMilli, leavePercent: leaveOf(job) }];
      });
    });
    return { ...move, floors };
  });
}

/**
 * The tokens that a limit must hold for a move that it may refuse. A floor is one of the whole bucket: no shard has enough by
 * itself, and all of them are asked together (shards/gather.ts).
 */
export function neededOf({ milli, floors }: Pick<Move, "milli" | "floors">, { terms, part }: LimitState): number {
  if (floors === undefined) return milli;
  if (part !== undefined && floors.some(({ leavePercent }) => leavePercent > 0)) return Number.MAX_SAFE_INTEGER;
  return neededForAll(floors, terms.capacityMilli);
}

/** Like `neededOf`, for an amount of one job. */
export function neededBy(job: Taking, milli: number, held: LimitState): number {
  const leavePercent = leaveOf(job);
  if (leavePercent === 0) return milli;
  const floors = [{ afterMilli: milli, leavePercent }];
  return neededOf({ milli, floors }, held);
}

/** Only installs limits; the claim that they came with is refused, or takes nothing. */
export function installLimitsIntent(
  job: Job,
  { readingMs, nonce, configConfirmed, sheeted }: Omit<IntentOptions, "birth" | "guesses" | "ignoreImageShortage">,
): Intent {
  const parts = [{ of: job.of, kind: job.kind, amounts: [] }];
  const usage = { ...NO_USAGE, sheeted };
  return { ...blankIntent(readingMs), nonce, configConfirmed, install: newestOf([job]), usage, parts };
}

export function mayJoin(first: Job, next: Job): boolean {
  const isAlike = first.kind === next.kind && first.of.set.signature === next.of.set.signature;
  // Holds of different lengths go into different slices.
  if (first.of.holdMs !== next.of.holdMs) return false;
  // Their sum must stay an exact number.
  if (!isAlike || isTooLargeToJoin(first) || isTooLargeToJoin(next)) return false;
  // Jobs that are sent together end together, by the earliest deadline: a job with hardly any time left goes alone.
  if (Math.abs(next.untilMs - first.untilMs) > (first.untilMs - first.readingMs) / 2) return false;
  // A job that cannot read configuration again does not hold up those that can.
  return (first.of.origin.reading === undefined) === (next.of.origin.reading === undefined);
}

function isTooLargeToJoin({ amounts }: Job): boolean {
  return amounts.some(({ milli }) => milli > JOINED_AMOUNT_MAX_MILLI);
}

/** A thousand of these can be summed exactly. */
const JOINED_AMOUNT_MAX_MILLI = 1_000_000_000_000;
