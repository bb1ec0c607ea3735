import type { Item } from "../../ports/item-store.ts";
import type { Seen } from "../process/bucket-cache.ts";
import type { Event } from "../process/machine.ts";
import type { Intent } from "../take/intent.ts";
import type { Job, Sent } from "../take/job.ts";
import { sidesOfAny } from "../take/passed.ts";
import {
  type Ambiguous,
  GUESS,
  type Phase,
  type Settled,
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
      if (phase.at !== "ambiguous" || !action.jobs.some((job) => phase.sent.jobs.includes(job))) {
        return settledAs(progress, action);
      }
      // The next write is another one, for other jobs: by the nonce it must not be taken for the lost one.
      return settledAs({ ...progress, phase: GUESS, nonce: undefined }, action);
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
  if (event.kind === "applied") return taken(before, { sent, exact, landed: sent }, event.seen);
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
        return taken(before, { sent, exact, landed, others: phase.lost }, seen);
      }
      return { ...progress, phase: { ...phase, seen } };
    }
    case "refused":
      // A transaction of another process is in the way: that ends soon.
      return event.why === "conflict" ? progress : unavailable(progress, event.cause);
    case "unknown": {
      // It took nothing for anybody. Should it have been applied, its nonce must not be taken for that of a take.
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

/** Whether an item shows that a write with the nonce of this one was applied. */
export function showsNonce(item: Item | undefined, { nonce }: Intent): boolean {
  return nonce !== undefined && item?.[nonce.name] === nonce.value;
}

/** The write was applied; it left the item as `seen` shows, or that is how it was found later. */
function taken(
  before: TakeProgress,
  { sent, exact, landed, others }: Pick<TakeWrite, "sent" | "exact"> & Landed,
  seen: Seen,
): TakeProgress {
  const { jobs, pending, settled, failures } = before;
  const { readingMs } = sent.intent;
  const phase: Phase = { at: "verified", seen };
  // The next write is another one, with another nonce.
  const after: TakeProgress = { phase, jobs, pending, settled, readingMs, nonce: undefined, exact, failures };
  if (seen.image === undefined || sent.jobs.length === 0) return after;
  const outcome = { kind: "taken", image: seen.image, written: landed.leaves, readingMs, by: landed } as const;
  const orLeft = others?.map(({ leaves }) => leaves);
  return settledAs(after, { jobs: sent.jobs, outcome: orLeft === undefined ? outcome : { ...outcome, orLeft } });
}

/** The sending that was applied; or, where that is not certain, one of these. */
interface Landed {
  readonly landed: Sent;
  readonly others?: readonly Sent[];
}

/** Nothing more comes of it. What was settled before stays as it is. */
function unavailable(progress: TakeProgress, cause: unknown): TakeProgress {
  const { phase, pending } = progress;
  const isAmbiguous = phase.at === "ambiguous";
  const unknown = isAmbiguous ? phase.sent.jobs : [];
  const known = pending.filter((job) => !unknown.includes(job));
  const rest = settledAs(progress, { jobs: known, outcome: { kind: "unavailable", applied: "no", cause } });
  if (!isAmbiguous) return rest;
  return settledAs({ ...rest, phase: GUESS }, { jobs: unknown, outcome: unknownOutcome({ ...phase, cause }) });
}

/** Some of the pending jobs are decided. */
function settledAs(progress: TakeProgress, { jobs: decided, outcome }: Settled): TakeProgress {
  if (decided.length === 0) return progress;
  const { phase, jobs, readingMs, nonce, exact, failures } = progress;
  const isAll = decided.length === progress.pending.length;
  const pending = isAll ? NOBODY : progress.pending.filter((job) => !decided.includes(job));
  const settled = [...progress.settled, { jobs: decided, outcome }];
  return { phase, jobs, pending, settled, readingMs, nonce, exact, failures };
}

const NOBODY: readonly Job[] = Object.freeze([]);
