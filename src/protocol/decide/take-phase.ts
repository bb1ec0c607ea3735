import type { ItemAnswer, ItemKey } from "../../ports/item-store.ts";
import type { Image } from "../item/codec.ts";
import { laterOf, type Seen, type SheetNote } from "../process/bucket-cache.ts";
import type { Ended, ReadAction, SheetAction, Turn, WriteAction } from "../process/machine.ts";
import type { Guess, Move } from "../take/intent.ts";
import type { Job, JobOutcome, Sent } from "../take/job.ts";

/*
 * Takes and debits at one shard, as a machine without I/O. `next` says what to do, `on` what an answer means.
 *
 *      cached or             applied: the jobs of the write are taken
 *      unknown image         ┌──────────────────────────────────────┐
 *           │                ▼                                      │
 *       ┌───────┐  failed  ┌──────────┐  ── write ─────────────▶ (answer)
 *       │ guess │ ───────▶ │ verified │  ── short: refused         │
 *       └───────┘          └──────────┘  ── doubt: configSuspect   │
 *         │   ▲ consistent   ▲      ▲                              │
 *         │   │ read ────────┘      │ failed, nonce on the item:   │
 *         │   │                     │ the lost write was applied,  │
 *         │   │                     │ its jobs are taken           │
 *         │   │ given up:        ┌───────────┐                     │
 *         │   └─ unknown ─────── │ ambiguous │ ◀───── unknown ─────┘
 *         │                      └───────────┘ ┐
 *         │  unknown, of a write      ▲        │ failed without the nonce, conflict: the same jobs, reading
 *         ▼  that takes nothing       └────────┘ and nonce are sent again, in the form that the item now calls for
 *     ┌────────┐
 *     │ unread │ ── consistent read ──▶ verified
 *     └────────┘
 *
 * After a lost answer there are these ends, and no others:
 *   applied                        it was not applied before; it is now                       taken
 *   failed, the nonce is there     the lost write was applied                                 taken
 *   failed, and it no longer fits  the lost write may have been what made it short            unavailable, unknown
 *   failed, the shard is gone      nothing shows any more whether it was applied              unavailable, unknown
 *   a second lost answer, refused, time or attempts used up, a read that failed              unavailable, unknown
 * Nothing is refused as short while it is ambiguous, nothing is taken for other jobs, and nothing is given back: should the
 * lost write be applied later, and its answer come, that is given back then.
 */
export type Phase =
  /** The image is only cached, or from an eventually consistent read: it chooses a form, but never refuses. */
  | { readonly at: "guess" }
  /** The cache is certainly old: read first. */
  | { readonly at: "unread" }
  /** The image was seen since the jobs were asked for: it may refuse. */
  | { readonly at: "verified"; readonly seen: Seen }
  /** A write may have been applied unseen: only the same may be sent, with the same reading and nonce. */
  | Ambiguous;

export interface Ambiguous {
  readonly at: "ambiguous";
  readonly sent: Sent;
  /** All writes whose answers were lost: at most one of them was applied, unless another process took the nonce's slot. */
  readonly lost: readonly Sent[];
  readonly cause: unknown;
  readonly laters: readonly Later[];
  /** The item as it was seen since. */
  readonly seen: Seen | undefined;
}

/** An answer that did not come in time, and its write. */
export interface Later {
  readonly sent: Sent;
  readonly answer: Promise<ItemAnswer>;
}

export interface TakeProgress {
  readonly phase: Phase;
  /** All jobs, in the order in which their outcomes are wanted. */
  readonly jobs: readonly Job[];
  readonly pending: readonly Job[];
  readonly settled: readonly Settled[];
  /** One reading of the clock for all writes: the bounds stand still, so that the rounds come to an end. */
  readonly readingMs: number;
  /** The nonce of the next write; undefined: a fresh one. */
  readonly nonce: number | undefined;
  /** True: no guesses about what others may have written. */
  readonly exact: boolean;
  /** The number of writes that failed because others were faster. */
  readonly failures: number;
}

export interface Settled {
  readonly jobs: readonly Job[];
  readonly outcome: JobOutcome;
}

/** Inputs of `next` besides the progress. */
export interface TakeFacts extends Turn {
  readonly key: ItemKey;
  readonly seen: Seen | undefined;
  readonly doubt: "none" | "configSuspect" | "confirmed";
  /** Why the store did not answer earlier jobs; undefined if it did. */
  readonly lastFault: unknown;
  readonly nonceSlot: number;
  readonly freshNonce: number;
  /** A number for the bucket, should the write create it; drawn for each sending. */
  readonly freshBirth: number;
  readonly sheet: SheetNote | undefined;
  readonly guesses: (image: Image, moves: readonly Move[]) => ReadonlyMap<string, Guess> | undefined;
}

export interface TakeWrite extends WriteAction {
  readonly sent: Sent;
  readonly exact: boolean;
}

export interface Settle extends Settled {
  readonly do: "settle";
}

export type TakeAction = ReadAction | TakeWrite | SheetAction | Settle;

const NONE: readonly Settled[] = Object.freeze([]);
export const GUESS: Phase = Object.freeze({ at: "guess" });
export const UNREAD: Phase = Object.freeze({ at: "unread" });

/** A cached image is verified for jobs that were asked for before it was observed. */
export function startTake(jobs: readonly Job[], cached: Seen | undefined, exact: boolean): TakeProgress {
  let readingMs = Number.NEGATIVE_INFINITY;
  let askedAtSequence = 0;
  for (const job of jobs) {
    readingMs = Math.max(readingMs, job.readingMs);
    askedAtSequence = Math.max(askedAtSequence, job.askedAtSequence);
  }
  const isVerified = cached !== undefined && !cached.eventuallyConsistent && cached.order > askedAtSequence;
  const phase: Phase = isVerified ? { at: "verified", seen: cached } : GUESS;
  return { phase, jobs, pending: jobs, settled: NONE, readingMs, nonce: undefined, exact, failures: 0 };
}

/** The outcomes in the order of the jobs, once none is pending. */
export function takeEnded({ jobs, pending, settled }: TakeProgress): Ended<readonly JobOutcome[]> | undefined {
  if (pending.length > 0) return undefined;
  const [first] = settled;
  if (jobs.length === 1 && first !== undefined) return { result: [first.outcome] };
  const outcomes = new Map<Job, JobOutcome>();
  for (const { jobs: decided, outcome } of settled) for (const job of decided) outcomes.set(job, outcome);
  return { result: jobs.map((job) => outcomes.get(job) as JobOutcome) };
}

/** The later of the image that these jobs saw and the cached one. Their own answer that the item is gone counts too. */
export function imageFor({ phase }: TakeProgress, cached: Seen | undefined): Seen | undefined {
  return phase.at === "verified" || phase.at === "ambiguous" ? laterOf(phase.seen, cached) : cached;
}

export function takeUntilMs({ pending }: TakeProgress): number {
  let untilMs = Number.POSITIVE_INFINITY;
  for (const job of pending) untilMs = Math.min(untilMs, job.untilMs);
  return untilMs;
}

export function unknownOutcome({ cause }: Ambiguous): JobOutcome {
  return { kind: "unavailable", applied: "unknown", cause };
}
