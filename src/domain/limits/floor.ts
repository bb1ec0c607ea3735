import { mulDivCeil } from "../../bucket/integers.ts";
import { ValidationError } from "../names/errors.ts";
import { shown } from "../names/names.ts";

/** At most so many percent can be left: with 100 nothing could ever be taken. */
const LEAVE_MAX = 99;

/** The floor of a request: what it must leave of a limit, in millitokens of the capacity in force. Rounded up, in favour of the others. */
export function floorMilli(capacityMilli: number, leavePercent: number): number {
  return mulDivCeil(capacityMilli, leavePercent, 0, 100);
}

/** What a limit must hold for a request: the amount and the floor. Past the exact numbers no limit holds so much. */
export function neededMilli(milli: number, capacityMilli: number, leavePercent: number): number {
  if (leavePercent === 0) return milli;
  return Math.min(Number.MAX_SAFE_INTEGER, milli + floorMilli(capacityMilli, leavePercent));
}

/**
 * Several takes that are one write, first come first served: what each leaves must be above its own floor. `afterMilli`: what it
 * and those before it take.
 */
export interface Floor {
  readonly afterMilli: number;
  readonly leavePercent: number;
}

/** What a limit must hold so that every one of them leaves its floor. */
export function neededForAll(floors: readonly Floor[], capacityMilli: number): number {
  let most = -Number.MAX_SAFE_INTEGER;
  for (const { afterMilli, leavePercent } of floors) {
    most = Math.max(most, neededMilli(afterMilli, capacityMilli, leavePercent));
  }
  return most;
}

/** Checks `leavePercent` of a request; 0 where it has none. */
export function checkLeave(leavePercent: unknown): number {
  if (leavePercent === undefined) return 0;
  if (typeof leavePercent === "number" && Number.isInteger(leavePercent)) {
    if (leavePercent >= 0 && leavePercent <= LEAVE_MAX) return leavePercent;
  }
  throw new ValidationError(
    "leave_invalid",
    `leavePercent is ${shown(leavePercent)}; give a whole number of percent from 0 to ${LEAVE_MAX}.`,
  );
}
