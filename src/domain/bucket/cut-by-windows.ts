import type { Balance } from "../../bucket/balance.ts";
import type { Calendar } from "../limits/calendar.ts";
import { type ScheduleEntry, TZ_DEFAULT } from "../limits/schedule.ts";

/** The windows of a schedule, and what a limit can hold: outside of all, then in each. */
interface Windows {
  readonly entries: readonly ScheduleEntry[];
  readonly capacitiesMilli: readonly number[];
}

/** So often a window may stand behind another before it is taken to do so always. */
const BEHIND_MAX = 1_000;

/**
 * What is left of a balance into which nothing drips, after every window that is in force between two instants. Only windows count
 * that hold less than there is, and from each instant it goes on to the next at which one of these can be in force: so years with
 * windows every minute are few steps. Undefined where one stands behind others again and again.
 */
export function cutByWindows(
  balance: Balance,
  { entries, capacitiesMilli }: Windows,
  { fromMs, toMs }: { readonly fromMs: number; readonly toMs: number },
  calendar: Calendar,
  /** What a search may still spend. */
  steps: { take(): boolean } | undefined,
): Balance | "no steps left" | undefined {
  let { tokensMilli, remainder } = balance;
  let atMs = fromMs;
  for (let looked = 0; looked < BEHIND_MAX; looked++) {
    let nextMs = Number.POSITIVE_INFINITY;
    for (const [i, capacityMilli] of capacitiesMilli.entries()) {
      // A limit that is full has no past, so one that holds as much cuts off the fraction.
      const cuts = capacityMilli < tokensMilli || (capacityMilli === tokensMilli && remainder !== 0);
      if (cuts) nextMs = Math.min(nextMs, inForceAfter(entries, i === 0 ? entries.length : i - 1, atMs, calendar));
    }
    if (nextMs > toMs) return { tokensMilli, remainder };
    if (steps?.take() === false) return "no steps left";
    atMs = nextMs;
    const inForce = entries.findIndex((entry) => isOpen(entry, atMs, calendar));
    const capacityMilli = capacitiesMilli[inForce + 1] ?? tokensMilli;
    if (capacityMilli <= tokensMilli) [tokensMilli, remainder] = [capacityMilli, 0];
  }
  return undefined;
}

/**
 * Before this instant the entry at a place is not in force, as it is not now. At the place behind all stands what is outside of
 * all windows: that is always open.
 */
function inForceAfter(entries: readonly ScheduleEntry[], place: number, atMs: number, calendar: Calendar): number {
  const changeOf = ({ cron, tz }: ScheduleEntry) => calendar.nextChange(cron, tz ?? TZ_DEFAULT, atMs);
  const own = entries[place];
  if (own !== undefined && !isOpen(own, atMs, calendar)) return changeOf(own);
  // All that stand before it now must end first.
  const before = entries.slice(0, place).filter((entry) => isOpen(entry, atMs, calendar));
  const clearMs = Math.max(atMs + 1, ...before.map(changeOf));
  return own === undefined ? clearMs : Math.min(clearMs, changeOf(own));
}

function isOpen({ cron, tz }: ScheduleEntry, atMs: number, calendar: Calendar): boolean {
  return calendar.matches(cron, tz ?? TZ_DEFAULT, atMs);
}
