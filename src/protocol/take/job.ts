import type { BucketState } from "../../domain/bucket/bucket-state.ts";
import type { Amount } from "../../domain/charge/amounts.ts";
import { knowsMore } from "../../domain/limits/limit-set.ts";
import type { Claim, Held } from "../../ports/bucket-store.ts";
import type { TracePart } from "../../ports/item-store.ts";
import type { Image } from "../item/codec.ts";
import { withFloors } from "./floors.ts";
import { type Intent, type IntentOptions, type Move, NO_USAGE } from "./intent.ts";
import type { Sides } from "./passed.ts";
import { renewalIntent } from "./renew.ts";

/** What one claim, or one debit or renewal of a lease, wants of one shard. */
export interface Job {
  readonly of: Claim | Held;
  readonly kind: "take" | "debit" | "renew";
  readonly amounts: readonly Amount[];
  readonly readingMs: number;
  /** When its caller must have an answer, by the clock; it counts from when the job was asked for, not from when it is sent. */
  readonly untilMs: number;
  /** The last observation when it was asked for: whatever is observed later is verified for it. */
  readonly askedAtSequence: number;
}

/** A claim as a job that no queue holds and no deadline of its own ends. */
export function jobOfClaim(claim: Claim, readingMs: number): Job {
  const untilMs = Number.POSITIVE_INFINITY;
  return { of: claim, kind: "take", amounts: claim.take, readingMs, untilMs, askedAtSequence: 0 };
}

/**
 * Whether a bucket must not be made for this job yet. A change of access is announced on the buckets there are; one that is not
 * there cannot tell of it, so the job must come with configuration that was read for it.
 */
export function mustReadConfig(of: Claim | Held, kind: Job["kind"]): boolean {
  return kind === "take" && of.origin.reading !== undefined && !("isConfigJustRead" in of && of.isConfigJustRead);
}

/** What became of a job at one shard. */
export type JobOutcome =
  /**
   * `image`: the item as it was seen afterwards. `written`: the state that the write left, tokens aside. The two differ
   * where the answer was lost and the nonce showed later that the write was applied: the item may be in another period.
   */
  | {
      readonly kind: "taken";
      readonly image: Image;
      readonly written: BucketState;
      readonly readingMs: number;
      /** The write: its jobs in their order, and what it decided of limits that refuse nothing. */
      readonly by: Pick<Sent, "jobs" | "sides">;
      /** After a lost answer: what other sendings of the same jobs would have left, any of which may be the one that was applied. */
      readonly orLeft?: readonly BucketState[];
    }
  /** `readingMs`: by which it was decided. */
  | { readonly kind: "short"; readonly state: BucketState; readonly readingMs: number }
  | { readonly kind: "configSuspect"; readonly state: BucketState }
  /** It could not be decided among many. */
  | { readonly kind: "contended" }
  | { readonly kind: "unavailable"; readonly applied: "no" | "unknown"; readonly cause: unknown }
  /** The shard is not there; the bucket has others. */
  | { readonly kind: "elsewhere" };

/** A write, and what it is for. */
export interface Sent {
  readonly why: "take" | "install-limits" | "repair-epoch";
  /** Those that are taken when it is applied; none, where it only installs limits or repairs the epoch. */
  readonly jobs: readonly Job[];
  readonly intent: Intent;
  /** The state that it leaves, tokens aside. */
  readonly leaves: BucketState;
  readonly sides: Sides;
}

/** The limits of jobs that are sent together: they have the same ones, and the latest reading of them counts. */
export function newestOf(jobs: readonly Job[]): NonNullable<Intent["install"]> {
  let newest = jobs[0]?.of as Claim | Held;
  for (const { of } of jobs) {
    const knowsAsMuch = (of.origin.changeNumber ?? 0) >= (newest.origin.changeNumber ?? 0);
    if (of.origin.asOfMs > newest.origin.asOfMs ? knowsAsMuch : knowsMore(of.origin, newest.origin)) newest = of;
  }
  return { set: newest.set, origin: newest.origin };
}

/** One write for all jobs. */
export function intentOf(jobs: readonly Job[], options: IntentOptions): Intent {
  const [only] = jobs;
  if (only?.kind === "renew") return renewalIntent(jobs, newestOf(jobs), options);
  if (jobs.length === 1 && only !== undefined) return intentOfOne(only, options);
  const moves = new Map<string, Move>();
  const counted = new Map<string, number>();
  const bypassed = new Map<string, number>();
  const parts: TracePart[] = [];
  let requests = 0;
  for (const { of, kind, amounts } of jobs) {
    parts.push({ of, kind, amounts });
    if (kind === "take") requests++;
    for (const { limit, milli } of amounts) {
      counted.set(limit, (counted.get(limit) ?? 0) + milli);
      if (of.bypass) {
        bypassed.set(limit, (bypassed.get(limit) ?? 0) + milli);
        continue;
      }
      const move = moves.get(limit);
      const whenShort = kind === "take" ? "refuse" : "owe";
      moves.set(limit, { limit, milli: (move?.milli ?? 0) + milli, whenShort, holdMs: of.holdMs });
    }
  }
  const { sheeted, ...how } = options;
  return {
    ...how,
    install: newestOf(jobs),
    checksAccess: jobs.every(({ of, kind }) => kind === "take" && of.origin.reading !== undefined),
    isOff: jobs.some(isOfOff),
    moves: withFloors([...moves.values()], jobs),
    usage: { ...NO_USAGE, requests, counters: amountsIn(counted), bypassed: amountsIn(bypassed), sheeted },
    parts,
  };
}

/** The same for one job, which is what nearly every write is for. */
function intentOfOne(
  job: Job,
  { readingMs, nonce, birth, guesses, configConfirmed, ignoreImageShortage, sheeted }: IntentOptions,
): Intent {
  const { of, kind, amounts } = job;
  const isTake = kind === "take";
  const whenShort = isTake ? "refuse" : "owe";
  const bypassed = of.bypass ? amounts : NO_USAGE.bypassed;
  return {
    readingMs,
    install: of,
    configConfirmed,
    checksAccess: isTake && of.origin.reading !== undefined,
    isOff: isOfOff(job),
    moves: of.bypass
      ? NONE
      : withFloors(
          amounts.map(({ limit, milli }) => ({ limit, milli, whenShort, holdMs: of.holdMs })),
          [job],
        ),
    usage: { ...NO_USAGE, requests: isTake ? 1 : 0, counters: amounts, bypassed, sheeted },
    parts: [{ of, kind, amounts }],
    nonce,
    birth,
    ignoreImageShortage,
    guesses,
  };
}

function isOfOff({ of }: Job): boolean {
  return "isOff" in of && of.isOff === true;
}

const NONE: readonly Move[] = Object.freeze([]);

function amountsIn(sums: ReadonlyMap<string, number>): Amount[] {
  return Array.from(sums, ([limit, milli]) => ({ limit, milli }));
}
