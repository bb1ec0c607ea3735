import { freshBucket } from "../../domain/bucket/bucket-state.ts";
import type { Calendar } from "../../domain/limits/calendar.ts";
import { withoutShadowed } from "../../domain/limits/shadow.ts";
import type { Answer, Claim, Held, TakenAnswer } from "../../ports/bucket-store.ts";
import type { ObservedBucket } from "../refusal/refusal.ts";

// What the store's answers to the claims of a request say.

export function allTaken(answers: readonly Answer[]): answers is readonly TakenAnswer[] {
  for (let i = 0; i < answers.length; i++) if (answers[i]?.kind !== "taken") return false;
  return true;
}

/** The reading that the store went by; undefined: that of the caller. */
export function readingOf(answers: readonly Answer[]): number | undefined {
  for (const answer of answers) if ("readingMs" in answer) return answer.readingMs;
  return undefined;
}

/** The bucket of a claim as the answer shows it. */
export function seenIn(
  { set, origin }: Claim,
  answer: Exclude<Answer, { kind: "unavailable" }>,
  nowMs: number,
  calendar: Calendar,
): Pick<ObservedBucket, "state" | "taken" | "shadowed" | "seen"> {
  if (answer.kind === "unseen") {
    return { state: freshBucket(set, origin, nowMs, calendar), taken: false, seen: "never" };
  }
  const seenAtMs = "seenAtMs" in answer ? answer.seenAtMs : undefined;
  const seen = seenAtMs === undefined ? "now" : { atMs: seenAtMs };
  if (answer.kind !== "taken") return { state: answer.state, taken: false, seen };
  return { state: answer.state, taken: true, shadowed: answer.shadowed, seen };
}

/** What a claim has taken, to be given back; what it passed by was not. */
export function undoneOf(claim: Claim, { ticket, shadowed }: TakenAnswer): Claim & Held {
  return { ...claim, take: withoutShadowed(claim.take, shadowed), ticket };
}
