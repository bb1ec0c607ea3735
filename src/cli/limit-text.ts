import type { LimitsEnding, ShownConfig } from "../domain/config/overrides.ts";
import { amountShown, everyText } from "../domain/limits/durations.ts";
import { kindOf } from "../domain/limits/kinds/table.ts";
import { checkLimits, type Limit } from "../domain/limits/limit.ts";
import { limitOfText, textOfLimit } from "../domain/limits/limit-text.ts";
import { ValidationError } from "../domain/names/errors.ts";
import { calendar } from "../entry/limits.ts";
import { UsageError } from "./exit-code.ts";
import { endText } from "./until.ts";

/** Reads limits as they are written after `-l`: `rpm:1000/min:1500,soft`. All rules of the library are checked, so that a dry run fails where a run would. */
export function limitsOf(texts: readonly string[], soft: readonly string[] = []): readonly Limit[] {
  const limits = texts.map(limitOf);
  const names = limits.map(({ name }) => name);
  const twice = names.find((name, i) => names.indexOf(name) !== i);
  if (twice !== undefined) throw new UsageError(`-l names ${twice} twice; name each limit once.`);
  const unknown = soft.find((name) => !names.includes(name));
  if (unknown !== undefined) {
    throw new UsageError(`--soft is "${unknown}"; name one of the limits given: ${names.join(", ")}.`);
  }
  const marked = limits.map((limit) => (soft.includes(limit.name) ? { ...limit, soft: true as const } : limit));
  return checkLimits(marked, calendar);
}

/** Reads one limit; the grammar is in docs/reference/limits.md. */
export function limitOf(text: string): Limit {
  try {
    return limitOfText(text, calendar);
  } catch (error) {
    // A text that is no limit is wrong use of the option.
    if (error instanceof ValidationError && error.code === "limit_invalid") throw new UsageError(error.message);
    throw error;
  }
}

/** A limit as it can be pasted behind `-l`. */
export const limitText = textOfLimit;

export function limitsText(limits: readonly Limit[]): string {
  return limits.map(limitText).join("  ");
}

/** Tokens for people: dollars where the name of the limit, or of the measure, says so. */
export function tokensText(name: string, tokens: number): string {
  return amountShown(name, tokens, String);
}

/** The settings of a level for people: its limits, how they go with other levels, and its policy. */
export function levelBlock(title: string, config: ShownConfig): string {
  const { limits, inherit, appliesTo, access, cascade, onUnavailable, usageKeptDays } = config;
  const { accessUntilMs, accessThen = "inherit" } = config;
  const accessEnd = accessUntilMs === undefined ? "" : ` until ${endText(accessUntilMs)}, then ${accessThen}`;
  const lines = [
    ...(limits.length === 0 ? ["no limits"] : limits.map(limitText)),
    ...(config.untilMs === undefined ? [] : [levelEndText(config)]),
    ...(access === undefined ? [] : [`access: ${access}${accessEnd}`]),
    ...(cascade === undefined ? [] : [`cascade: ${cascade ? "on" : "off"}`]),
    ...(inherit === true ? ["inherits limits of less specific levels"] : []),
    ...(appliesTo === "callers" ? ["for callers only, not for their parents"] : []),
    ...(onUnavailable === undefined ? [] : [`on unavailable: ${onUnavailable}`]),
    ...(usageKeptDays === undefined ? [] : [`usage kept: ${usageKeptDays} days`]),
  ];
  return `${title}\n${lines.map((line) => `  ${line}\n`).join("")}`;
}

/** `until 15:00 UTC, then 600 a minute`. */
export function limitEndText({ untilMs, then }: { readonly untilMs?: number; readonly then?: Limit | null }): string {
  return untilMs === undefined ? "" : `until ${endText(untilMs)}, then ${afterText(then ?? null)}`;
}

function afterText(then: Limit | null): string {
  if (then === null) return "none";
  const { name, capacity, refillAmount, refillPeriodMs } = then;
  const isPlain = kindOf(then) === "drip" && capacity === refillAmount && then.schedule === undefined;
  return isPlain ? `${tokensText(name, refillAmount)} ${everyText(refillPeriodMs)}` : limitText(then);
}

/** `until 15:00 UTC, then rpm:600/min`; nothing for limits without an end. */
function levelEndText({ untilMs, then }: LimitsEnding): string {
  if (untilMs === undefined) return "";
  const { limits = [] } = then ?? {};
  return `until ${endText(untilMs)}, then ${limits.length === 0 ? "no limits" : limits.map(limitText).join(" ")}`;
}
