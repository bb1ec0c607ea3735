import type { Amount } from "../../domain/charge/amounts.ts";
import type { CallContext, Claim, Held } from "../../ports/bucket-store.ts";
import type { ProtocolContext } from "../context.ts";
import type { Job } from "../take/job.ts";

/** A call, and when its caller must have an answer. */
export interface Called extends CallContext {
  readonly untilMs: number;
  /** The last observation of this process when it began. */
  readonly askedAtSequence: number;
}

export function called(
  { clock, env, caches }: ProtocolContext,
  { nowMs, timeoutMs, signal, undecided }: CallContext,
): Called {
  const untilMs = clock.now() + timeoutMs;
  // A reading from before the clock was corrected may lie ahead of what the server can show.
  const readingMs = Math.min(nowMs, env.serverTime.latestMs());
  return { nowMs: readingMs, timeoutMs, signal, undecided, untilMs, askedAtSequence: caches.sequence };
}

/** What a call wants of one bucket. */
export function jobOf(
  { caches }: ProtocolContext,
  of: Claim | Held,
  kind: Job["kind"],
  amounts: readonly Amount[],
  { nowMs, untilMs }: Called,
): Job {
  return { of, kind, amounts, readingMs: nowMs, untilMs, askedAtSequence: caches.sequence };
}
