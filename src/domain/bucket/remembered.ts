import { dripMs } from "../../bucket/retry-after.ts";
import type { Calendar } from "../limits/calendar.ts";
import { rulesOf } from "../limits/kinds/table.ts";
import { fullestMilli, type LimitState, termsAt } from "./limit-state.ts";
import { searchFor } from "./search.ts";

/**
 * Until when a limit whose rule is replaced at `atMs` must be remembered: its rule, or an earlier one, would have filled it
 * only then. As if it were empty, whatever it holds: on a store of conditional writes others may take until the change is
 * written. 0: it need not be.
 */
export function rememberedUntilMs(state: LimitState, atMs: number, calendar: Calendar): number {
  const untilMs = Math.min(FOREVER_MS, Math.max(filledMs(state, atMs, calendar), state.rememberUntilMs));
  return untilMs > atMs ? untilMs : 0;
}

/** When a limit is as full as it can ever be, if nobody takes meanwhile: with windows, in the largest of them. */
export function fullestAtMs(state: LimitState, atMs: number, calendar: Calendar): number {
  // A soft limit and a shadow let anything through at once; how full they are is another question.
  const { soft: _, shadow: __, ...limit } = state.limit;
  const then = { ...state, limit, terms: termsAt(limit, 0, atMs, calendar, state.part) };
  const { atMs: fullMs, found } = searchFor(then, atMs, fullestMilli(limit, state.part), atMs, calendar);
  return found ? fullMs : Number.POSITIVE_INFINITY;
}

function filledMs(state: LimitState, atMs: number, calendar: Calendar): number {
  const { limit, terms, quota } = state;
  // Nothing is promised of a soft limit.
  if (limit.soft) return 0;
  if (quota === undefined) {
    const tokensMilli = Math.min(0, state.tokensMilli);
    if (limit.schedule !== undefined) return fullestAtMs({ ...state, tokensMilli, remainder: 0 }, atMs, calendar);
    return atMs + dripMs(terms.capacityMilli - tokensMilli, terms);
  }
  const rules = rulesOf(limit);
  // What is held is kept as such, until it ends.
  if (rules.holdsSlots) return 0;
  return rules.isClosed(quota) ? 0 : rules.endMs(limit, quota, atMs, calendar);
}

/** The end of the year 9999: no instant that is stored lies later. */
const FOREVER_MS = 253_402_300_799_000;
