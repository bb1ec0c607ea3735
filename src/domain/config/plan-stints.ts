import { given } from "../names/given.ts";
import { type ChangeTime, END, numberIn, type Since, sinceAfter, sinceFrom } from "./change-number.ts";
import { CHANGES_KEPT } from "./config-scope.ts";

/** The plan that an entity had from an instant on; `planId` absent: none. */
export interface PlanStint extends Since {
  readonly planId?: string;
}

/** Appends a plan to those of an entity over time, the oldest first. `stints` undefined: it has always had the plan of before. */
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

/** The plans that an entity had and has no more: what they said then counts for it, what they say now does not. */
export function formerPlans(stints: readonly PlanStint[] | undefined): readonly string[] {
  return [...new Set((stints ?? []).slice(0, -1).flatMap(({ planId }) => planId ?? []))];
}

export function stintsText(stints: readonly PlanStint[]): string {
  return JSON.stringify(stints.map((one) => [one.fromMs, one.planId ?? null, ...numberIn(one)]));
}

export function stintsFrom(text: unknown): readonly PlanStint[] | undefined {
  const stints = historyFrom(text, (planId, since) => stint(typeof planId === "string" ? planId : undefined, since));
  return stints?.length === 0 ? undefined : stints;
}

/** The stored text of a history; undefined where it is not of this form: then nothing is known of the time before. */
export function historyFrom<Entry>(
  text: unknown,
  read: (said: unknown, since: Since) => Entry,
): readonly Entry[] | undefined {
  try {
    const found: unknown = JSON.parse(String(text));
    return Array.isArray(found)
      ? found.map(([fromMs, said, number]) => read(said, sinceFrom(fromMs, number)))
      : undefined;
  } catch {
    return undefined;
  }
}

/**
 * The stored text of a history without the numbers of its changes, for a store that numbers them anew: there they go by their
 * instants, and come before every change that is made there.
 */
export function textByInstants(text: string): string {
  const found: unknown = JSON.parse(text);
  if (!Array.isArray(found)) throw new RangeError("A history is a list of versions.");
  return JSON.stringify(found.map(([fromMs, said, number]) => [fromMs, said, ...(number === END ? [END] : [])]));
}

const ALWAYS: Since = { fromMs: 0 };

function stint(planId: string | undefined, since: Since): PlanStint {
  return { ...since, ...given({ planId }) };
}
