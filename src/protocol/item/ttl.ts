import { divCeil } from "../../bucket/integers.ts";
import { dripMs } from "../../bucket/retry-after.ts";
import { holdEndMs, type LimitState } from "../../domain/bucket/bucket-state.ts";
import { NO_SLICES } from "../../domain/bucket/holds.ts";
import { fullestAtMs } from "../../domain/bucket/remembered.ts";
import type { Calendar } from "../../domain/limits/calendar.ts";
import { NO_MARKS } from "../../domain/limits/kinds/kind.ts";
import { rulesOf } from "../../domain/limits/kinds/table.ts";
import { type Limit, termsOf } from "../../domain/limits/limit.ts";

const HOUR_MS = 3_600_000;

/**
 * The second before which an item with these limits must not expire, if something is taken at `atMs` and nothing is owed:
 * when all of them, then empty, are full again, and an hour for clocks that disagree. Undefined: never, or it cannot be
 * computed. It is computed for the end of the running hour, so that it is the same for every take of that hour.
 */
export function keptUntilS(limits: readonly LimitState[], atMs: number, calendar: Calendar): number | undefined {
  const hourMs = divCeil(atMs + 1, HOUR_MS) * HOUR_MS;
  let fullMs = hourMs;
  for (const { limit, rememberUntilMs, slices } of limits) {
    fullMs = Math.max(fullMs, filledFrom(limit, hourMs, calendar), rememberUntilMs);
    for (const { endMs } of slices) fullMs = Math.max(fullMs, endMs);
  }
  return secondsOf(fullMs);
}

/** The same where a limit may be left with so little: `lowMilli` may be a debt. */
export function keptUntilFromS(
  limits: readonly { readonly limit: LimitState; readonly lowMilli: number }[],
  atMs: number,
  calendar: Calendar,
): number | undefined {
  let fullMs = atMs;
  for (const { limit, lowMilli } of limits) {
    if (!rulesOf(limit.limit).refillsSteadily) fullMs = Math.max(fullMs, filledFrom(limit.limit, atMs, calendar));
    else if (limit.limit.schedule === undefined) {
      fullMs = Math.max(fullMs, atMs + dripMs(limit.terms.capacityMilli - lowMilli, limit.terms));
    } else {
      const emptied = { ...limit, tokensMilli: lowMilli, remainder: 0 };
      fullMs = Math.max(fullMs, fullestAtMs(emptied, atMs, calendar));
    }
  }
  return secondsOf(fullMs);
}

/** How much longer than needed an item is kept, so that not every take has to say so. */
export const SPARE_S = 3_600;

const remembered = new WeakMap<Limit, { readonly hourMs: number; readonly fullMs: number }>();

function filledFrom(limit: Limit, hourMs: number, calendar: Calendar): number {
  const known = remembered.get(limit);
  if (known?.hourMs === hourMs) return known.fullMs;
  const fullMs = emptiedAt(limit, hourMs, calendar);
  remembered.set(limit, { hourMs, fullMs });
  return fullMs;
}

function emptiedAt(limit: Limit, atMs: number, calendar: Calendar): number {
  const rules = rulesOf(limit);
  // All that is held by then has ended.
  if (rules.holdsSlots) return holdEndMs(limit, undefined, atMs);
  if (!rules.refillsSteadily) {
    // A quota that is forgotten in one window and created again in a larger one would have been granted twice.
    return limit.schedule === undefined ? rules.endMs(limit, NO_MARKS, atMs, calendar) : Number.POSITIVE_INFINITY;
  }
  const terms = termsOf(limit);
  if (limit.schedule === undefined) return atMs + dripMs(terms.capacityMilli, terms);
  const { name } = limit;
  const emptied = { name, limit, terms, configured: true, tokensMilli: 0, remainder: 0, quota: undefined };
  return fullestAtMs(
    { ...emptied, slices: NO_SLICES, part: undefined, rememberUntilMs: 0, resetsBefore: 0 },
    atMs,
    calendar,
  );
}

function secondsOf(fullMs: number): number | undefined {
  return Number.isFinite(fullMs) ? divCeil(fullMs + HOUR_MS, 1000) + 1 : undefined;
}
