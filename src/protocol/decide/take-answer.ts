import type { BucketState } from "../../domain/bucket-state.ts";
import type { Seen } from "../bucket-cache.ts";
import type { Event } from "../drive.ts";
import type { Job, JobOutcome } from "../job.ts";
import {
  type Ambiguous,
  GUESS,
  type Phase,
  type TakeAction,
  type TakeProgress,
  type TakeWrite,
  UNREAD,
  unknownOutcome,
} from "./take-phase.ts";

/** What an answer means. Pure; see the states in take-phase.ts. */
export function onTake(progress: TakeProgress, action: TakeAction, event: Event): TakeProgress {
  const { phase } = progress;
  switch (action.do) {
    case "settle":
      if (phase.at !== "ambiguous") return settled(progress, action.jobs, action.outcome, phase);
      // The next write is another one, for other jobs: by the nonce it must not be taken for the lost one.
      return settled({ ...progress, nonce: undefined }, action.jobs, action.outcome, GUESS);
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
  const { intent, jobs, leaves } = sent;
  const { readingMs } = intent;
  const { phase } = before;
  const progress: TakeProgress = { ...before, readingMs, exact, nonce: intent.nonce?.value };
  switch (event.kind) {
    case "applied":
      return taken({ ...progress, nonce: undefined }, jobs, event.seen, leaves);
    case "failed": {
      const { seen } = event;
      if (phase.at !== "ambiguous") return { ...progress, phase: { at: "verified", seen } };
      const isThere = seen.image?.item[intent.nonce?.name ?? ""] === intent.nonce?.value;
      if (isThere) return taken({ ...progress, nonce: undefined }, jobs, seen, phase.sent.leaves);
      return { ...progress, phase: { ...phase, seen } };
    }
    case "refused":
      // A transaction of another process is in the way: that ends soon.
      return event.why === "conflict" ? progress : unavailable(progress, event.cause);
    case "unknown": {
      // It took nothing for anybody. Should it have been applied, its nonce must not be taken for that of a take.
      if (jobs.length === 0) return { ...progress, phase: UNREAD, nonce: undefined };
      const earlier = phase.at === "ambiguous" ? phase : { sent, lost: 0, laters: [], seen: undefined };
      const lost: Ambiguous = {
        at: "ambiguous",
        sent: earlier.sent,
        lost: earlier.lost + 1,
        cause: event.cause,
        laters: event.later === undefined ? earlier.laters : [...earlier.laters, event.later],
        seen: earlier.seen,
      };
      return { ...progress, phase: lost };
    }
    default:
      return progress;
  }
}

function taken(progress: TakeProgress, jobs: readonly Job[], seen: Seen, written: BucketState): TakeProgress {
  const phase: Phase = { at: "verified", seen };
  if (seen.image === undefined || jobs.length === 0) return { ...progress, phase };
  const { readingMs } = progress;
  return settled(progress, jobs, { kind: "taken", image: seen.image, written, readingMs }, phase);
}

/** Nothing more comes of it. What was settled before stays as it is. */
function unavailable(progress: TakeProgress, cause: unknown): TakeProgress {
  const { phase, pending } = progress;
  const isAmbiguous = phase.at === "ambiguous";
  const unknown = isAmbiguous ? phase.sent.jobs : [];
  const known = pending.filter((job) => !unknown.includes(job));
  const rest = settled(progress, known, { kind: "unavailable", applied: "no", cause }, phase);
  return isAmbiguous ? settled(rest, unknown, unknownOutcome({ ...phase, cause }), GUESS) : rest;
}

function settled(progress: TakeProgress, jobs: readonly Job[], outcome: JobOutcome, phase: Phase): TakeProgress {
  const outcomes = new Map(progress.settled);
  for (const job of jobs) outcomes.set(job, outcome);
  const pending = progress.pending.filter((job) => !outcomes.has(job));
  return { ...progress, phase, pending, settled: outcomes };
}
