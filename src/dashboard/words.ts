import { briefDuration } from "../domain/limits/durations.ts";
import { amountShown, dollarsText, isMoney } from "../domain/limits/money-words.ts";
import type { Level, LimitSource, WaitMs } from "./shapes.ts";

/** Every number alike: 1,250 stands below 12,500. */
const WHOLE = new Intl.NumberFormat("en-GB");
const SHORT = new Intl.NumberFormat("en-GB", { notation: "compact", maximumFractionDigits: 1 });

export function whole(value: number): string {
  return WHOLE.format(value);
}

/** An amount of a limit or measure: dollars where its name says so. */
export function tokensWords(name: string, tokens: number): string {
  return amountShown(name, tokens, whole);
}

/** For the axis of a chart: 12.5k; of money dollars. */
export function short(name: string, value: number): string {
  return isMoney(name) ? dollarsText(Math.round(value)) : SHORT.format(value);
}

export function plural(count: number, one: string, many = `${one}s`): string {
  return `${whole(count)} ${count === 1 ? one : many}`;
}

/** Amounts by measure; what is 0 is left out. */
export function amountsText(amounts: Readonly<Record<string, number>>): string {
  return Object.entries(amounts)
    .filter(([, amount]) => amount > 0)
    .map(([measure, amount]) => `${tokensWords(measure, amount)} ${measure}`)
    .join(", ");
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

/** A resource in words: that of totals is no name that anybody gave. */
export function resourceWords(resource: string): string {
  return resource === TOTALS ? "all resources together" : resource;
}

/** One word for a shell, whatever is in it: what is shown to be copied may contain what somebody put into a link. */
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
