import type { Also } from "../domain/charge/amounts.ts";
import { amountOfText, durationMs as durationOfText } from "../domain/limits/durations.ts";
import { microOfText } from "../domain/limits/money.ts";
import { given } from "../domain/names/given.ts";
import { orOf, UsageError } from "./exit-code.ts";

/** `500ms`, `30s`, `5m`, `2h`, `1d` in milliseconds. */
export function durationMs(text: string, what: string): number {
  const ms = maybeDurationMs(text);
  if (ms === undefined) throw new UsageError(`${what} is "${text}"; give a duration such as 500ms, 30s, 5m, 2h or 1d.`);
  return ms;
}

function maybeDurationMs(text: string): number | undefined {
  const ms = durationOfText(text);
  return Number.isSafeInteger(ms) ? ms : undefined;
}

/** ISO 8601 (without a zone: UTC), or a duration: so long ago. In ms since 1970. */
export function instantMs(text: string, what: string, nowMs: number): number {
  const agoMs = maybeDurationMs(text);
  if (agoMs !== undefined) return nowMs - agoMs;
  const [, date, time = "T00:00", zone = "Z"] =
    /^(\d{4}-\d{2}(?:-\d{2})?)(T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,3})?)?)?(Z|[+-]\d{2}:?\d{2})?$/.exec(text) ?? [];
  const day = date?.length === 7 ? `${date}-01` : date;
  const atMs = day === undefined ? Number.NaN : Date.parse(`${day}${time}${zone}`);
  // Date.parse takes the 31st of a short month for the 1st of the next.
  if (!Number.isNaN(atMs) && new Date(Date.parse(`${day}T00:00Z`)).toISOString().startsWith(day ?? "")) return atMs;
  throw new UsageError(
    `${what} is "${text}"; give an instant such as 2026-06-01T12:00Z, or a duration ago such as 2h.`,
  );
}

/** As `instantMs`, or a time of day (UTC): the last such minute. */
export function momentMs(text: string, what: string, nowMs: number): number {
  const [, hours, minutes] = /^([01]?\d|2[0-3]):([0-5]\d)$/.exec(text) ?? [];
  if (hours === undefined) return instantMs(text, what, nowMs);
  const today = new Date(nowMs).setUTCHours(Number(hours), Number(minutes), 0, 0);
  return today <= nowMs ? today : today - DAY_MS;
}

const DAY_MS = 86_400_000;

/** Digits with "_" between them and at most one of k, M and G; undefined for anything else, and above what is exact. */
export function amountOf(text: string): number | undefined {
  const amount = amountOfText(text);
  return Number.isSafeInteger(amount) ? amount : undefined;
}

/** `rpm=1,tpm=500,usd=$0.25`, repeated: whole tokens per limit. */
export function tokensOf(texts: readonly string[], option: string): Readonly<Record<string, number>> {
  const tokens = new Map<string, number>();
  for (const part of texts.flatMap((text) => text.split(","))) {
    const [, name, amountText = ""] = /^([^=:]+)[=:](.*)$/.exec(part) ?? [];
    const amount = amountText.startsWith("$") ? microOfText(amountText.slice(1)) : amountOf(amountText);
    if (name === undefined || amount === undefined) {
      throw new UsageError(`${option} has "${part}"; give NAME=N with a whole number, such as ${option} rpm=1.`);
    }
    if (tokens.has(name)) throw new UsageError(`${option} names ${name} twice; name it once.`);
    tokens.set(name, amount);
  }
  return Object.fromEntries(tokens);
}

/**
 * Reads `RESOURCE:NAME=N`, and `RESOURCE@ENTITY:NAME=N` for another entity; repeated. Resources have no "@", and entities no "/", which
 * resources have. Both may have a ":", so that the last one counts.
 */
export function alsoOf(texts: readonly string[] | undefined): Also | undefined {
  if (texts === undefined) return undefined;
  const parts = new Map<string, string[]>();
  for (const text of texts) {
    const [, place, amounts] = /^(.+):([^:]+=[^:]*)$/.exec(text) ?? [];
    if (place === undefined || amounts === undefined) {
      throw new UsageError(
        `--also is "${text}"; give RESOURCE:NAME=N, such as gpu:slots=1, or RESOURCE@ENTITY:NAME=N for another entity.`,
      );
    }
    parts.set(place, [...(parts.get(place) ?? []), amounts]);
  }
  const all = Array.from(parts, ([place, amounts]) => ({ place, consume: tokensOf(amounts, "--also") }));
  if (all.every(({ place }) => !place.includes("@"))) {
    return Object.fromEntries(all.map(({ place, consume }) => [place, consume]));
  }
  return all.map(({ place, consume }) => {
    const [, resource = "", entityId] = /^([^@]*)(?:@(.*))?$/.exec(place) ?? [];
    return given({ entityId, resource, consume });
  });
}

/** Reads `KEY=VALUE`, repeated. The value may be empty and have further "=". */
export function pairsOf(texts: readonly string[], option: string): Readonly<Record<string, string>> {
  return Object.fromEntries(
    texts.map((text) => {
      const at = text.indexOf("=");
      if (at < 1) throw new UsageError(`${option} is "${text}"; give KEY=VALUE.`);
      return [text.slice(0, at), text.slice(at + 1)];
    }),
  );
}

/** A whole number from 1 on. */
export function countOf(text: string, option: string): number {
  const count = /^\d+$/.test(text) ? Number(text) : 0;
  if (count < 1 || !Number.isSafeInteger(count))
    throw new UsageError(`${option} is "${text}"; give a whole number, at least 1.`);
  return count;
}

/** A whole number of percent, as `--leave-percent` takes it. */
export function leavePercentOf(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const percent = /^\d{1,2}$/.test(text) ? Number(text) : Number.NaN;
  if (Number.isNaN(percent))
    throw new UsageError(`--leave-percent is "${text}"; give a whole number of percent from 0 to 99.`);
  return percent;
}

/** One of several words. */
export function choiceOf<Choice extends string>(text: string, choices: readonly Choice[], what: string): Choice {
  const found = choices.find((choice) => choice === text);
  if (found === undefined) throw new UsageError(`${what} is "${text}"; give ${orOf(choices)}.`);
  return found;
}

/** `tlsCert` as a flag has it: `tls-cert`. */
export function kebab(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}
