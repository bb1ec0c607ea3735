import { ValidationError } from "../names/errors.ts";
import { shown } from "../names/names.ts";

/** The most tokens a capacity or an amount may have: a thousand times that is still an exact integer. */
export const TOKENS_MAX = 9_000_000_000_000;

/** The same in millitokens. A debt may be as deep: `DEBT_MAX_MILLI` of bucket/. */
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

/** So many percentages of one limit can be told. */
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
