import { microOfText } from "./money.ts";
import { dollarsText } from "./money-words.ts";
import { RESETS, type ResetName } from "./reset-names.ts";

// Money in the text of a limit: `$50/month`, or `$50` beside `reset=` or `after=`.

/** What an amount of money begins with. */
export const MONEY_MARK = "$";

/** What `$AMOUNT[/PERIOD]` says. */
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

/** What a text that begins with `$` says, or which part of it is wrong. */
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
