import { shown } from "../names/names.ts";
import { invalidLimit } from "./limit-checks.ts";
import type { RateOptions } from "./limit-field.ts";
import { wholeTokens } from "./limit-numbers.ts";
import type { ScheduleEntry } from "./schedule.ts";

/**
 * The terms of a limit that never grants more than `most` tokens in any stretch of one period: it holds `burst`, and the rest drips in over
 * the period. Whoever finds it full takes the burst and what drips in until the period is over, which is `most` together.
 */
export function strictTerms(
  name: string,
  most: number,
  { burst, soft, schedule }: Pick<RateOptions, "burst" | "soft" | "schedule">,
): { readonly capacity: number; readonly refillAmount: number } {
  wholeTokens(name, "rate", most, 1);
  if (most < 2) throw invalidLimit(name, "1 a period is strict already; leave strictWindow out");
  const capacity = wholeTokens(name, "burst", burst ?? Math.floor(most / 2), 1);
  if (capacity >= most) throw invalidLimit(name, `burst is ${burst}; in a strict window give 1 to ${most - 1}`);
  if (soft === true) throw invalidLimit(name, "it is soft, so its window cannot be strict; give one of them");
  const raising = Array.isArray(schedule) ? schedule.find((entry) => !lowers(entry ?? {})) : undefined;
  if (raising !== undefined) {
    throw invalidLimit(name, `its window is strict; give a scale of at most 1, not ${shown(raising)}`);
  }
  return { capacity, refillAmount: most - capacity };
}

/** Whether a window of a schedule, as it was given, leaves no more than its limit does. */
function lowers({ scale, capacity, refillAmount, refillPeriodMs }: Partial<ScheduleEntry>): boolean {
  const terms = capacity ?? refillAmount ?? refillPeriodMs;
  return terms === undefined && !((scale ?? 1) > 1);
}
