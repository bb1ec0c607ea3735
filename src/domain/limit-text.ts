import { amountOfText } from "./amount-text.ts";
import type { CronCheck } from "./calendar.ts";
import { ValidationError } from "./errors.ts";
import type { KindText } from "./kinds/kind.ts";
import { formOf, TEXTS } from "./kinds/table.ts";
import { type Limit, limitMakers } from "./limit.ts";
import { notifyAtOf } from "./limit-numbers.ts";
import { amountText, periodMs, periodText } from "./limit-words.ts";
import { MONEY_ALONE, MONEY_MARK, moneyOfText, moneyText, periodOfMoney } from "./money-text.ts";
import { isMoney } from "./money-words.ts";
import { shown } from "./names.ts";
import { type Reset, type ScheduleEntry, TZ_DEFAULT } from "./schedule.ts";
import { HOLD_MARK, slotsOfText, slotsText } from "./slots-text.ts";

// A limit as people write it: `rpm:1000/min:1500,soft`. What is printed for a limit can be read again.

/** The limit that a text such as `tpm:10k/5min:15_000` says. */
export function limitOfText(text: string, calendar: CronCheck): Limit {
  const colon = typeof text === "string" ? text.indexOf(":") : -1;
  if (colon < 1) throw invalid(text, "give NAME:AMOUNT, such as rpm:1000/min");
  return limitOfSpec(text.slice(0, colon), text.slice(colon + 1), calendar);
}

/** The same where the name stands elsewhere: `1000/min:1500,soft`. */
export function limitOfSpec(name: string, spec: string, calendar: CronCheck): Limit {
  const [terms = "", ...words] = spec.split(WORD_BEGINS);
  const said = wordsIn(spec, words);
  const slots = terms.includes(HOLD_MARK) ? checked(spec, slotsOfText(terms)) : undefined;
  const base: Terms =
    slots ?? (terms.startsWith(MONEY_MARK) ? moneyIn(spec, terms, said) : (checked(spec, termsOf(terms)) as Terms));
  const tz = said.tz ?? TZ_DEFAULT;
  const kinds = TEXTS.filter(({ word }) => said.own.has(word));
  const [fields] = kinds.map(({ word, read }) => read(said.own.get(word) ?? "", tz));
  if (typeof fields === "string") throw invalid(spec, fields);
  const isQuota = kinds.length > 0;
  if (slots !== undefined && isQuota) {
    const [{ word }] = kinds as [KindText];
    throw invalid(
      spec,
      `it has ${HOLD_MARK} and ${word}=; slots are free when they are given back, not by a reset: give one`,
    );
  }
  if (isQuota && (base.periodMs !== undefined || base.burst !== undefined)) {
    throw invalid(spec, `a quota (${wordList(TEXTS)}) has neither period nor burst; give its capacity alone`);
  }
  if (said.tz !== undefined && !kinds.some(({ hasZone }) => hasZone) && said.windows.length === 0) {
    throw invalid(spec, "tz= is the zone of reset= and when=, and neither is given; give one, or leave it out");
  }
  if (kinds.length > 1) {
    const [one = "", other = ""] = kinds.map(({ word }) => word);
    throw invalid(
      spec,
      `it has ${one}= and ${other}=; a quota resets by the calendar or after its first use, not both: give one`,
    );
  }
  const schedule = said.windows.map((window) =>
    windowOf(spec, window, { hasRate: !isQuota && slots === undefined, tz }),
  );
  // What a limit of any kind may have.
  const options = {
    ...(said.counts === undefined ? {} : { counts: said.counts }),
    ...(said.soft ? { soft: true } : {}),
    ...(said.shadow ? { shadow: true } : {}),
    ...(schedule.length === 0 ? {} : { schedule }),
    ...(said.notify === undefined ? {} : { notifyAt: percentsIn(spec, said.notify) }),
  };
  const make = limitMakers(calendar);
  if (slots !== undefined) return make.concurrent(name, slots.amount, { holdMs: slots.holdMs, ...options });
  // The one field that is there, whichever it is.
  if (fields !== undefined) return make.quota(name, base.amount, { ...(fields as { reset: Reset }), ...options });
  const { amount, burst = amount, periodMs: refillPeriodMs = 60_000 } = base;
  return make.custom(name, { capacity: burst, refillAmount: amount, refillPeriodMs, ...options });
}

/** `rpm:1000/min:1500,soft`. */
export function textOfLimit(limit: Limit): string {
  return `${limit.name}:${specOfLimit(limit)}`;
}

/** The same without the name. */
export function specOfLimit(limit: Limit): string {
  const { counts, capacity, refillAmount, refillPeriodMs, holdMs, soft, shadow, schedule = [], notifyAt } = limit;
  const form = formOf(limit);
  const isQuota = form !== undefined;
  const burst = capacity === refillAmount ? "" : `:${amountText(capacity)}`;
  const quotaText = isMoney(limit.name) ? moneyText : amountText;
  const period = isMoney(limit.name) ? periodOfMoney(limit) : undefined;
  const terms =
    holdMs !== undefined
      ? slotsText(capacity, holdMs)
      : isQuota
        ? `${quotaText(capacity)}${period === undefined ? "" : `/${period}`}`
        : `${amountText(refillAmount)}/${periodText(refillPeriodMs)}${burst}`;
  const tz = form?.zone(limit) ?? schedule[0]?.tz ?? TZ_DEFAULT;
  return [
    terms,
    ...(soft ? ["soft"] : []),
    ...(shadow ? ["shadow"] : []),
    ...TEXTS.flatMap(({ word, written }) => {
      const value = written(limit);
      return value === undefined || period !== undefined ? [] : [`${word}=${value}`];
    }),
    ...schedule.map((entry) => `when=${entry.cron} ${windowText(entry, limit)}`),
    ...(tz === TZ_DEFAULT ? [] : [`tz=${tz}`]),
    ...(counts === undefined ? [] : [`counts=${counts}`]),
    ...(notifyAt === undefined ? [] : [`notify=${notifyAt.join("/")}`]),
  ].join(",");
}

/** Words of a limit's text that take a value. */
export const LIMIT_WORDS: readonly string[] = [...TEXTS.map(({ word }) => word), "when", "tz", "counts", "notify"];

const WORDS_REMEDY = `any of soft, shadow, ${LIMIT_WORDS.map((word) => `${word}=`).join(", ")}`;

/** A comma begins a word only before one of the words: a cron may have commas. */
const WORD_BEGINS = new RegExp(`,\\s*(?=(?:soft|shadow)\\s*(?:,|$)|(?:${LIMIT_WORDS.join("|")})=)`);

interface Words {
  soft: boolean;
  shadow: boolean;
  tz?: string;
  counts?: string;
  notify?: string;
  readonly windows: string[];
  /** Words that only limits of one kind have. */
  readonly own: Map<string, string>;
}

function wordsIn(spec: string, words: readonly string[]): Words {
  const said: Words = { soft: false, shadow: false, windows: [], own: new Map() };
  const once = (known: unknown, word: string) => {
    if (known !== undefined && known !== false) throw invalid(spec, `${word} is given twice; give it once`);
  };
  for (const word of words) {
    const at = word.indexOf("=");
    const value = word.slice(at + 1).trim();
    const key = at < 0 ? word.trim() : word.slice(0, at);
    const comma = at < 0 ? key.indexOf(",") : -1;
    if (comma >= 0) throw invalid(spec, `"${key.slice(comma)}" is left over; give ${WORDS_REMEDY}`);
    switch (key) {
      case "soft":
        once(said.soft, "soft");
        said.soft = true;
        break;
      case "shadow":
        once(said.shadow, "shadow");
        said.shadow = true;
        break;
      case "tz":
        once(said.tz, "tz=");
        said.tz = value;
        break;
      case "counts":
        once(said.counts, "counts=");
        said.counts = value;
        break;
      case "notify":
        once(said.notify, "notify=");
        said.notify = value;
        break;
      case "when":
        said.windows.push(value);
        break;
      default:
        once(said.own.get(key), `${key}=`);
        said.own.set(key, value);
    }
  }
  return said;
}

function percentsIn(spec: string, text: string): readonly number[] {
  const percents = notifyAtOf(text, "/");
  if (percents !== undefined) return percents;
  throw invalid(spec, `notify=${text} must be one to four rising percentages from 1 to 100; give notify=80/95`);
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

/** What money says. A period of it is the reset of a quota, as if it were written as the word. */
function moneyIn(spec: string, text: string, { own }: Words): Terms {
  const money = checked(spec, moneyOfText(text));
  const [word] = own.keys();
  if (money.reset === undefined && word === undefined) throw invalid(spec, MONEY_ALONE);
  if (money.reset !== undefined) {
    if (word !== undefined) throw invalid(spec, `it has a period after the amount, and ${word}=; give one`);
    own.set("reset", money.reset);
  }
  return { amount: money.amount };
}

/** What `AMOUNT[/PERIOD][:BURST]` says, or which part of it is wrong. `kept`: what may stand for an amount that is not given. */
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
  return {
    amount,
    ...(period === undefined ? {} : { periodMs: period }),
    ...(burst === undefined ? {} : { burst }),
  };
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
    ...(refillPeriodMs === undefined ? {} : { refillPeriodMs }),
  };
}

/** What the window of a quota says in money, or why it cannot. */
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

/** What was read; throws what is wrong with it. */
function checked<Read>(spec: string, read: Read | string): Read {
  if (typeof read === "string") throw invalid(spec, read);
  return read;
}

function invalid(text: unknown, what: string): ValidationError {
  return new ValidationError("limit_invalid", `Limit ${shown(text)}: ${what}.`);
}
