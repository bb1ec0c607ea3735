import { CHANGES_KEPT } from "./config-scope.ts";

/** The plan that an entity had from an instant on; `planId` absent: none. */
export interface PlanStint {
  /** 0: before all changes that are kept. */
  readonly fromMs: number;
  readonly planId?: string;
}

/** The plans of an entity over time, the oldest first, now that it has another. `stints` undefined: it has always had that of before. */
export function withStint(
  stints: readonly PlanStint[] | undefined,
  before: string | undefined,
  after: string | undefined,
  atMs: number,
): readonly PlanStint[] | undefined {
  if (before === after) return stints;
  const known = stints ?? [stint(before, 0)];
  // By a clock that is behind, too, a later change comes after an earlier one.
  const fromMs = Math.max(atMs, (known.at(-1)?.fromMs ?? 0) + 1);
  const [oldest, ...later] = [...known, stint(after, fromMs)].slice(-CHANGES_KEPT - 1);
  return oldest === undefined ? [] : [{ ...oldest, fromMs: 0 }, ...later];
}

/** The plans that it had and has no more: what they say now says nothing of it, what they said then does. */
export function formerPlans(stints: readonly PlanStint[] | undefined): readonly string[] {
  return [...new Set((stints ?? []).slice(0, -1).flatMap(({ planId }) => planId ?? []))];
}

export function stintsText(stints: readonly PlanStint[]): string {
  return JSON.stringify(stints.map(({ fromMs, planId }) => [fromMs, planId ?? null]));
}

/** Undefined where the text is not of this form: then nothing is known of the time before. */
export function stintsFrom(text: unknown): readonly PlanStint[] | undefined {
  try {
    const found: unknown = JSON.parse(String(text));
    if (!Array.isArray(found) || found.length === 0) return undefined;
    return found.map(([fromMs, planId]) => {
      if (!Number.isSafeInteger(fromMs) || fromMs < 0) throw new RangeError(`${fromMs} is not an instant.`);
      return stint(typeof planId === "string" ? planId : undefined, fromMs);
    });
  } catch {
    return undefined;
  }
}

function stint(planId: string | undefined, fromMs: number): PlanStint {
  return { fromMs, ...(planId === undefined ? {} : { planId }) };
}
