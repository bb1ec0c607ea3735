import { ValidationError } from "../names/errors.ts";
import { shown } from "../names/names.ts";
import { TOKENS_MAX } from "./limit-numbers.ts";
import { DECIMALS, dollarsText } from "./money-words.ts";

/** Micro-dollars in a dollar: the tokens of a limit that counts money. */
const MICRO_PER_USD = 1_000_000;

/**
 * The micro-dollars of an amount in US dollars, exact: `usd(0.25)` and `usd("0.25")` are 250000. At most six decimals,
 * at most 9 million dollars, not negative.
 */
export function usd(amount: number | string): number {
  // A number is the decimal that it is written as; the least that is taken, 0.000001, is still written without an exponent.
  const text = typeof amount === "number" ? String(amount) : amount;
  const micro = typeof text === "string" ? microOfText(text) : undefined;
  if (micro !== undefined) return micro;
  throw new ValidationError(
    "money_invalid",
    `usd was given ${shown(amount)}; give US dollars as a number or a text with at most six decimals, ` +
      `from 0 to ${TOKENS_MAX / MICRO_PER_USD}, as usd("0.25").`,
  );
}

/** The micro-dollars of digits with at most six decimals; undefined where it is anything else, or more than a limit can hold. */
export function microOfText(text: string): number | undefined {
  const match = /^(\d+)(?:\.(\d{1,6}))?$/.exec(text);
  if (match === null) return undefined;
  const micro = Number(match[1]) * MICRO_PER_USD + Number((match[2] ?? "").padEnd(DECIMALS, "0"));
  return micro <= TOKENS_MAX ? micro : undefined;
}

/**
 * Micro-dollars as people write dollars: `usdText(250000)` is `"$0.25"`. Two decimals, or as many as it needs; a debt
 * is `"-$1.50"`.
 */
export function usdText(micro: number): string {
  if (!Number.isSafeInteger(micro)) {
    throw new ValidationError("money_invalid", `usdText was given ${shown(micro)}; give whole micro-dollars.`);
  }
  return dollarsText(micro);
}
