import type { Limit } from "../limits/limit.ts";

/** The measure that every acquire uses 1 of, unless it says otherwise. */
export const REQUESTS = "requests";

/** The measure that a limit counts: a request that uses so much of it takes as much from the limit. */
export function measureOf({ name, counts }: Pick<Limit, "name" | "counts">): string {
  return counts ?? name;
}

/** The measure that the limit of this name counts; the name itself where there is no such limit. */
export function measureIn(limits: readonly Limit[], name: string): string {
  for (const limit of limits) if (limit.name === name) return measureOf(limit);
  return name;
}

/** The measures that a set of limits counts, each once, in the order of the limits. */
export function measuresOf(limits: readonly Limit[]): readonly string[] {
  return [...new Set(limits.map(measureOf))];
}

/** A limit as statuses and the like name it. */
export function counting(limit: Pick<Limit, "name" | "counts">): { readonly limit: string; readonly counts: string } {
  return { limit: limit.name, counts: measureOf(limit) };
}
