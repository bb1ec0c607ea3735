// Durations as people write and read them: the texts of limits, waits in sentences, the page and the command line.

interface Unit {
  readonly ms: number;
  /** In sentences: `14 days`. */
  readonly word: string;
  /** In tables and on the page: `5 min`. */
  readonly brief: string;
  /** In the period of a limit: `100/min`. */
  readonly period: string;
  /** In one word: `5m`. */
  readonly letter: string;
}

/** The longest first. */
const UNITS: readonly Unit[] = [
  { ms: 86_400_000, word: "day", brief: "d", period: "day", letter: "d" },
  { ms: 3_600_000, word: "hour", brief: "h", period: "hour", letter: "h" },
  { ms: 60_000, word: "minute", brief: "min", period: "min", letter: "m" },
  { ms: 1_000, word: "second", brief: "s", period: "sec", letter: "s" },
];

export const PERIODS: Readonly<Record<string, number>> = {
  ...{ s: 1_000, sec: 1_000, second: 1_000, seconds: 1_000 },
  ...{ m: 60_000, min: 60_000, minute: 60_000, minutes: 60_000 },
  ...{ h: 3_600_000, hour: 3_600_000, hours: 3_600_000 },
  ...{ d: 86_400_000, day: 86_400_000, days: 86_400_000 },
};

export const DURATIONS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** Of `min`, `5min`, `30s`; undefined where it is none. */
export function periodMs(text: string): number | undefined {
  return counted(text, PERIODS, "1");
}

/** The ms of a duration such as `500ms`, `30s`, `5m`, `2h`, `1d`; undefined where it is none, a bare number too. */
export function durationMs(text: string): number | undefined {
  return counted(text, DURATIONS, "");
}

/** The largest unit that says it in whole numbers. */
export function periodText(ms: number): string {
  return written(ms, "period").replace(/^1(?=\D)/, "");
}

export function durationText(ms: number): string {
  return written(ms, "letter");
}

/** How often: `a minute`, `every 5m`. */
export function everyText(ms: number): string {
  const { word } = UNITS.find((unit) => unit.ms === ms) ?? {};
  if (word === undefined) return `every ${durationText(ms)}`;
  return `${word === "hour" ? "an" : "a"} ${word}`;
}

/**
 * A wait as people say it, in its two largest units: `14 days`, `14 days 19 hours`, `1 minute 5 seconds`. Rounded up to the smaller one,
 * so that nobody comes too early.
 */
export function waitWords(ms: number): string {
  const at = UNITS.findIndex((unit) => ms >= unit.ms);
  const { ms: smallMs } = (at < 0 ? undefined : UNITS[at + 1]) ?? (UNITS.at(-1) as Unit);
  const parts = inTwoUnits(Math.ceil(ms / smallMs) * smallMs);
  return parts.map(({ count, unit }) => `${count} ${unit.word}${count === 1 ? "" : "s"}`).join(" ") || "0 seconds";
}

/** A duration of whole seconds in its two largest units: `1 h 30 min`. `shown`: how a count is written. */
export function briefDuration(ms: number, shown: (count: number) => string): string {
  const parts = inTwoUnits(ms);
  return parts.map(({ count, unit }) => `${shown(count)} ${unit.brief}`).join(" ") || "0 s";
}

/** For tables: `12 s`, `3 min`, `2.5 h`; `never`. Rounded up: whoever comes then is let in. */
export function waitText(ms: number): string {
  if (ms === Number.POSITIVE_INFINITY) return "never";
  if (ms < 1_000) return `${ms} ms`;
  if (ms < 120_000) return `${Math.ceil(ms / 1_000)} s`;
  if (ms < 7_200_000) return `${Math.ceil(ms / 60_000)} min`;
  if (ms < 172_800_000) return `${Math.ceil(ms / 360_000) / 10} h`;
  return `${Math.ceil(ms / 8_640_000) / 10} days`;
}

/** The largest unit of a duration and the next, those of which there are any; what is smaller is left out. */
function inTwoUnits(ms: number): readonly { readonly count: number; readonly unit: Unit }[] {
  const first = UNITS.findIndex((unit) => ms >= unit.ms);
  let leftMs = ms;
  return UNITS.slice(first, first < 0 ? 0 : first + 2).flatMap((unit) => {
    const count = Math.floor(leftMs / unit.ms);
    leftMs -= count * unit.ms;
    return count === 0 ? [] : [{ count, unit }];
  });
}

function counted(text: string, units: Readonly<Record<string, number>>, without: string): number | undefined {
  const match = /^(\d*)([a-z]+)$/.exec(text);
  const unit = match === null || !Object.hasOwn(units, match[2] as string) ? undefined : units[match[2] as string];
  const count = match?.[1] || without;
  return unit === undefined || count === "" ? undefined : Number(count) * unit;
}

function written(ms: number, name: "period" | "letter"): string {
  const unit = UNITS.find((each) => ms % each.ms === 0);
  return unit === undefined ? `${ms}ms` : `${ms / unit.ms}${unit[name]}`;
}
