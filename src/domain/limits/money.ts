import { ValidationError } from "../names/errors.ts";
import { shown } from "../names/names.ts";
import { DECIMALS, dollarsText } from "./durations.ts";
import { TOKENS_MAX } from "./limit-numbers.ts";
import { RESETS, type ResetName } from "./reset-names.ts";

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

// Money in the text of a limit: `$50/month`, or `$50` beside `reset=` or `after=`.

export const MONEY_MARK = "$";

/** The terms that `$AMOUNT[/PERIOD]` says. */
interface MoneyTerms {
  /** In micro-dollars. */
  readonly amount: number;
  /** The reset that a period stands for; undefined: the text has none. */
  readonly reset: ResetName | undefined;
}

/** Periods of a budget, by the calendar. */
const PERIODS: Readonly<Record<string, ResetName>> = {
  ...{ hour: "hourly", day: "daily", week: "weekly", month: "monthly", year: "yearly" },
};

const PERIOD_LIST = "/hour, /day, /week, /month or /year";

/** The terms that a text beginning with `$` says, or which part of it is wrong. */
export function moneyOfText(text: string): MoneyTerms | string {
  const match = /^\$([^/:]*)(?:\/([^/:]*))?(:.*)?$/s.exec(text);
  if (match === null) return `give $AMOUNT, or $AMOUNT and one of ${PERIOD_LIST}`;
  const [, digits = "", period, burst] = match;
  const amount = microOfText(digits);
  if (amount === undefined) return amountProblem(digits);
  const reset = period === undefined || !Object.hasOwn(PERIODS, period) ? undefined : PERIODS[period];
  if (period !== undefined && reset === undefined) {
    return (
      `the period of money is "${period}"; give one of ${PERIOD_LIST}. ` +
      `Money that drips is written in tokens, which are micro-dollars: ${amount}/${period}`
    );
  }
  if (burst !== undefined) return "an amount of money is a quota, which has no burst; leave it out";
  return { amount, reset };
}

/** Why an amount of money cannot stand alone. */
export const MONEY_ALONE =
  `an amount of money is a quota; give one of ${PERIOD_LIST} after it, or reset= or after=. ` +
  "Money that drips is written in tokens, which are micro-dollars";

/** Micro-dollars as a text that is read again: `$50`, `$0.25`. */
export function moneyText(micro: number): string {
  return dollarsText(micro).replace(/\.00$/, "");
}

/** The period that says when a quota is full again; undefined where none does. */
export function periodOfMoney({ reset }: { readonly reset?: { readonly cron: string } }): string | undefined {
  const name = RESETS.find(([, cron]) => cron === reset?.cron)?.[0];
  return Object.keys(PERIODS).find((period) => PERIODS[period] === name);
}

function amountProblem(digits: string): string {
  const plain = digits.replaceAll(",", "");
  if (digits.includes(",") && microOfText(plain) !== undefined) {
    return `the amount is "$${digits}"; leave the commas out: $${plain}`;
  }
  return `the amount is "$${digits}"; give US dollars in digits with at most six decimals, up to $9000000: $50, $0.25`;
}
