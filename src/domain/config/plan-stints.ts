import type { ChangeTime } from "./change-number.ts";
import { CHANGES_KEPT } from "./config-scope.ts";
import { numberIn, type Since, sinceAfter, sinceFrom } from "./since.ts";

/** The plan that an entity had from an instant on; `planId` absent: none. */
export interface PlanStint extends Since {
  readonly planId?: string;
}

/** The plans of an entity over time, the oldest first, now that it has another. `stints` undefined: it has always had that of before. */
export function withStint(
  stints: readonly PlanStint[] | undefined,
  before: string | undefined,
  after: string | undefined,
  time: ChangeTime,
): readonly PlanStint[] | undefined {
  if (before === after) return stints;
  const known = stints ?? [stint(before, ALWAYS)];
  const [oldest, ...later] = [...known, stint(after, sinceAfter(known, time))].slice(-CHANGES_KEPT - 1);
  return oldest === undefined ? [] : [stint(oldest.planId, ALWAYS), ...later];
}

/** The plans that it had and has no more: what they say now says nothing of it, what they said then does. */
export function formerPlans(stints: readonly PlanStint[] | undefined): readonly string[] {
  return [...new Set((stints ?? []).slice(0, -1).flatMap(({ planId }) => planId ?? []))];
}

export function stintsText(stints: readonly PlanStint[]): string {
  return JSON.stringify(stints.map((one) => [one.fromMs, one.planId ?? null, ...numberIn(one)]));
}

/** Undefined where the text is not of this form: then nothing is known of the time before. */
export function stintsFrom(text: unknown): readonly PlanStint[] | undefined {
  try {
    const found: unknown = JSON.parse(String(text));
    if (!Array.isArray(found) || found.length === 0) return undefined;
    return found.map(([fromMs, planId, number]) =>
      stint(typeof planId === "string" ? planId : undefined, sinceFrom(fromMs, number)),
    );
  } catch {
    return undefined;
  }
}

const ALWAYS: Since = { fromMs: 0 };

function stint(planId: string | undefined, since: Since): PlanStint {
  return { ...since, ...(planId === undefined ? {} : { planId }) };
}
