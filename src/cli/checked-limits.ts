import { checkLimits, type Limit } from "../domain/limits/limit.ts";
import { calendar } from "../entry/limits.ts";

/** The limits as a store would keep them, by every rule of the library; so that a dry run finds what a run would. */
export function checkedLimits(limits: readonly Limit[]): readonly Limit[] {
  return checkLimits(limits, calendar);
}
