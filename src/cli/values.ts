import { UsageError } from "./exit-code.ts";

const UNIT_MS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** `500ms`, `30s`, `5m`, `2h`, `1d` in milliseconds. */
export function durationMs(text: string, what: string): number {
  const [, count, unit = ""] = /^(\d+)(ms|s|m|h|d)$/.exec(text) ?? [];
  const ms = Number(count) * (UNIT_MS[unit] ?? Number.NaN);
  if (Number.isSafeInteger(ms)) return ms;
  throw new UsageError(`${what} is "${text}"; give a duration such as 500ms, 30s, 5m, 2h or 1d.`);
}

/** A whole number from 1 on. */
export function countOf(text: string, option: string): number {
  const count = /^\d+$/.test(text) ? Number(text) : 0;
  if (count < 1 || !Number.isSafeInteger(count)) {
    throw new UsageError(`${option} is "${text}"; give a whole number from 1 on.`);
  }
  return count;
}

/** One of several words. */
export function choiceOf<Choice extends string>(text: string, choices: readonly Choice[], what: string): Choice {
  const found = choices.find((choice) => choice === text);
  if (found !== undefined) return found;
  throw new UsageError(`${what} is "${text}"; give ${choices.slice(0, -1).join(", ")} or ${choices.at(-1)}.`);
}
