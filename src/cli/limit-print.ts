import type { Limit } from "../domain/limit.ts";
import { type ScheduleEntry, TZ_DEFAULT } from "../domain/schedule.ts";
import { RESETS } from "./limit-text.ts";

/** A limit as it can be pasted behind `-l`. */
export function limitText(limit: Limit): string {
  const { name, capacity, refillAmount, refillPeriodMs, soft, schedule = [], reset, resetAfterMs } = limit;
  const isQuota = reset !== undefined || resetAfterMs !== undefined;
  const rate = `${amountText(refillAmount)}/${periodText(refillPeriodMs)}`;
  const drip = capacity === refillAmount ? rate : `${rate}:${amountText(capacity)}`;
  // Limits of one bucket share one zone, and so do the parts of one limit.
  const tz = [reset?.tz, ...schedule.map((entry) => entry.tz)].find(
    (zone) => zone !== undefined && zone !== TZ_DEFAULT,
  );
  const words = [
    ...(soft ? ["soft"] : []),
    ...(reset === undefined ? [] : [`reset=${resetText(reset.cron)}`]),
    ...(resetAfterMs === undefined ? [] : [`after=${durationText(resetAfterMs)}`]),
    ...schedule.map((entry) => `when=${entry.cron} ${windowText(entry, limit, isQuota)}`),
    ...(tz === undefined ? [] : [`tz=${tz}`]),
  ];
  return [`${name}:${isQuota ? amountText(capacity) : drip}`, ...words].join(",");
}

export function limitsText(limits: readonly Limit[]): string {
  return limits.map(limitText).join("  ");
}

function windowText(entry: ScheduleEntry, base: Limit, isQuota: boolean): string {
  if (entry.scale !== undefined) return `x${entry.scale}`;
  const { capacity = base.capacity, refillAmount = base.refillAmount, refillPeriodMs } = entry;
  if (isQuota) return amountText(capacity);
  const rate = `${amountText(refillAmount)}${refillPeriodMs === undefined ? "" : `/${periodText(refillPeriodMs)}`}`;
  return capacity === refillAmount ? rate : `${rate}:${amountText(capacity)}`;
}

function resetText(cron: string): string {
  return Object.entries(RESETS).find(([, known]) => known === cron)?.[0] ?? cron;
}

function amountText(amount: number): string {
  if (amount >= 1_000_000 && amount % 1_000_000 === 0) return `${amount / 1_000_000}M`;
  return amount >= 10_000 && amount % 1_000 === 0 ? `${amount / 1_000}k` : String(amount);
}

function periodText(ms: number): string {
  const [unit, unitMs] = PERIODS.find(([, each]) => ms % each === 0) ?? ["sec", 1_000];
  return ms === unitMs ? unit : `${ms / unitMs}${unit}`;
}

const PERIODS: readonly (readonly [string, number])[] = [
  ["day", 86_400_000],
  ["hour", 3_600_000],
  ["min", 60_000],
  ["sec", 1_000],
];

/** In the largest unit that keeps it whole. */
export function durationText(ms: number): string {
  for (const [unit, unitMs] of DURATIONS) if (ms !== 0 && ms % unitMs === 0) return `${ms / unitMs}${unit}`;
  return `${ms}ms`;
}

const DURATIONS: readonly (readonly [string, number])[] = [
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["m", 60_000],
  ["s", 1_000],
];

/** For people: `12 s`, `3 min`, `2.5 h`; `never`. */
export function waitText(ms: number): string {
  if (ms === Number.POSITIVE_INFINITY) return "never";
  if (ms < 1_000) return `${ms} ms`;
  // Rounded up: whoever comes then is let in.
  if (ms < 120_000) return `${Math.ceil(ms / 1_000)} s`;
  if (ms < 7_200_000) return `${Math.ceil(ms / 60_000)} min`;
  if (ms < 172_800_000) return `${Math.ceil(ms / 360_000) / 10} h`;
  return `${Math.ceil(ms / 8_640_000) / 10} days`;
}
