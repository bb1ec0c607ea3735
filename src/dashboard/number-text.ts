import { amountOfText } from "../domain/limits/amount-text.ts";
import { FormError } from "./form-error.ts";

/** Tokens of a dollar: budgets are counted in millionths. */
const MICRO = 1_000_000;

/** What a field holds: `500`, `0.5`, `60,000`, `60 000`, `9k`, `2M`, and `$5`, which is 5,000,000 millionths. Undefined: no number. */
export function numberIn(text: string): number | undefined {
  // Thousands may be set apart, as they are shown.
  const plain = text.trim().replace(/(?<=\d)[,_ \u00a0\u202f'](?=\d{3}(?!\d))/g, "");
  if (plain.startsWith("$")) return dollarsIn(plain.slice(1).trim());
  return amountOfText(plain) ?? (/^-?\d+(\.\d+)?$/.test(plain) ? Number(plain) : undefined);
}

// Digits are put together, not multiplied: $0.29 is 290000 exactly.
function dollarsIn(text: string): number | undefined {
  const [, whole, decimals = ""] = /^(\d+)(?:\.(\d{1,6}))?$/.exec(text) ?? [];
  if (whole !== undefined) return Number(whole) * MICRO + Number(decimals.padEnd(6, "0"));
  const amount = amountOfText(text);
  return amount === undefined ? undefined : amount * MICRO;
}

export function numberOf(what: string, text: string): number {
  const value = numberIn(text);
  if (value !== undefined) return value;
  throw new FormError(`${what} is "${text.trim()}"; give a number, such as 500, 60,000, 9k, 2M or $5.`);
}
