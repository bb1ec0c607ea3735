import type { Amount } from "../domain/amounts.ts";
import { availableMilli, type BucketState, findLimit, freshBucket } from "../domain/bucket-state.ts";
import type { Claim, Held } from "../ports/bucket-store.ts";
import type { TracePart } from "../ports/item-store.ts";
import { type Image, withCallersLimitObjects } from "./codec.ts";
import { needsRebase } from "./forms.ts";
import type { Env, Intent, Move } from "./intent.ts";
import { expiresInDebt } from "./moves.ts";
import { epochAfter, withLimitsAt } from "./rebase.ts";

/** What one claim, or one debit of a lease, wants of one shard. */
export interface Job {
  readonly of: Claim | Held;
  readonly kind: "take" | "debit";
  readonly amounts: readonly Amount[];
  readonly readingMs: number;
  /** How long it may take. */
  readonly timeoutMs: number;
}

/** What became of a job at one shard. */
export type JobOutcome =
  /**
   * `image`: as it was seen after. `written`: as the write left it, tokens aside; when the answer was lost, and the nonce
   * tells that it landed, that may be long ago, and the item in another period.
   */
  | {
      readonly kind: "taken";
      readonly image: Image;
      readonly written: BucketState;
      readonly readingMs: number;
    }
  | { readonly kind: "short" | "configSuspect" | "contended"; readonly state: BucketState }
  | { readonly kind: "unavailable"; readonly applied: "no" | "unknown"; readonly cause: unknown }
  /** The shard is not there; the bucket has others. */
  | { readonly kind: "elsewhere" };

/** Which of the jobs fit together, in their order: one that does not fit does not keep the next from being granted. */
export interface Walked {
  readonly fitting: readonly Job[];
  readonly refused: readonly Job[];
  /** The bucket as it stands for them, with their limits brought to it. */
  readonly state: BucketState;
  /** Whether it has limits now that the item does not know of, or must be kept longer than the item says. */
  readonly brings: boolean;
}

export function walk(
  seen: Image | undefined,
  jobs: readonly Job[],
  readingMs: number,
  configConfirmed: boolean,
  env: Env,
): Walked {
  const newest = newestOf(jobs);
  const install = seen === undefined ? newest : (env.dialect.installable(newest, configConfirmed) ?? newest);
  const image = seen === undefined ? undefined : withCallersLimitObjects(seen, install.set);
  const state = stateFor(image, jobs, install, readingMs, env);
  const brings =
    image !== undefined &&
    (state.signature !== image.state.signature ||
      state.limits.length !== image.state.limits.length ||
      expiresInDebt(image, readingMs, env));
  const fitting: Job[] = [];
  const refused: Job[] = [];
  const left = new Map<string, number>();
  for (const job of jobs) {
    if (fitsIn(state, left, job, readingMs)) fitting.push(job);
    else refused.push(job);
  }
  return { fitting, refused, state, brings };
}

/** The limits that jobs go by which leave together: the same, of whoever read them last. */
export function newestOf(jobs: readonly Job[]): NonNullable<Intent["install"]> {
  let newest = jobs[0]?.of as Claim | Held;
  for (const { of } of jobs) if (of.origin.asOfMs > newest.origin.asOfMs) newest = of;
  return { set: newest.set, origin: newest.origin };
}

/** One write for all jobs. */
export function intentOf(
  jobs: readonly Job[],
  options: Pick<Intent, "readingMs" | "nonce" | "guesses" | "configConfirmed" | "ignoreImageShortage">,
): Intent {
  const [only] = jobs;
  if (jobs.length === 1 && only !== undefined) return intentOfOne(only, options);
  const moves = new Map<string, Move>();
  const counted = new Map<string, number>();
  const parts: TracePart[] = [];
  let requests = 0;
  for (const { of, kind, amounts } of jobs) {
    parts.push({ of, kind, amounts });
    if (kind === "take") requests++;
    for (const { limit, milli } of amounts) {
      counted.set(limit, (counted.get(limit) ?? 0) + milli);
      if (of.bypass) continue;
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
    requests,
    parts,
  };
}

/** The same for one job, which is what nearly every write is for. */
function intentOfOne(
  { of, kind, amounts }: Job,
  {
    readingMs,
    nonce,
    guesses,
    configConfirmed,
    ignoreImageShortage,
  }: Pick<Intent, "readingMs" | "nonce" | "guesses" | "configConfirmed" | "ignoreImageShortage">,
): Intent {
  const mustFit = kind === "take";
  return {
    readingMs,
    install: of,
    configConfirmed,
    checksAccess: mustFit && of.origin.reading !== undefined,
    moves: of.bypass ? NONE : amounts.map(({ limit, milli }) => ({ limit, milli, mustFit })),
    counted: amounts,
    requests: mustFit ? 1 : 0,
    parts: [{ of, kind, amounts }],
    nonce,
    ignoreImageShortage,
    guesses,
  };
}

const NONE: readonly Move[] = Object.freeze([]);

/** Only brings limits to an item; whoever they came with was refused. */
export function bringing(job: Job, options: Pick<Intent, "readingMs" | "nonce" | "configConfirmed">): Intent {
  return {
    ...options,
    install: newestOf([job]),
    checksAccess: false,
    moves: [],
    counted: [],
    requests: 0,
    parts: [{ of: job.of, kind: job.kind, amounts: [] }],
    ignoreImageShortage: false,
    guesses: undefined,
  };
}

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
    guesses: undefined,
    configConfirmed: false,
    ignoreImageShortage: false,
  });
  if (!needsRebase(image, { ...probe, install }, env)) return image.state;
  const atMs = epochAfter(image.state, readingMs);
  return withLimitsAt(image.state, { install, readingMs, atMs }, env.calendar);
}

function fitsIn(state: BucketState, left: Map<string, number>, { of, kind, amounts }: Job, readingMs: number): boolean {
  if (of.bypass || kind === "debit") return true;
  const isEnough = amounts.every(({ limit: name, milli }) => {
    const held = findLimit(state, name);
    if (held === undefined || held.limit.soft) return true;
    const there = left.get(name) ?? availableMilli(state, held, readingMs);
    left.set(name, there);
    return there >= milli;
  });
  if (!isEnough) return false;
  for (const { limit, milli } of amounts) left.set(limit, (left.get(limit) ?? 0) - milli);
  return true;
}
