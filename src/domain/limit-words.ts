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
  return written(ms, [
    [86_400_000, "day"],
    [3_600_000, "hour"],
    [60_000, "min"],
    [1_000, "sec"],
  ]).replace(/^1(?=\D)/, "");
}

/** With k or M where that is shorter to read. */
export function amountText(amount: number): string {
  if (amount >= 1_000_000 && amount % 1_000_000 === 0) return `${amount / 1_000_000}M`;
  return amount >= 10_000 && amount % 1_000 === 0 ? `${amount / 1_000}k` : String(amount);
}

export function durationText(ms: number): string {
  return written(ms, [
    [86_400_000, "d"],
    [3_600_000, "h"],
    [60_000, "m"],
    [1_000, "s"],
    [1, "ms"],
  ]);
}

function counted(text: string, units: Readonly<Record<string, number>>, without: string): number | undefined {
  const match = /^(\d*)([a-z]+)$/.exec(text);
  const unit = match === null || !Object.hasOwn(units, match[2] as string) ? undefined : units[match[2] as string];
  const count = match?.[1] || without;
  return unit === undefined || count === "" ? undefined : Number(count) * unit;
}

function written(ms: number, units: readonly (readonly [ms: number, name: string])[]): string {
  for (const [unitMs, name] of units) if (ms % unitMs === 0) return `${ms / unitMs}${name}`;
  return `${ms}ms`;
}
