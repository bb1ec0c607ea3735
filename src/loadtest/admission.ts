import type { Scenario } from "./scenarios.ts";

/** Tokens granted per entity and limit, net of what was given back. */
export type GrantedTokens = Readonly<Record<string, Readonly<Record<string, number>>>>;

/** One limit of one entity, held against arithmetic. */
export interface AdmissionCheck {
  readonly entityId: string;
  readonly limit: string;
  readonly grantedTokens: number;
  /** The most that may have been granted. */
  readonly boundTokens: number;
  readonly excessTokens: number;
}

interface LoadTotals {
  readonly scenario: Scenario;
  readonly granted: GrantedTokens;
  /** What was charged after the fact, of that. */
  readonly corrected: GrantedTokens;
  /** From before the first request to after the last answer, by the clocks of the limiters: the earliest and the latest. */
  readonly elapsedMs: number;
  /** Requests that were under way at once, at most. */
  readonly callers: number;
  /** Stores that counted on their own, each from a full bucket. */
  readonly stores: number;
}

/**
 * Capacity plus refill for the time, per limit and level. Where work is corrected afterwards, requests that were let in before the
 * bucket went into debt may still charge it: at most one correction for each that was under way, and no more than all of them.
 */
export function checkAdmission(totals: LoadTotals): readonly AdmissionCheck[] {
  const { scenario, granted, corrected, elapsedMs, callers, stores } = totals;
  return scenario.entities.flatMap(({ id: entityId, limits }) =>
    limits.map(({ name: limit, capacity, refillAmount, refillPeriodMs }) => {
      // The clocks tell whole milliseconds: the first reading may be one too late.
      const refill = Math.floor((refillAmount * (elapsedMs + 1)) / refillPeriodMs);
      const late = Math.min(corrected[entityId]?.[limit] ?? 0, callers * (scenario.adjustMax[limit] ?? 0));
      const boundTokens = stores * (capacity + refill) + late;
      const grantedTokens = granted[entityId]?.[limit] ?? 0;
      const excessTokens = Math.max(0, grantedTokens - boundTokens);
      return { entityId, limit, grantedTokens, boundTokens, excessTokens };
    }),
  );
}
