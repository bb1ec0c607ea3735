import type { Limit } from "../domain/limits/limit.ts";
import { limitOfText } from "../domain/limits/limit-text.ts";
import { ValidationError } from "../domain/names/errors.ts";
import { calendar } from "../entry/limits.ts";
import { UsageError } from "./exit-code.ts";

/** Limits as they are written after `-l`: `rpm:1000/min:1500,soft`. Every rule of the library is checked with them. */
export function limitsOf(texts: readonly string[], soft: readonly string[]): readonly Limit[] {
  const limits = texts.map(limitOf);
  const names = limits.map(({ name }) => name);
  const twice = names.find((name, i) => names.indexOf(name) !== i);
  if (twice !== undefined) throw new UsageError(`-l names ${twice} twice; name each limit once.`);
  const unknown = soft.find((name) => !names.includes(name));
  if (unknown !== undefined) {
    throw new UsageError(`--soft is "${unknown}"; name one of the limits given: ${names.join(", ")}.`);
  }
  return limits.map((limit) => (soft.includes(limit.name) ? { ...limit, soft: true as const } : limit));
}

/** One limit; the grammar is in docs/reference/limits.md. */
export function limitOf(text: string): Limit {
  try {
    return limitOfText(text, calendar);
  } catch (error) {
    // A text that is no limit is wrong use of the option.
    if (error instanceof ValidationError && error.code === "limit_invalid") throw new UsageError(error.message);
    throw error;
  }
}
