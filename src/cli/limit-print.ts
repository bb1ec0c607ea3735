import type { Limit } from "../domain/limits/limit.ts";
import { textOfLimit } from "../domain/limits/limit-text.ts";
import { amountShown } from "../domain/limits/money-words.ts";

export { everyText, waitText } from "../domain/limits/durations.ts";

/** A limit as it can be pasted behind `-l`. */
export const limitText = textOfLimit;

export function limitsText(limits: readonly Limit[]): string {
  return limits.map(limitText).join("  ");
}

/** Tokens for people: dollars where the name of the limit, or of the measure, says so. */
export function tokensText(name: string, tokens: number): string {
  return amountShown(name, tokens, String);
}
