import type { BucketState } from "../../domain/bucket/bucket-state.ts";
import type { ItemKey } from "../../ports/item-store.ts";
import { nonceSlot } from "../item/attributes.ts";
import type { ReadAction } from "../process/machine.ts";
import { FAILURES_FEW, LOST_ANSWERS_MAX } from "../process/retry-policy.ts";
import { admit } from "../take/admission.ts";
import { createForm } from "../take/create.ts";
import { formFor } from "../take/forms.ts";
import { installLimitsIntent } from "../take/install-limits.ts";
import type { Env, Intent, Step, UsageDelta } from "../take/intent.ts";
import { intentOf, type Job, type JobOutcome, mustReadConfig, newestOf, type Sent } from "../take/job.ts";
import { isAhead, repairFutureEpochWrite } from "../take/repair-epoch.ts";
import { sheetBefore, sheetedBy } from "../usage/sheets.ts";
import {
  type Ambiguous,
  type Settle,
  type TakeAction,
  type TakeFacts,
  type TakeProgress,
  type TakeWrite,
  unknownOutcome,
} from "./take-phase.ts";

/** What to do now. Pure; see the states in take-phase.ts. */
export function nextTake(progress: TakeProgress, known: TakeFacts, env: Env): TakeAction {
  const { phase, pending, readingMs } = progress;
  const facts = progress.failures < FAILURES_FEW ? known : { ...known, seen: asJustWritten(known.seen, readingMs) };
  const { seen, key } = facts;
  if (facts.over !== undefined) return giveUp(progress, facts);
  if (phase.at === "ambiguous" && phase.lost.length >= LOST_ANSWERS_MAX)
    return settle(phase.sent.jobs, unknownOutcome(phase));
  if (phase.at === "unread") return read(progress, key, true);
  if (seen === undefined) return read(progress, key, false);
  if (seen.image === undefined && key.shard > 0) {
    // A shard that is missing is not made here: how many there are only shard 0 can tell.
    if (phase.at === "ambiguous") return settle(phase.sent.jobs, unknownOutcome(phase));
    return settle(pending, { kind: "elsewhere" });
  }
  if (seen.image === undefined && phase.at !== "ambiguous") {
    const unread = pending.filter(({ of, kind }) => mustReadConfig(of, kind));
    if (unread.length > 0)
      return settle(unread, { kind: "configSuspect", state: stateWithout(unread, readingMs, env) });
  }
  const nonce = { name: nonceSlot(facts.nonceSlot), value: progress.nonce ?? facts.freshNonce };
  const configConfirmed = facts.doubt === "confirmed";
  const options = { readingMs, nonce, birth: facts.freshBirth, configConfirmed, sheeted: sheetedBy(facts.sheet) };
  const wanted: Wanted = { progress, facts, options, env };
  if (phase.at === "ambiguous") return sendAgain(phase, wanted);
  if (seen.image !== undefined && readingMs >= seen.image.hourEndMs) {
    const sheet = sheetBefore(seen.image, readingMs, facts.sheet, env);
    // Not by an image that may be old: the entity may have been deleted since, and its usage with it.
    if (sheet !== undefined) return phase.at === "verified" ? sheet : read(progress, key, true);
  }
  if (phase.at === "guess" && pending.length === 1 && facts.doubt === "none") {
    // A guess refuses no job, so there is nothing to admit first. Nearly every request ends with this write.
    const usual = takeWrite(pending, wanted, false);
    if (usual !== undefined) return usual;
  }
  const admission = admit(seen.image, pending, options, env);
  const isVerified = phase.at === "verified";
  if (facts.doubt === "configSuspect") {
    // Before anybody is sent to read configuration, the item is read that casts the doubt.
    if (!isVerified) return read(progress, key, true);
    return settle(pending, { kind: "configSuspect", state: admission.state });
  }
  const { admitted, rejected, state, installsLimits } = admission;
  if (rejected.length > 0 && isVerified) {
    // Changed limits reach a bucket also with a claim that is refused.
    if (admitted.length > 0 || !installsLimits) return settle(rejected, { kind: "short", state, readingMs });
    const install = installWrite(rejected[0] as Job, wanted);
    return install ?? settle(rejected, { kind: "short", state, readingMs });
  }
  const jobs = admitted.length > 0 ? admitted : pending.slice(0, 1);
  const write = takeWrite(jobs, wanted, admitted.length === 0);
  if (write !== undefined) return write;
  if (!isVerified) return read(progress, key, true);
  // Without those that do not fit beside them they may go by other limits: those that they have brought themselves.
  if (jobs.length < pending.length) return nextTake({ ...progress, pending: jobs }, known, env);
  return settle(jobs, { kind: "short", state, readingMs });
}

/**
 * Limits that were changed count from the last take that went by the old ones. Where takes come all the time nobody can say when
 * the last of them was, before the next one comes: then they count from now on.
 */
function asJustWritten(seen: TakeFacts["seen"], readingMs: number): TakeFacts["seen"] {
  const { image } = seen ?? {};
  if (seen === undefined || image === undefined || (image.state.writtenMs ?? readingMs) >= readingMs) return seen;
  return { ...seen, image: { ...image, state: { ...image.state, writtenMs: readingMs } } };
}

interface Wanted {
  readonly progress: TakeProgress;
  readonly facts: TakeFacts;
  readonly options: Pick<Intent, "readingMs" | "nonce" | "birth" | "configConfirmed"> & Pick<UsageDelta, "sheeted">;
  readonly env: Env;
}

/** The write that takes for some jobs; undefined when by the image they do not fit. */
function takeWrite(jobs: readonly Job[], wanted: Wanted, ignoreImageShortage: boolean): TakeWrite | undefined {
  const { progress, facts, options } = wanted;
  const { readingMs, nonce, birth, configConfirmed, sheeted } = options;
  const how = { readingMs, nonce, birth, configConfirmed, sheeted, ignoreImageShortage, guesses: undefined };
  const intent = intentOf(jobs, how);
  const image = facts.seen?.image;
  const guesses = progress.exact || image === undefined ? undefined : facts.guesses(image, intent.moves);
  if (guesses === undefined) return writeFor({ why: "take", jobs, intent }, wanted, progress.exact);
  const guessed = writeFor({ why: "take", jobs, intent: { ...intent, guesses } }, wanted, progress.exact);
  // By the guess it does not fit, by the image it may.
  return guessed ?? writeFor({ why: "take", jobs, intent }, wanted, true);
}

function installWrite(job: Job, wanted: Wanted): TakeWrite | undefined {
  const intent = installLimitsIntent(job, wanted.options);
  return writeFor({ why: "install-limits", jobs: [], intent }, wanted, wanted.progress.exact);
}

/** The same jobs once more, in the form that the item now calls for. */
function sendAgain(phase: Ambiguous, { progress, facts, options, env }: Wanted): TakeAction {
  const { jobs } = phase.sent;
  const intent = intentOf(jobs, { ...options, ignoreImageShortage: false, guesses: undefined });
  const step = formed(progress, facts, intent, env);
  // Short, but perhaps only because the lost write was applied.
  if (step.kind === "short") return settle(jobs, unknownOutcome(phase));
  return writeOf(step, { why: "take", jobs, intent }, progress.exact);
}

type Unsent = Omit<Sent, "leaves" | "sides">;

/** Undefined when by the image it does not fit. */
function writeFor(sent: Unsent, { progress, facts, env }: Wanted, exact: boolean): TakeWrite | undefined {
  const image = facts.seen?.image;
  // The clock never shows more than the server's can, so most epochs need no second look at it.
  if (image !== undefined && image.state.epochMs > facts.nowMs && isAhead(image, env)) {
    // First this; then what was asked for, by a reading that can be.
    const intent = { ...sent.intent, readingMs: Math.min(progress.readingMs, env.serverTime.latestMs()) };
    const step = repairFutureEpochWrite(image, intent, env);
    return step.kind === "write" ? writeOf(step, { why: "repair-epoch", jobs: [], intent }, exact) : undefined;
  }
  const step = formed(progress, facts, sent.intent, env);
  return step.kind === "short" ? undefined : writeOf(step, sent, exact);
}

function formed({ pending }: TakeProgress, { seen, key }: TakeFacts, intent: Intent, env: Env): Step {
  const image = seen?.image;
  return image === undefined ? createForm(key, newestOf(pending), intent, env) : formFor(image, intent, env);
}

function writeOf(
  { write, state, sides }: Extract<Step, { kind: "write" }>,
  { why, jobs, intent }: Unsent,
  exact: boolean,
): TakeWrite {
  const sent: Sent = { why, jobs, intent, leaves: state, sides };
  return { do: "write", write, atMs: intent.readingMs, set: intent.install?.set, sent, exact };
}

/** Time or attempts are used up. */
function giveUp({ phase, pending }: TakeProgress, { over, nowMs, lastFault }: TakeFacts): TakeAction {
  const late = over === "time" ? pending.filter(({ untilMs }) => untilMs <= nowMs) : pending;
  if (phase.at === "ambiguous") {
    const { sent, cause } = phase;
    // What was sent together is decided together. Others only waited for it.
    if (late.some((job) => sent.jobs.includes(job))) return settle(sent.jobs, unknownOutcome(phase));
    return settle(late, { kind: "unavailable", applied: "no", cause });
  }
  // They waited for others to whom the store did not answer: that is a fault of the store, not contention.
  if (phase.at !== "verified" && lastFault !== undefined) {
    return settle(late, { kind: "unavailable", applied: "no", cause: lastFault });
  }
  // Among many it could not be decided. That is a refusal, not a fault: a busy bucket must not let anybody through.
  return settle(late, { kind: "contended" });
}

/** The bucket as it would be made. */
function stateWithout(jobs: readonly Job[], readingMs: number, env: Env): BucketState {
  return admit(undefined, jobs, { readingMs, configConfirmed: false }, env).state;
}

function read({ readingMs, pending }: TakeProgress, key: ItemKey, consistent: boolean): ReadAction {
  return { do: "read", keys: [key], consistent, atMs: readingMs, sets: [pending[0]?.of.set] };
}

function settle(jobs: readonly Job[], outcome: JobOutcome): Settle {
  return { do: "settle", jobs, outcome };
}
