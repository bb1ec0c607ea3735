import type { Limit as LimitValue } from "../domain/limit.ts";
import type { ScheduleEntry } from "../domain/schedule.ts";
import { Limit } from "../entry/limits.ts";
import { UsageError } from "./exit-code.ts";
import { amountOf, durationMs } from "./values.ts";

/** Names for crons of a reset, all at 00:00. */
export const RESETS: Readonly<Record<string, string>> = {
  hourly: "0 * * * *",
  daily: "0 0 * * *",
  weekly: "0 0 * * 1",
  monthly: "0 0 1 * *",
  yearly: "0 0 1 1 *",
};

const UNITS_MS: readonly (readonly [words: readonly string[], ms: number])[] = [
  [["s", "sec", "second"], 1_000],
  [["m", "min", "minute"], 60_000],
  [["h", "hour"], 3_600_000],
  [["d", "day"], 86_400_000],
];

/** Limits as they are written after `-l`: `rpm:1000/min:1500,soft`. Every rule of the library is checked with them. */
export function limitsOf(texts: readonly string[], soft: readonly string[]): readonly LimitValue[] {
  const limits = texts.map(limitOf);
  const names = limits.map(({ name }) => name);
  const twice = names.find((name, i) => names.indexOf(name) !== i);
  if (twice !== undefined) throw new UsageError(`-l names ${twice} twice; name each limit once.`);
  const unknown = soft.find((name) => !names.includes(name));
  if (unknown !== undefined) {
    throw new UsageError(`--soft is "${unknown}", which is none of the limits given: ${names.join(", ")}.`);
  }
  return limits.map((limit) => (soft.includes(limit.name) ? { ...limit, soft: true as const } : limit));
}

/** One limit; the grammar is in docs/reference/cli.md. */
export function limitOf(text: string): LimitValue {
  const at = text.indexOf(":");
  if (at < 1) throw wrong(text, "it has no name");
  const name = text.slice(0, at);
  // A comma begins a word only before one of these, so that a cron may have commas.
  const [head = "", ...words] = text.slice(at + 1).split(/,(?=soft(?:,|$)|(?:reset|after|when|tz)=)/);
  const said = wordsOf(text, words);
  const terms = termsOf(head);
  if (terms === undefined) throw wrong(text, `"${head}" is no amount`);
  const { tz = "UTC", reset, after } = said;
  if (said.tz !== undefined && reset === undefined && said.whens.length === 0) {
    throw wrong(text, "tz belongs to a reset or a window, and there is none");
  }
  const isQuota = reset !== undefined || after !== undefined;
  if (isQuota && (terms.periodMs !== undefined || terms.burst !== undefined)) {
    throw wrong(text, "a quota has neither period nor burst");
  }
  const schedule = said.whens.map((when) => windowOf(text, when, { tz, isQuota }));
  const kind = { ...(said.soft ? { soft: true } : {}), ...(schedule.length === 0 ? {} : { schedule }) };
  if (reset !== undefined) {
    return Limit.quota(name, terms.amount, { reset: { cron: RESETS[reset] ?? reset, tz }, ...kind });
  }
  if (after !== undefined) {
    return Limit.quota(name, terms.amount, { resetAfterMs: durationMs(after, "after"), ...kind });
  }
  return Limit.custom(name, {
    capacity: terms.burst ?? terms.amount,
    refillAmount: terms.amount,
    refillPeriodMs: terms.periodMs ?? 60_000,
    ...kind,
  });
}

interface Words {
  readonly soft: boolean;
  readonly reset?: string;
  readonly after?: string;
  readonly tz?: string;
  readonly whens: readonly string[];
}

function wordsOf(text: string, words: readonly string[]): Words {
  const said: { soft: boolean; reset?: string; after?: string; tz?: string; whens: string[] } = {
    soft: false,
    whens: [],
  };
  for (const word of words) {
    const at = word.indexOf("=");
    const value = word.slice(at + 1);
    const key = at === -1 ? word : word.slice(0, at);
    if (key === "when") said.whens.push(value);
    else if (key === "soft" && !said.soft) said.soft = true;
    else if ((key === "reset" || key === "after" || key === "tz") && said[key] === undefined) said[key] = value;
    else throw wrong(text, `${key} is said twice`);
  }
  if (said.reset !== undefined && said.after !== undefined) throw wrong(text, "it has reset and after; give one");
  return said;
}

interface WrittenTerms {
  readonly amount: number;
  readonly periodMs?: number;
  readonly burst?: number;
}

/** `amount [ "/" period ] [ ":" burst ]`; undefined where it is none. */
function termsOf(text: string): WrittenTerms | undefined {
  const [, amountText = "", period, burstText] = /^([^/:]*)(?:\/([^/:]*))?(?::([^/:]*))?$/.exec(text) ?? [];
  const amount = amountOf(amountText);
  const periodMs = period === undefined ? undefined : periodMsOf(period);
  const burst = burstText === undefined ? undefined : amountOf(burstText);
  if (amount === undefined || (period !== undefined && periodMs === undefined)) return undefined;
  if (burstText !== undefined && burst === undefined) return undefined;
  return { amount, ...(periodMs === undefined ? {} : { periodMs }), ...(burst === undefined ? {} : { burst }) };
}

function periodMsOf(text: string): number | undefined {
  const [, count = "", unit = ""] = /^(\d*)([a-z]+)$/.exec(text) ?? [];
  const unitMs = UNITS_MS.find(([words]) => words.includes(unit))?.[1];
  const times = count === "" ? 1 : Number(count);
  return unitMs === undefined || times < 1 ? undefined : times * unitMs;
}

function windowOf(
  text: string,
  when: string,
  { tz, isQuota }: { readonly tz: string; readonly isQuota: boolean },
): ScheduleEntry {
  const fields = when.trim().split(/\s+/);
  const [written = ""] = fields.slice(5);
  if (fields.length !== 6) throw wrong(text, `"when=${when}" is not a cron of five fields and what counts then`);
  const cron = fields.slice(0, 5).join(" ");
  if (written.startsWith("x")) {
    const scale = /^x\d+(\.\d+)?$/.test(written) ? Number(written.slice(1)) : Number.NaN;
    if (Number.isNaN(scale)) throw wrong(text, `"${written}" is no scale, such as x0.5`);
    return { cron, tz, scale };
  }
  const terms = termsOf(written);
  if (terms === undefined) throw wrong(text, `"${written}" is neither a scale such as x0.5 nor an amount`);
  const { amount, periodMs, burst } = terms;
  if (isQuota) {
    if (periodMs !== undefined || burst !== undefined)
      throw wrong(text, "a window of a quota has neither period nor burst");
    return { cron, tz, capacity: amount };
  }
  return {
    cron,
    tz,
    refillAmount: amount,
    capacity: burst ?? amount,
    ...(periodMs === undefined ? {} : { refillPeriodMs: periodMs }),
  };
}

function wrong(text: string, what: string): UsageError {
  return new UsageError(
    `The limit "${text}" cannot be read: ${what}. Write NAME:AMOUNT[/PERIOD][:BURST][,soft][,reset=WHEN], such as ` +
      "rpm:1000/min:1500 or month:2M,reset=monthly.",
  );
}
