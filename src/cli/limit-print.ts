import type { Limit } from "../domain/limit.ts";
import { textOfLimit } from "../domain/limit-text.ts";
import { amountShown } from "../domain/money-words.ts";

export { durationText } from "../domain/limit-words.ts";

/** A limit as it can be pasted behind `-l`. */
export const limitText = textOfLimit;

export function limitsText(limits: readonly Limit[]): string {
  return limits.map(limitText).join("  ");
}

/** Tokens for people: dollars where the name of the limit, or of the measure, says so. */
export function tokensText(name: string, tokens: number): string {
  return amountShown(name, tokens, String);
}

/** For people: `12 s`, `3 min`, `2.5 h`; `never`. */
export function waitText(ms: number): string {
  if (ms === Number.POSITIVE_INFINITY) return "never";
  if (ms < 1_000) return `${ms} ms`;
  // Rounded up: whoever comes then is let in.
  if (ms < 120_000) return `${Math.ceil(ms / 1_000)} s`;
  if (ms < 7_200_000) return `${Math.ceil(ms / 60_000)} min`;
  if (ms < 172_800_000) return `${Math.ceil(ms / 360_000) / 10} h`;
  return `${Math.ceil(ms / 8_640_000) / 10} days`;
}
