import type { BucketState } from "../../domain/bucket/bucket-state.ts";
import type { Item, ItemKey } from "../../ports/item-store.ts";
import { nonceSlot } from "../item/attributes.ts";
import type { Seen } from "../process/bucket-cache.ts";
import type { Event, ReadAction } from "../process/machine.ts";
import { FAILURES_FEW, LOST_ANSWERS_MAX } from "../process/retry-policy.ts";
import { admit } from "../take/admission.ts";
import { createForm, formFor, isAhead, repairFutureEpochWrite } from "../take/forms.ts";
import { type Env, type Intent, type Step, sidesOfAny, type UsageDelta } from "../take/intent.ts";
import {
  installLimitsIntent,
  intentOf,
  type Job,
  type JobOutcome,
  mustReadConfig,
  newestOf,
  type Sent,
} from "../take/job.ts";
import { sheetBefore, sheetedBy } from "../usage/sheets.ts";
import {
  type Ambiguous,
  GUESS,
  type Phase,
  type Settle,
  type Settled,
  type TakeAction,
  type TakeFacts,
  type TakeProgress,
  type TakeWrite,
  UNREAD,
  unknownOutcome,
} from "./take-phase.ts";

/** Chooses the next action. Pure; see the states in take-phase.ts. */
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
    // A missing shard is not created here: only shard 0 can tell how many there are.
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
    // The image may be old: the entity may have been deleted since, and its usage with it.
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
    // Read the item that casts the doubt before any caller is sent to read configuration.
    if (!isVerified) return read(progress, key, true);
    return settle(pending, { kind: "configSuspect", state: admission.state });
  }
  const { admitted, rejected, state, installsLimits } = admission;
  if (rejected.length > 0 && isVerified) {
    // Changed limits reach a bucket also with a refused claim.
    if (admitted.length > 0 || !installsLimits) return settle(rejected, { kind: "short", state, readingMs });
    const install = installWrite(rejected[0] as Job, wanted);
    return install ?? settle(rejected, { kind: "short", state, readingMs });
  }
  const jobs = admitted.length > 0 ? admitted : pending.slice(0, 1);
  const write = takeWrite(jobs, wanted, admitted.length === 0);
  if (write !== undefined) return write;
  if (!isVerified) return read(progress, key, true);
  // Retry without the jobs that do not fit: the remaining jobs may carry newer limits.
  if (jobs.length < pending.length) return nextTake({ ...progress, pending: jobs }, known, env);
  return settle(jobs, { kind: "short", state, readingMs });
}

/**
 * Changed limits count from the last take that went by the old ones. If takes come all the time, the last of them cannot be known
 * before the next one comes: then the limits count from now on.
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

/** The write that takes for some jobs; undefined if they do not fit the image. */
function takeWrite(jobs: readonly Job[], wanted: Wanted, ignoreImageShortage: boolean): TakeWrite | undefined {
  const { progress, facts, options } = wanted;
  const { readingMs, nonce, birth, configConfirmed, sheeted } = options;
  const how = { readingMs, nonce, birth, configConfirmed, sheeted, ignoreImageShortage, guesses: undefined };
  const intent = intentOf(jobs, how);
  const image = facts.seen?.image;
  const guesses = progress.exact || image === undefined ? undefined : facts.guesses(image, intent.moves);
  if (guesses === undefined) return writeFor({ why: "take", jobs, intent }, wanted, progress.exact);
  const guessed = writeFor({ why: "take", jobs, intent: { ...intent, guesses } }, wanted, progress.exact);
  // It does not fit the guess, but it may fit the image.
  return guessed ?? writeFor({ why: "take", jobs, intent }, wanted, true);
}

function installWrite(job: Job, wanted: Wanted): TakeWrite | undefined {
  const intent = installLimitsIntent(job, wanted.options);
  return writeFor({ why: "install-limits", jobs: [], intent }, wanted, wanted.progress.exact);
}

/** Sends the same jobs again, in the form that the item now needs. */
function sendAgain(phase: Ambiguous, { progress, facts, options, env }: Wanted): TakeAction {
  const { jobs } = phase.sent;
  const intent = intentOf(jobs, { ...options, ignoreImageShortage: false, guesses: undefined });
  const step = formOf(progress, facts, intent, env);
  // They may be short only because the lost write was applied.
  if (step.kind === "short") return settle(jobs, unknownOutcome(phase));
  return writeOf(step, { why: "take", jobs, intent }, progress.exact);
}

type Unsent = Omit<Sent, "leaves" | "sides">;

/** Undefined if it does not fit the image. */
function writeFor(sent: Unsent, { progress, facts, env }: Wanted, exact: boolean): TakeWrite | undefined {
  const image = facts.seen?.image;
  // The clock never shows more than the server's can, so most epochs need no further check.
  if (image !== undefined && image.state.epochMs > facts.nowMs && isAhead(image, env)) {
    // Repair the epoch first, then take by a possible reading.
    const intent = { ...sent.intent, readingMs: Math.min(progress.readingMs, env.serverTime.latestMs()) };
    const step = repairFutureEpochWrite(image, intent, env);
    return step.kind === "write" ? writeOf(step, { why: "repair-epoch", jobs: [], intent }, exact) : undefined;
  }
  const step = formOf(progress, facts, sent.intent, env);
  return step.kind === "short" ? undefined : writeOf(step, sent, exact);
}

function formOf({ pending }: TakeProgress, { seen, key }: TakeFacts, intent: Intent, env: Env): Step {
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

function giveUp({ phase, pending }: TakeProgress, { over, nowMs, lastFault }: TakeFacts): TakeAction {
  const late = over === "time" ? pending.filter(({ untilMs }) => untilMs <= nowMs) : pending;
  if (phase.at === "ambiguous") {
    const { sent, cause } = phase;
    // Jobs that were sent together are decided together. The others only waited.
    if (late.some((job) => sent.jobs.includes(job))) return settle(sent.jobs, unknownOutcome(phase));
    return settle(late, { kind: "unavailable", applied: "no", cause });
  }
  // The store did not answer earlier jobs: that is a fault of the store, not contention.
  if (phase.at !== "verified" && lastFault !== undefined) {
    return settle(late, { kind: "unavailable", applied: "no", cause: lastFault });
  }
  // Contention is a refusal, not a fault: a busy bucket must not let requests through.
  return settle(late, { kind: "contended" });
}

function stateWithout(jobs: readonly Job[], readingMs: number, env: Env): BucketState {
  return admit(undefined, jobs, { readingMs, configConfirmed: false }, env).state;
}

function read({ readingMs, pending }: TakeProgress, key: ItemKey, consistent: boolean): ReadAction {
  return { do: "read", keys: [key], consistent, atMs: readingMs, sets: [pending[0]?.of.set] };
}

function settle(jobs: readonly Job[], outcome: JobOutcome): Settle {
  return { do: "settle", jobs, outcome };
}

/** Applies an answer to the progress. Pure; see the states in take-phase.ts. */
export function onTake(progress: TakeProgress, action: TakeAction, event: Event): TakeProgress {
  const { phase } = progress;
  switch (action.do) {
    case "settle":
      if (phase.at !== "ambiguous" || !action.jobs.some((job) => phase.sent.jobs.includes(job))) {
        return settleJobs(progress, action);
      }
      // The next write is for other jobs: its nonce must differ from that of the lost one.
      return settleJobs({ ...progress, phase: GUESS, nonce: undefined }, action);
    case "read": {
      if (event.kind === "unread") return unavailable(progress, event.cause);
      const [seen] = event.kind === "read" ? event.seen : [];
      if (seen === undefined || !action.consistent) return progress;
      return { ...progress, phase: phase.at === "ambiguous" ? { ...phase, seen } : { at: "verified", seen } };
    }
    case "write":
      return onWrite(progress, action, event);
    default:
      return progress;
  }
}

function onWrite(before: TakeProgress, { sent, exact }: TakeWrite, event: Event): TakeProgress {
  const { phase } = before;
  if (event.kind === "applied") return settleTaken(before, { sent, exact, landed: sent }, event.seen);
  const { intent, jobs } = sent;
  const { readingMs } = intent;
  const failures = before.failures + (event.kind === "failed" ? 1 : 0);
  const progress: TakeProgress = { ...before, readingMs, exact, nonce: intent.nonce?.value, failures };
  switch (event.kind) {
    case "failed": {
      const { seen } = event;
      if (phase.at !== "ambiguous") return { ...progress, phase: { at: "verified", seen } };
      if (showsNonce(seen.image?.item, intent)) {
        const landed = { ...phase.sent, sides: sidesOfAny(phase.lost) };
        return settleTaken(before, { sent, exact, landed, others: phase.lost }, seen);
      }
      return { ...progress, phase: { ...phase, seen } };
    }
    case "refused":
      // A transaction of another process is in the way; it ends soon.
      return event.why === "conflict" ? progress : unavailable(progress, event.cause);
    case "unknown": {
      // The write took nothing. If it was applied, its nonce must not be taken for that of a take.
      if (jobs.length === 0) return { ...progress, phase: UNREAD, nonce: undefined };
      const earlier = phase.at === "ambiguous" ? phase : { sent, lost: [], laters: [], seen: undefined };
      const lost: Ambiguous = {
        at: "ambiguous",
        sent: earlier.sent,
        lost: [...earlier.lost, sent],
        cause: event.cause,
        laters: event.later === undefined ? earlier.laters : [...earlier.laters, { sent, answer: event.later }],
        seen: earlier.seen,
      };
      return { ...progress, phase: lost };
    }
    default:
      return progress;
  }
}

/** True if an item shows that a write with the nonce of this intent was applied. */
export function showsNonce(item: Item | undefined, { nonce }: Intent): boolean {
  return nonce !== undefined && item?.[nonce.name] === nonce.value;
}

/** The write was applied; `seen` shows the item right after it, or as it was found later. */
function settleTaken(
  before: TakeProgress,
  { sent, exact, landed, others }: Pick<TakeWrite, "sent" | "exact"> & Landed,
  seen: Seen,
): TakeProgress {
  const { jobs, pending, settled, failures } = before;
  const { readingMs } = sent.intent;
  const phase: Phase = { at: "verified", seen };
  // The next write gets another nonce.
  const after: TakeProgress = { phase, jobs, pending, settled, readingMs, nonce: undefined, exact, failures };
  if (seen.image === undefined || sent.jobs.length === 0) return after;
  const outcome = { kind: "taken", image: seen.image, written: landed.leaves, readingMs, by: landed } as const;
  const orLeft = others?.map(({ leaves }) => leaves);
  return settleJobs(after, { jobs: sent.jobs, outcome: orLeft === undefined ? outcome : { ...outcome, orLeft } });
}

/** The sending that was applied; if that is uncertain, `others` are candidates too. */
interface Landed {
  readonly landed: Sent;
  readonly others?: readonly Sent[];
}

/** Settles all pending jobs. Jobs that are already settled keep their outcome. */
function unavailable(progress: TakeProgress, cause: unknown): TakeProgress {
  const { phase, pending } = progress;
  const isAmbiguous = phase.at === "ambiguous";
  const unknown = isAmbiguous ? phase.sent.jobs : [];
  const known = pending.filter((job) => !unknown.includes(job));
  const rest = settleJobs(progress, { jobs: known, outcome: { kind: "unavailable", applied: "no", cause } });
  if (!isAmbiguous) return rest;
  return settleJobs({ ...rest, phase: GUESS }, { jobs: unknown, outcome: unknownOutcome({ ...phase, cause }) });
}

function settleJobs(progress: TakeProgress, { jobs: decided, outcome }: Settled): TakeProgress {
  if (decided.length === 0) return progress;
  const { phase, jobs, readingMs, nonce, exact, failures } = progress;
  const isAll = decided.length === progress.pending.length;
  const pending = isAll ? NO_JOBS : progress.pending.filter((job) => !decided.includes(job));
  const settled = [...progress.settled, { jobs: decided, outcome }];
  return { phase, jobs, pending, settled, readingMs, nonce, exact, failures };
}

const NO_JOBS: readonly Job[] = Object.freeze([]);
