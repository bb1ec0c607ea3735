import { ValidationError } from "../names/errors.ts";
import { given } from "../names/given.ts";
import { shown } from "../names/names.ts";
import { amountOfText, amountText, durationMs, durationText, isMoney, periodMs, periodText } from "./durations.ts";
import type { KindFields } from "./kinds/kind.ts";
import { formOf, TEXTS } from "./kinds/table.ts";
import { checkLimit, type Limit, zoneOf } from "./limit.ts";
import type { CommonFields, FieldText } from "./limit-field.ts";
import { notifyAtOf } from "./limit-numbers.ts";
import { MONEY_ALONE, MONEY_MARK, moneyOfText, moneyText, periodOfMoney } from "./money.ts";
import { type CronCheck, type ScheduleEntry, TZ_DEFAULT } from "./schedule.ts";
import { strictTerms } from "./strict-window.ts";

// The terms of a limit of so many at once, as people write them: `10@60s`.

/** Stands between how many at once, and how long each is held. */
const HOLD_MARK = "@";

/** The slots that `10@60s` says, or what is wrong with it. */
function slotsOfText(text: string): { readonly amount: number; readonly holdMs: number } | string {
  const [first = "", hold = "", ...more] = text.split(HOLD_MARK);
  const amount = amountOfText(first);
  if (amount === undefined || more.length > 0) {
    return `"${text}" is not COUNT@HOLD; give how many at once and how long each may be held, such as 10@60s (no period, no burst)`;
  }
  const holdMs = durationMs(hold);
  if (holdMs === undefined)
    return `the hold is "${hold}"; give how long each is held after the @, such as ${first}@60s, 5m or 1h`;
  return { amount, holdMs };
}

/** `10@60s`: in seconds below two minutes, as holds are usually told. */
function slotsText(capacity: number, holdMs: number): string {
  const hold = holdMs < SECONDS_BELOW_MS && holdMs % 1000 === 0 ? `${holdMs / 1000}s` : durationText(holdMs);
  return `${amountText(capacity)}${HOLD_MARK}${hold}`;
}

const SECONDS_BELOW_MS = 120_000;

// A limit as people write it: `rpm:1000/min:1500,soft`. What is printed for a limit can be read again.

/** The limit that a text such as `tpm:10k/5min:15_000` says. */
export function limitOfText(text: string, calendar: CronCheck): Limit {
  const colon = typeof text === "string" ? text.indexOf(":") : -1;
  if (colon < 1) throw invalid(text, "give NAME:AMOUNT, such as rpm:1000/min");
  return limitOfSpec(text.slice(0, colon), text.slice(colon + 1), calendar);
}

/** The limit that a text such as `1000/min:1500,soft` says, where the name stands elsewhere. */
export function limitOfSpec(name: string, spec: string, calendar: CronCheck): Limit {
  const [terms = "", ...words] = spec.split(WORD_BEGINS);
  const said = wordsIn(spec, words);
  const slots = terms.includes(HOLD_MARK) ? checked(spec, slotsOfText(terms)) : undefined;
  const base: Terms =
    slots ?? (terms.startsWith(MONEY_MARK) ? moneyIn(spec, terms, said) : (checked(spec, termsOf(terms)) as Terms));
  const [tz = TZ_DEFAULT] = said.get("tz") ?? [];
  const kinds = TEXTS.filter(({ word }) => said.has(word));
  const [kind] = kinds;
  const fields = kind && checked(spec, kind.read(said.get(kind.word)?.[0] ?? "", tz));
  const isQuota = kinds.length > 0;
  if (slots !== undefined && kind !== undefined) {
    throw invalid(
      spec,
      `it has ${HOLD_MARK} and ${kind.word}=; slots are free when they are given back, not by a reset: give one`,
    );
  }
  if (isQuota && (base.periodMs !== undefined || base.burst !== undefined)) {
    throw invalid(spec, `a quota (${wordList(TEXTS)}) has neither period nor burst; give its capacity alone`);
  }
  if (said.has("tz") && !kinds.some(({ hasZone }) => hasZone) && !said.has("when")) {
    throw invalid(spec, "tz= is the zone of reset= and when=, and neither is given; give one, or leave it out");
  }
  if (kinds.length > 1) {
    const [one = "", other = ""] = kinds.map(({ word }) => word);
    throw invalid(
      spec,
      `it has ${one}= and ${other}=; a quota resets by the calendar or after its first use, not both: give one`,
    );
  }
  const refills = !isQuota && slots === undefined;
  const schedule = (said.get("when") ?? []).map((window) => windowOf(spec, window, { hasRate: refills, tz }));
  const common = [...FLAG_TEXTS, ...VALUE_TEXTS].map(({ word, read }) =>
    (said.get(word) ?? []).map((value) => checked(spec, read(value, tz))),
  );
  const { amount, burst, periodMs: refillPeriodMs = 60_000 } = base;
  const isStrict = said.has(STRICT_WORD);
  if (isStrict && !refills) {
    throw invalid(spec, `it has ${STRICT_WORD}, and is no rate; only what drips in has a strict window: leave it out`);
  }
  const rate = isStrict
    ? strictTerms(name, amount, { schedule, soft: said.has("soft"), ...given({ burst }) })
    : { capacity: burst ?? amount, refillAmount: amount };
  const limit = {
    name,
    ...(refills ? { ...rate, refillPeriodMs } : { capacity: amount, refillAmount: 0, refillPeriodMs: 1_000 }),
    ...given({ schedule: schedule.length === 0 ? undefined : schedule, holdMs: slots?.holdMs }),
  };
  return checkLimit(Object.assign(limit, fields, ...common.flat()), calendar);
}

/** `rpm:1000/min:1500,soft`. */
export function textOfLimit(limit: Limit): string {
  return `${limit.name}:${specOfLimit(limit)}`;
}

/** The text of a limit without its name. */
export function specOfLimit(limit: Limit): string {
  const { capacity, refillAmount, refillPeriodMs, holdMs, schedule = [] } = limit;
  const burst = capacity === refillAmount ? "" : `:${amountText(capacity)}`;
  const quotaText = isMoney(limit.name) ? moneyText : amountText;
  const period = isMoney(limit.name) ? periodOfMoney(limit) : undefined;
  const terms =
    holdMs !== undefined
      ? slotsText(capacity, holdMs)
      : formOf(limit) !== undefined
        ? `${quotaText(capacity)}${period === undefined ? "" : `/${period}`}`
        : `${amountText(refillAmount)}/${periodText(refillPeriodMs)}${burst}`;
  const tz = zoneOf(limit) ?? TZ_DEFAULT;
  return [
    terms,
    ...FLAG_TEXTS.flatMap((text) => (text.written(limit) === undefined ? [] : [text.word])),
    ...(period === undefined ? TEXTS.flatMap((text) => valueText(text, limit)) : []),
    ...schedule.map((entry) => `when=${entry.cron} ${windowText(entry, limit)}`),
    ...(tz === TZ_DEFAULT ? [] : [`tz=${tz}`]),
    ...VALUE_TEXTS.flatMap((text) => valueText(text, limit)),
  ].join(",");
}

function valueText({ word, written }: FieldText<CommonFields & KindFields>, limit: Limit): readonly string[] {
  const value = written(limit);
  return value === undefined ? [] : [`${word}=${value}`];
}

/** The fields that any limit may have, but for its schedule, as people write them: those that are a word alone stand first. */
const FLAG_TEXTS: readonly FieldText<CommonFields>[] = [
  { word: "soft", read: () => ({ soft: true }), written: ({ soft }) => (soft ? "" : undefined) },
  { word: "shadow", read: () => ({ shadow: true }), written: ({ shadow }) => (shadow ? "" : undefined) },
];
const VALUE_TEXTS: readonly FieldText<CommonFields>[] = [
  { word: "counts", read: (counts) => ({ counts }), written: ({ counts }) => counts },
  {
    word: "notify",
    read: (text) => {
      const notifyAt = notifyAtOf(text, "/");
      if (notifyAt !== undefined) return { notifyAt };
      return `notify=${text} must be one to four rising percentages from 1 to 100; give notify=80/95`;
    },
    written: ({ notifyAt }) => notifyAt?.join("/"),
  },
];

/** Words of a limit's text that take a value. */
export const LIMIT_WORDS: readonly string[] = [...TEXTS, { word: "when" }, { word: "tz" }, ...VALUE_TEXTS].map(
  ({ word }) => word,
);

/** Says how the numbers are meant, and is no field: a limit is printed with the numbers that it has. */
const STRICT_WORD = "strict";

const FLAGS = [...FLAG_TEXTS.map(({ word }) => word), STRICT_WORD];
const WORDS_REMEDY = `any of ${[...FLAGS, ...LIMIT_WORDS.map((word) => `${word}=`)].join(", ")}`;

/** A comma begins a word only before one of the words: a cron may have commas. */
const WORD_BEGINS = new RegExp(`,\\s*(?=(?:${FLAGS.join("|")})\\s*(?:,|$)|(?:${LIMIT_WORDS.join("|")})=)`);

/** The values of each word that is there: one, but for windows. */
type Words = Map<string, string[]>;

function wordsIn(spec: string, words: readonly string[]): Words {
  const said: Words = new Map();
  for (const word of words) {
    const at = word.indexOf("=");
    const value = at < 0 ? "" : word.slice(at + 1).trim();
    const key = at < 0 ? word.trim() : word.slice(0, at);
    const comma = at < 0 ? key.indexOf(",") : -1;
    if (comma >= 0) throw invalid(spec, `"${key.slice(comma)}" is left over; give ${WORDS_REMEDY}`);
    const before = said.get(key);
    if (before !== undefined && key !== "when") {
      throw invalid(spec, `${key}${at < 0 ? "" : "="} is given twice; give it once`);
    }
    said.set(key, [...(before ?? []), value]);
  }
  return said;
}

function wordList(words: readonly { readonly word: string }[]): string {
  return words.map(({ word }) => `${word}=`).join(", ");
}

interface Terms {
  readonly amount: number;
  readonly periodMs?: number;
  readonly burst?: number;
}

/** Stands in a window for an amount that is as outside. */
const AS_OUTSIDE = "-";

interface WindowTerms {
  readonly amount: number | typeof AS_OUTSIDE;
  readonly periodMs?: number;
  readonly burst?: number | typeof AS_OUTSIDE;
}

/** The terms that money says. A period of it is the reset of a quota, as if it were written as the word. */
function moneyIn(spec: string, text: string, said: Words): Terms {
  const money = checked(spec, moneyOfText(text));
  const word = [...said.keys()].find((key) => TEXTS.some((each) => each.word === key));
  if (money.reset === undefined && word === undefined) throw invalid(spec, MONEY_ALONE);
  if (money.reset !== undefined) {
    if (word !== undefined) throw invalid(spec, `it has a period after the amount, and ${word}=; give one`);
    said.set("reset", [money.reset]);
  }
  return { amount: money.amount };
}

/** The terms that `AMOUNT[/PERIOD][:BURST]` says, or which part of it is wrong. `kept`: what may stand for an amount that is not given. */
function termsOf(text: string, kept?: typeof AS_OUTSIDE): WindowTerms | string {
  const match = /^([^/:]+)(?:\/([^/:]+))?(?::([^/:]+))?$/.exec(text);
  if (match === null) return `give AMOUNT[/PERIOD][:BURST], then ${WORDS_REMEDY}`;
  const [, first = "", perPeriod, most] = match;
  const amountOf = (part: string) => (part === kept ? kept : amountOfText(part));
  const amount = amountOf(first);
  if (amount === undefined) return amountProblem("amount", first);
  const period = perPeriod === undefined ? undefined : periodMs(perPeriod);
  if (perPeriod !== undefined && period === undefined) {
    return `the period is "${perPeriod}"; give AMOUNT/PERIOD with s, min, h or day (5min, 2hours too), such as ${first}/min`;
  }
  const burst = most === undefined ? undefined : amountOf(most);
  if (most !== undefined && burst === undefined) return amountProblem("burst", most);
  return { amount, ...given({ periodMs: period, burst }) };
}

function amountProblem(what: string, text: string): string {
  const digits = text.replaceAll(",", "");
  const remedy =
    text.includes(",") && amountOfText(digits) !== undefined ? `leave the commas out: ${digits}` : undefined;
  return `the ${what} is "${text}"; ${remedy ?? "give AMOUNT[/PERIOD][:BURST], whole numbers with k, M or G: 500, 10k/min, 2M/day, 10_000"}`;
}

function windowOf(
  spec: string,
  text: string,
  { hasRate, tz }: { readonly hasRate: boolean; readonly tz: string },
): ScheduleEntry {
  const tokens = text.split(/\s+/);
  const change = tokens[5];
  if (tokens.length !== 6 || change === undefined) {
    throw invalid(
      spec,
      `when=${text} needs a cron of five fields and a change; give xSCALE or an amount after the cron`,
    );
  }
  const cron = tokens.slice(0, 5).join(" ");
  if (/^x\d+(\.\d+)?$/.test(change)) return { cron, tz, scale: Number(change.slice(1)) };
  const terms = change.startsWith(MONEY_MARK)
    ? windowMoney(change, !hasRate)
    : termsOf(change, hasRate ? AS_OUTSIDE : undefined);
  if (typeof terms === "string") {
    throw invalid(spec, `when=${text} ends in "${change}"; give xSCALE or AMOUNT[/PERIOD][:BURST]: ${terms}`);
  }
  const { amount, periodMs: refillPeriodMs, burst = amount } = terms;
  if (!hasRate && (refillPeriodMs !== undefined || terms.burst !== undefined)) {
    throw invalid(
      spec,
      `when=${text}: the window of a quota, or of slots, has neither period nor burst; give its capacity alone`,
    );
  }
  return {
    ...{ cron, tz },
    ...(!hasRate || amount === AS_OUTSIDE ? {} : { refillAmount: amount }),
    ...(burst === AS_OUTSIDE ? {} : { capacity: burst }),
    ...given({ refillPeriodMs }),
  };
}

/** The terms of the window of a quota in money, or why it has none. */
function windowMoney(change: string, isQuota: boolean): Terms | string {
  const money = moneyOfText(change);
  if (typeof money === "string") return money;
  if (isQuota && money.reset === undefined) return { amount: money.amount };
  return isQuota ? "the window of a quota has no period; give its capacity alone" : MONEY_ALONE;
}

function windowText({ scale, capacity, refillAmount, refillPeriodMs }: ScheduleEntry, base: Limit): string {
  if (scale !== undefined) return `x${scale}`;
  const isMoneyQuota = isMoney(base.name) && base.holdMs === undefined;
  if (formOf(base) !== undefined) return (isMoneyQuota ? moneyText : amountText)(capacity ?? base.capacity);
  const period = refillPeriodMs === undefined ? "" : `/${periodText(refillPeriodMs)}`;
  const [amount, burst] = [refillAmount, capacity].map((each) => (each === undefined ? AS_OUTSIDE : amountText(each)));
  return `${amount}${period}${burst === amount ? "" : `:${burst}`}`;
}

/** Throws where reading answered what is wrong. */
function checked<Read>(spec: string, read: Read | string): Read {
  if (typeof read === "string") throw invalid(spec, read);
  return read;
}

function invalid(text: unknown, what: string): ValidationError {
  return new ValidationError("limit_invalid", `Limit ${shown(text)}: ${what}.`);
}
