import type { Answer } from "../../ports/bucket-store.ts";

/** The answers of a call; where it did not go by the reading of its caller, they say by which. */
export function readBy(
  answers: readonly Answer[],
  { nowMs }: { readonly nowMs: number },
  askedMs: number,
): readonly Answer[] {
  if (nowMs === askedMs) return answers;
  return answers.map((answer) => ("state" in answer ? { readingMs: nowMs, ...answer } : answer));
}

/** The answer that a job got; where the clock was found wrong on the way, it says by which reading the job was decided. */
export function decidedBy<A extends Decided>(answer: A, readingMs: number, { nowMs }: { readonly nowMs: number }): A {
  return readingMs < nowMs ? { ...answer, readingMs } : answer;
}

type Decided = Extract<Answer, { readonly kind: "taken" | "short" }>;
