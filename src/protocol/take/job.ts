import type { Amount } from "../../domain/amounts.ts";
import { availableMilli, type BucketState, findLimit, freshBucket } from "../../domain/bucket-state.ts";
import { knowsMore } from "../../domain/limit-set.ts";
import type { Claim, Held } from "../../ports/bucket-store.ts";
import type { TracePart } from "../../ports/item-store.ts";
import { type Image, withCallersLimitObjects } from "../item/codec.ts";
import { needsRebase } from "./forms.ts";
import { blankIntent, type Env, type Intent, type Move } from "./intent.ts";
import { debtMaxMilli, expiresInDebt } from "./moves.ts";
import { epochAfter, withLimitsAt } from "./rebase.ts";

/** What one claim, or one debit of a lease, wants of one shard. */
export interface Job {
  readonly of: Claim | Held;
  readonly kind: "take" | "debit";
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
      /** The write: its jobs in their order, and how many of the last of them left a soft limit below zero. */
      readonly by: { readonly jobs: readonly Job[]; readonly overdrafts: readonly Amount[] };
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
  readonly overdrafts: readonly Amount[];
}

/** Which of the jobs fit together, in their order: one that does not fit does not keep the next from being granted. */
interface Admission {
  readonly admitted: readonly Job[];
  /** Those that would not fit by themselves either. Others only come after what is admitted, and that is not taken yet. */
  readonly rejected: readonly Job[];
  /** The bucket as it stands for them, with their limits installed. */
  readonly state: BucketState;
  /** Whether `state` has limits that the item lacks, or must be kept longer than the item says. */
  readonly installsLimits: boolean;
}

export function admit(
  seen: Image | undefined,
  jobs: readonly Job[],
  { readingMs, configConfirmed }: Pick<Intent, "readingMs" | "configConfirmed">,
  env: Env,
): Admission {
  const newest = newestOf(jobs);
  const install = seen === undefined ? newest : (env.dialect.installable(newest, configConfirmed) ?? newest);
  const image = seen === undefined ? undefined : withCallersLimitObjects(seen, install.set);
  const state = stateFor(image, jobs, install, readingMs, env);
  const installsLimits =
    image !== undefined &&
    (state.signature !== image.state.signature ||
      state.origin.changedMs !== image.state.origin.changedMs ||
      state.limits.length !== image.state.limits.length ||
      expiresInDebt(image, readingMs, env));
  const admitted: Job[] = [];
  const rejected: Job[] = [];
  const left = new Map<string, number>();
  for (const job of jobs) {
    if (fitsIn(state, left, job, readingMs)) admitted.push(job);
    else if (!fitsIn(state, new Map(), job, readingMs)) rejected.push(job);
  }
  return { admitted, rejected, state, installsLimits };
}

/** The limits of jobs that are sent together: they have the same ones, and the latest reading of them counts. */
export function newestOf(jobs: readonly Job[]): NonNullable<Intent["install"]> {
  let newest = jobs[0]?.of as Claim | Held;
  for (const { of } of jobs) {
    const knowsAsMuch = (of.origin.changedMs ?? 0) >= (newest.origin.changedMs ?? 0);
    if (of.origin.asOfMs > newest.origin.asOfMs ? knowsAsMuch : knowsMore(of.origin, newest.origin)) newest = of;
  }
  return { set: newest.set, origin: newest.origin };
}

type IntentOptions = Pick<
  Intent,
  "readingMs" | "nonce" | "birth" | "guesses" | "configConfirmed" | "ignoreImageShortage" | "sheeted"
>;

/** One write for all jobs. */
export function intentOf(jobs: readonly Job[], options: IntentOptions): Intent {
  const [only] = jobs;
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
      moves.set(limit, { limit, milli: (move?.milli ?? 0) + milli, mustFit: kind === "take" });
    }
  }
  return {
    ...options,
    install: newestOf(jobs),
    checksAccess: jobs.every(({ of, kind }) => kind === "take" && of.origin.reading !== undefined),
    moves: [...moves.values()],
    counted: Array.from(counted, ([limit, milli]) => ({ limit, milli })),
    bypassed: Array.from(bypassed, ([limit, milli]) => ({ limit, milli })),
    overdrafts: NO_AMOUNTS,
    requests,
    rollsTo: undefined,
    parts,
  };
}

/** The same for one job, which is what nearly every write is for. */
function intentOfOne(
  { of, kind, amounts }: Job,
  { readingMs, nonce, birth, guesses, configConfirmed, ignoreImageShortage, sheeted }: IntentOptions,
): Intent {
  const mustFit = kind === "take";
  return {
    readingMs,
    install: of,
    configConfirmed,
    checksAccess: mustFit && of.origin.reading !== undefined,
    moves: of.bypass ? NONE : amounts.map(({ limit, milli }) => ({ limit, milli, mustFit })),
    counted: amounts,
    bypassed: of.bypass ? amounts : NO_AMOUNTS,
    overdrafts: NO_AMOUNTS,
    requests: mustFit ? 1 : 0,
    rollsTo: undefined,
    sheeted,
    parts: [{ of, kind, amounts }],
    nonce,
    birth,
    ignoreImageShortage,
    guesses,
  };
}

const NONE: readonly Move[] = Object.freeze([]);
const NO_AMOUNTS: readonly Amount[] = Object.freeze([]);

/** Only installs limits on an item; the claim that they came with is refused, or takes nothing. */
export function installLimitsIntent(
  job: Job,
  options: Pick<Intent, "readingMs" | "nonce" | "configConfirmed">,
): Intent {
  const parts = [{ of: job.of, kind: job.kind, amounts: [] }];
  return { ...blankIntent(options.readingMs), ...options, install: newestOf([job]), parts };
}

/** Whether a write by this intent would do more than take: install limits, or act on time that has passed. */
export function movesEpoch(seen: Image, intent: Intent, env: Env): boolean {
  const image = intent.install === undefined ? seen : withCallersLimitObjects(seen, intent.install.set);
  return needsRebase(
    image,
    { ...intent, install: env.dialect.installable(intent.install, intent.configConfirmed) },
    env,
  );
}

/** Whether two jobs may be sent in one write. */
export function mayJoin(first: Job, next: Job): boolean {
  const isAlike = first.kind === next.kind && first.of.set.signature === next.of.set.signature;
  // Together they must stay among the exact numbers.
  if (!isAlike || isVast(first) || isVast(next)) return false;
  // What is sent together ends together, by the earliest deadline: a job with hardly any time left goes by itself.
  if (Math.abs(next.untilMs - first.untilMs) > (first.untilMs - first.readingMs) / 2) return false;
  // A job that cannot be sent to read configuration again does not hold up those that can.
  return (first.of.origin.reading === undefined) === (next.of.origin.reading === undefined);
}

function isVast({ amounts }: Job): boolean {
  return amounts.some(({ milli }) => milli > VAST_MILLI);
}

/** A thousand of these can be summed up. */
const VAST_MILLI = 1_000_000_000_000;

function stateFor(
  image: Image | undefined,
  jobs: readonly Job[],
  install: NonNullable<Intent["install"]>,
  readingMs: number,
  env: Env,
): BucketState {
  if (image === undefined) return freshBucket(install.set, install.origin, readingMs, env.calendar);
  const probe = intentOf(jobs, {
    readingMs,
    nonce: undefined,
    birth: undefined,
    guesses: undefined,
    configConfirmed: false,
    ignoreImageShortage: false,
    sheeted: undefined,
  });
  if (!needsRebase(image, { ...probe, install }, env)) return image.state;
  const atMs = epochAfter(image.state, readingMs);
  return withLimitsAt(image.state, { install, readingMs, atMs }, env.calendar);
}

function fitsIn(state: BucketState, left: Map<string, number>, { of, kind, amounts }: Job, readingMs: number): boolean {
  if (of.bypass) return true;
  const isEnough = amounts.every(({ limit: name, milli }) => {
    const held = findLimit(state, name);
    if (held === undefined || held.limit.soft) return true;
    const there = left.get(name) ?? availableMilli(state, held, readingMs);
    left.set(name, there);
    // A debit may go into debt, as deep as it can be counted exactly.
    return there - milli >= (kind === "debit" && milli > 0 ? -debtMaxMilli(held) : 0);
  });
  if (!isEnough) return false;
  for (const { limit, milli } of amounts) left.set(limit, (left.get(limit) ?? 0) - milli);
  return true;
}
