import { mulDivCeil } from "../../bucket/integers.ts";
import { ValidationError } from "../names/errors.ts";
import { shown } from "../names/names.ts";

/** The most tokens a capacity or an amount may have: a thousand times that is still an exact integer. */
export const TOKENS_MAX = 9_000_000_000_000;

/** `TOKENS_MAX` in millitokens. A debt may be as deep: `DEBT_MAX_MILLI` of bucket/. */
export const MILLI_MAX = TOKENS_MAX * 1000;

/** The longest refill period: 10^9 seconds, as in the table shared with the original. */
export const PERIOD_MAX_MS = 1_000_000_000_000;

export function wholeTokens(name: string, field: string, value: unknown, least: 0 | 1): number {
  if (typeof value !== "number" || !Number.isSafeInteger(value) || value < least || value > TOKENS_MAX) {
    throw wrongLimit(name, `${field} is ${shown(value)}; give a whole number of tokens from ${least} to ${TOKENS_MAX}`);
  }
  return value;
}

export function wholeSecondsMs(name: string, field: string, value: unknown): number {
  if (typeof value !== "number" || !Number.isSafeInteger(value) || value % 1000 !== 0 || value <= 0) {
    throw wrongLimit(name, `${field} is ${shown(value)}; give whole seconds in milliseconds, at least 1000`);
  }
  if (value > PERIOD_MAX_MS) {
    throw wrongLimit(name, `${field} is ${value}; the longest is ${PERIOD_MAX_MS}`);
  }
  return value;
}

/** The most percentages of one limit that can be told. */
const NOTIFY_MAX = 4;

/** Whether these are percentages that a limit can tell: a few whole ones, rising. */
export function isNotifyAt(value: unknown): value is readonly number[] {
  if (!Array.isArray(value) || value.length === 0 || value.length > NOTIFY_MAX) return false;
  return value.every((percent, i) => {
    return Number.isSafeInteger(percent) && percent <= 100 && percent > (i === 0 ? 0 : value[i - 1]);
  });
}

/** Percentages as they are written down, with a separator between them; undefined: the text is none of them. */
export function notifyAtOf(text: string, separator: "," | "/"): readonly number[] | undefined {
  const parts = text.split(separator);
  const percents = parts.every((part) => /^\d{1,3}$/.test(part)) ? parts.map(Number) : undefined;
  return isNotifyAt(percents) ? Object.freeze(percents) : undefined;
}

export function checkNotifyAt(name: string, value: unknown): readonly number[] {
  if (isNotifyAt(value)) return Object.freeze([...value]);
  throw wrongLimit(
    name,
    `notifyAt is ${shown(value)}; give one to ${NOTIFY_MAX} rising whole percentages from 1 to 100, such as [80, 95]`,
  );
}

/** An error about the limit of a name that was checked. */
export function wrongLimit(name: string, what: string): ValidationError {
  return new ValidationError("limit_invalid", `Limit "${name}": ${what}.`);
}

/** The most percent that can be left: with 100 nothing could ever be taken. */
const LEAVE_MAX = 99;

/** The floor of a request: what it must leave of a limit, in millitokens of the capacity in force. Rounded up, in favour of the others. */
export function floorMilli(capacityMilli: number, leavePercent: number): number {
  return mulDivCeil(capacityMilli, leavePercent, 0, 100);
}

/** The millitokens that a limit must hold for a request: the amount and the floor. Past the exact numbers no limit holds so much. */
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

/** The millitokens that a limit must hold so that every take leaves its floor. */
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
