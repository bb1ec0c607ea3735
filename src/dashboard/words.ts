import { amountOfText, amountShown, briefDuration, dollarsText, isMoney } from "../domain/limits/durations.ts";
import type { Amounts, Level, LimitSource, WaitMs } from "./shapes.ts";

const WHOLE = new Intl.NumberFormat("en-GB");
const SHORT = new Intl.NumberFormat("en-GB", { notation: "compact", maximumFractionDigits: 1 });

export function whole(value: number): string {
  return WHOLE.format(value);
}

/** An amount of a limit or measure: dollars where its name says so. */
export function tokensWords(name: string, tokens: number): string {
  return amountShown(name, tokens, whole);
}

/** A short number for the axis of a chart, such as 12.5k, or dollars. */
export function short(name: string, value: number): string {
  return isMoney(name) ? dollarsText(Math.round(value)) : SHORT.format(value);
}

export function capitalized(word: string): string {
  return word.charAt(0).toUpperCase() + word.slice(1);
}

export function plural(count: number, one: string, many = `${one}s`): string {
  return `${whole(count)} ${count === 1 ? one : many}`;
}

/** Lists amounts by measure, without those that are 0. */
export function amountsText(amounts: Amounts): string {
  return Object.entries(amounts)
    .filter(([, amount]) => amount > 0)
    .map(([measure, amount]) => `${tokensWords(measure, amount)} ${measureWords(measure, amount)}`)
    .join(", ");
}

/** The name of a measure beside an amount: 1 request, not 1 requests. */
function measureWords(measure: string, amount: number): string {
  return measure === "requests" && amount === 1 ? "request" : measure;
}

/** A wait, rounded up: "0 s" would be untrue. */
export function waitWords(ms: WaitMs): string {
  if (ms === null) return "never";
  if (ms <= 0) return "now";
  if (ms < 10_000) return `${(Math.ceil(ms / 100) / 10).toFixed(1)} s`;
  return durationWords(Math.ceil(ms / 1000) * 1000);
}

/** A duration of whole seconds in its two largest units. */
export function durationWords(ms: number): string {
  return briefDuration(ms, whole);
}

/** 100 a minute, 5 in 30 s. */
export function rateWords(name: string, amount: number, periodMs: number): string {
  const unit = { 1000: "s", 60000: "min", 3600000: "h", 86400000: "day" }[periodMs];
  return unit === undefined
    ? `${tokensWords(name, amount)} in ${durationWords(periodMs)}`
    : `${tokensWords(name, amount)}/${unit}`;
}

/** A level of limits in words, for whom it is. */
export const LEVEL_NAMES: Readonly<Record<Level, string>> = {
  system: "System default",
  resource: "Resource default",
  planDefault: "Plan default",
  plan: "Plan on this resource",
  entityDefault: "Entity default",
  entity: "Entity on this resource",
  systemTotal: "System total",
  planTotal: "Plan total",
  entityTotal: "Entity total",
};

export function sourceWords(source: LimitSource | "request"): string {
  if (source === "none") return "nowhere";
  return source === "request" ? "the request itself" : LEVEL_NAMES[source].toLowerCase();
}

/** The resource that totals stand under. */
export const TOTALS = "*";

export function resourceWords(resource: string): string {
  return resource === TOTALS ? "all resources together" : resource;
}

/** Quotes a word for a shell: a command that is copied may contain text that came from a link. */
export function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

const TIME = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const STAMP = new Intl.DateTimeFormat("en-GB", {
  ...{ year: "numeric", month: "short", day: "2-digit" },
  ...{ hour: "2-digit", minute: "2-digit", second: "2-digit" },
});

export function timeWords(ms: number): string {
  return TIME.format(ms);
}

export function stampWords(ms: number): string {
  return STAMP.format(ms).replace(",", "");
}

const CLOCK = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const WEEKDAY = new Intl.DateTimeFormat("en-GB", { weekday: "long" });
const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "long" });
const DAY_MS = 86_400_000;

/** Hours and minutes. */
export function clockWords(ms: number): string {
  return CLOCK.format(ms);
}

/** A day as it is said: today with the time, the next days by their names. */
export function dayWords(ms: number, nowMs: number): string {
  const days = Math.round((midnightOf(ms) - midnightOf(nowMs)) / DAY_MS);
  if (days <= 0) return `today at ${clockWords(ms)}`;
  if (days === 1) return `tomorrow at ${clockWords(ms)}`;
  return `on ${(days < 7 ? WEEKDAY : DAY).format(ms)}`;
}

const UNTIL = { weekday: "short", day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" } as const;
const UNTIL_YEAR = new Intl.DateTimeFormat("en-GB", { ...UNTIL, year: "numeric" });
const UNTIL_DAY = new Intl.DateTimeFormat("en-GB", UNTIL);

/** An instant as the viewer's clock has it: `15:00`, of another day `Thu 19 Nov, 15:00`. */
export function untilWords(ms: number, nowMs: number): string {
  if (midnightOf(ms) === midnightOf(nowMs)) return clockWords(ms);
  const isSameYear = new Date(ms).getFullYear() === new Date(nowMs).getFullYear();
  return (isSameYear ? UNTIL_DAY : UNTIL_YEAR).format(ms);
}

function midnightOf(ms: number): number {
  return new Date(ms).setHours(0, 0, 0, 0);
}

/** Events a second: one decimal where they are few, and never 0 for some. */
export function rateText(perSecond: number): string {
  if (perSecond === 0) return "0";
  if (perSecond < 0.05) return "<0.1";
  return perSecond < 10 ? perSecond.toFixed(1) : whole(Math.round(perSecond));
}

/** A field that cannot be sent; the service was not asked. */
export class FormError extends Error {}

/** Tokens of a dollar: budgets are counted in millionths. */
const MICRO = 1_000_000;

/** Reads `500`, `0.5`, `60,000`, `60 000`, `9k`, `2M`, and `$5`, which is 5,000,000 millionths. Undefined for any other text. */
export function numberIn(text: string): number | undefined {
  // Thousands may be separated, as the page shows them.
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
