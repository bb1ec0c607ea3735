// Durations as people write and read them: the texts of limits, waits in sentences, the page and the command line.

/** The units, the longest first; below, what texts call them, by the same places. Lists of their own, so that a bundle has only those that it shows. */
const UNITS_MS: readonly number[] = [86_400_000, 3_600_000, 60_000, 1_000];
/** The units in sentences: `14 days`. */
const WORDS = ["day", "hour", "minute", "second"];
/** The units in tables and on the page: `5 min`. */
const BRIEFS = ["d", "h", "min", "s"];
/** The units in the period of a limit: `100/min`. */
const PERIOD_NAMES = ["day", "hour", "min", "sec"];
/** The units in one word: `5m`. */
const LETTERS = ["d", "h", "m", "s"];

export const PERIODS: Readonly<Record<string, number>> = {
  ...{ s: 1_000, sec: 1_000, second: 1_000, seconds: 1_000 },
  ...{ m: 60_000, min: 60_000, minute: 60_000, minutes: 60_000 },
  ...{ h: 3_600_000, hour: 3_600_000, hours: 3_600_000 },
  ...{ d: 86_400_000, day: 86_400_000, days: 86_400_000 },
};

export const DURATIONS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** The ms of a period such as `min`, `5min`, `30s`; undefined where it is none. */
export function periodMs(text: string): number | undefined {
  return counted(text, PERIODS, "1");
}

/** The ms of a duration such as `500ms`, `30s`, `5m`, `2h`, `1d`; undefined where it is none, a bare number too. */
export function durationMs(text: string): number | undefined {
  return counted(text, DURATIONS, "");
}

/** A period in the largest unit that says it in whole numbers. */
export function periodText(ms: number): string {
  return written(ms, PERIOD_NAMES).replace(/^1(?=\D)/, "");
}

export function durationText(ms: number): string {
  return written(ms, LETTERS);
}

/** A period in words: `a minute`, `every 5m`. */
export function everyText(ms: number): string {
  const word = WORDS[UNITS_MS.indexOf(ms)];
  if (word === undefined) return `every ${durationText(ms)}`;
  return `${word === "hour" ? "an" : "a"} ${word}`;
}

/**
 * A wait as people say it, in its two largest units: `14 days`, `14 days 19 hours`, `1 minute 5 seconds`. Rounded up to the smaller one,
 * so that nobody comes too early.
 */
export function waitWords(ms: number): string {
  const first = UNITS_MS.findIndex((unitMs) => ms >= unitMs);
  const smallMs = (first < 0 ? undefined : UNITS_MS[first + 1]) ?? 1_000;
  const parts = inTwoUnits(Math.ceil(ms / smallMs) * smallMs);
  return parts.map(([count, at]) => `${count} ${WORDS[at]}${count === 1 ? "" : "s"}`).join(" ") || "0 seconds";
}

/** A duration of whole seconds in its two largest units: `1 h 30 min`. `shown`: how a count is written. */
export function briefDuration(ms: number, shown: (count: number) => string): string {
  const parts = inTwoUnits(ms);
  return parts.map(([count, at]) => `${shown(count)} ${BRIEFS[at]}`).join(" ") || "0 s";
}

/** A wait in tables: `12 s`, `3 min`, `2.5 h`; `never`. Rounded up, so that a request after it is granted. */
export function waitText(ms: number): string {
  if (ms === Number.POSITIVE_INFINITY) return "never";
  if (ms < 1_000) return `${ms} ms`;
  if (ms < 120_000) return `${Math.ceil(ms / 1_000)} s`;
  if (ms < 7_200_000) return `${Math.ceil(ms / 60_000)} min`;
  if (ms < 172_800_000) return `${Math.ceil(ms / 360_000) / 10} h`;
  return `${Math.ceil(ms / 8_640_000) / 10} days`;
}

/** The largest unit of a duration and the next, those of which there are any, by their places; what is smaller is left out. */
function inTwoUnits(ms: number): readonly (readonly [count: number, at: number])[] {
  const first = UNITS_MS.findIndex((unitMs) => ms >= unitMs);
  let leftMs = ms;
  return UNITS_MS.flatMap((unitMs, at) => {
    const count = at < first || at > first + 1 ? 0 : Math.floor(leftMs / unitMs);
    leftMs -= count * unitMs;
    return count === 0 ? [] : [[count, at] as const];
  });
}

function counted(text: string, units: Readonly<Record<string, number>>, without: string): number | undefined {
  const match = /^(\d*)([a-z]+)$/.exec(text);
  const unit = match === null || !Object.hasOwn(units, match[2] as string) ? undefined : units[match[2] as string];
  const count = match?.[1] || without;
  return unit === undefined || count === "" ? undefined : Number(count) * unit;
}

function written(ms: number, names: readonly string[]): string {
  const at = UNITS_MS.findIndex((unitMs) => ms % unitMs === 0);
  return at < 0 ? `${ms}ms` : `${ms / (UNITS_MS[at] as number)}${names[at]}`;
}

export const FACTORS: Readonly<Record<string, number>> = { k: 1_000, M: 1_000_000, G: 1_000_000_000 };

/** Whole tokens as people write them: digits, `_` between them, then at most one of k, M and G. Undefined: it is none. */
export function amountOfText(text: string): number | undefined {
  const match = /^(\d+(?:_\d+)*)([kMG]?)$/.exec(text);
  if (match === null) return undefined;
  return Number((match[1] as string).replaceAll("_", "")) * (FACTORS[match[2] as string] ?? 1);
}

/** An amount with k or M where that is shorter to read. */
export function amountText(amount: number): string {
  if (amount >= 1_000_000 && amount % 1_000_000 === 0) return `${amount / 1_000_000}M`;
  return amount >= 10_000 && amount % 1_000 === 0 ? `${amount / 1_000}k` : String(amount);
}

/** Decimals of a dollar that are whole micro-dollars. */
export const DECIMALS = 6;

/** Whether a limit of this name counts micro-dollars: one that is called `usd`, or ends in `_usd`. */
export function isMoney(limit: string): boolean {
  return limit === "usd" || limit.endsWith("_usd");
}

/** An amount of a limit as people read it: dollars where its name says so, else what `plainly` makes of the tokens. */
export function amountShown(limit: string, tokens: number, plainly: (tokens: number) => string): string {
  return isMoney(limit) && Number.isSafeInteger(tokens) ? dollarsText(tokens) : plainly(tokens);
}

/** Whole micro-dollars as dollars, with two decimals or as many as it needs. */
export function dollarsText(micro: number): string {
  const digits = String(Math.abs(micro)).padStart(DECIMALS + 1, "0");
  const decimals = digits.slice(-DECIMALS).replace(/0{1,4}$/, "");
  return `${micro < 0 ? "-" : ""}$${digits.slice(0, -DECIMALS)}.${decimals}`;
}
