import { debtMaxMilli } from "../../bucket/balance.ts";
import { availableMilli, type BucketState, findLimit, freshBucket } from "../../domain/bucket/bucket-state.ts";
import { isHard } from "../../domain/limits/limit.ts";
import { type Image, withCallersLimitObjects } from "../item/codec.ts";
import { expiresInDebt } from "./expiry.ts";
import { epochAfter, needsRebase, withLimitsAt } from "./forms.ts";
import { blankIntent, type Env, type Intent } from "./intent.ts";
import { intentOf, type Job, neededBy, newestOf } from "./job.ts";
import { isStillHeld } from "./slots.ts";

/** The jobs that fit together, in their order: one that does not fit does not keep the next from being granted. */
interface Admission {
  readonly admitted: readonly Job[];
  /** Jobs that would not fit alone either. The others only come after the admitted ones, which are not taken yet. */
  readonly rejected: readonly Job[];
  readonly state: BucketState;
  /** True if `state` has limits that the item lacks, or must be kept longer than the item says. */
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
      state.origin.changeNumber !== image.state.origin.changeNumber ||
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

/** True if a write by this intent would do more than take: install limits, or act on time that has passed. */
export function movesEpoch(seen: Image, intent: Intent, env: Env): boolean {
  const image = intent.install === undefined ? seen : withCallersLimitObjects(seen, intent.install.set);
  return needsRebase(
    image,
    { ...intent, install: env.dialect.installable(intent.install, intent.configConfirmed) },
    env,
  );
}

function stateFor(
  image: Image | undefined,
  jobs: readonly Job[],
  install: NonNullable<Intent["install"]>,
  readingMs: number,
  env: Env,
): BucketState {
  if (image === undefined) return freshBucket(install.set, install.origin, readingMs, env.calendar);
  const probe = intentOf(jobs, { ...blankIntent(readingMs), sheeted: undefined });
  if (!needsRebase(image, { ...probe, install }, env)) return image.state;
  const atMs = epochAfter(image.state, readingMs);
  return withLimitsAt(image.state, { install, readingMs, atMs }, env.calendar);
}

function fitsIn(state: BucketState, left: Map<string, number>, job: Job, readingMs: number): boolean {
  const { of, kind, amounts } = job;
  if (of.bypass) return true;
  if (kind === "renew") return isStillHeld(state, left, job);
  const isEnough = amounts.every(({ limit: name, milli }) => {
    const held = findLimit(state, name);
    if (held === undefined || !isHard(held.limit)) return true;
    const there = left.get(name) ?? availableMilli(state, held, readingMs);
    left.set(name, there);
    // A debit may go into debt, as deep as can be counted exactly.
    return there >= (kind === "debit" && milli > 0 ? milli - debtMaxMilli(held.part) : neededBy(job, milli, held));
  });
  if (!isEnough) return false;
  for (const { limit, milli } of amounts) left.set(limit, (left.get(limit) ?? 0) - milli);
  return true;
}
