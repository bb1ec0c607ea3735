import type { Answer } from "../ports/bucket-store.ts";

/** The answers of a call; where it did not go by the reading of its caller, they say by which. */
export function readBy(
  answers: readonly Answer[],
  { nowMs }: { readonly nowMs: number },
  askedMs: number,
): readonly Answer[] {
  if (nowMs === askedMs) return answers;
  return answers.map((answer) => ("state" in answer ? { ...answer, readingMs: nowMs } : answer));
}
