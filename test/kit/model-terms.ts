import type { Limit } from "../../src/domain/limits/limit.ts";
import type { Calendar } from "../../src/domain/limits/schedule.ts";

/** Nothing holds more, and a soft limit owes no more: beyond, numbers would not be exact. */
export const MOST = 9_000_000_000_000_000n;

/** What a limit goes by at one instant, in millitokens. */
export interface InForce {
  readonly capacity: bigint;
  readonly refill: bigint;
  readonly periodMs: number;
}

/** Read from the limit and the calendar alone, not by the arithmetic that is under test. */
export function inForceAt(limit: Limit, atMs: number, calendar: Calendar): InForce {
  const base = { capacity: milli(limit.capacity), refill: milli(limit.refillAmount), periodMs: limit.refillPeriodMs };
  for (const { cron, tz = "UTC", scale, capacity, refillAmount, refillPeriodMs } of limit.schedule ?? []) {
    if (!calendar.matches(cron, tz, atMs)) continue;
    if (scale !== undefined) {
      return { ...base, capacity: scaled(base.capacity, scale), refill: scaled(base.refill, scale) };
    }
    return {
      capacity: capacity === undefined ? base.capacity : milli(capacity),
      refill: refillAmount === undefined ? base.refill : milli(refillAmount),
      periodMs: refillPeriodMs ?? base.periodMs,
    };
  }
  return base;
}

/** Whether two limits have the same capacity at any instant. */
export function isSameAmount(a: Limit, b: Limit): boolean {
  return JSON.stringify([a.capacity, a.schedule]) === JSON.stringify([b.capacity, b.schedule]);
}

/** Which part of how many of a bucket that is split up. */
export interface ModelPart {
  readonly index: number;
  readonly count: number;
}

/** A part's share of a whole: the shares of all parts add up to it exactly. */
export function shareOf(whole: bigint, { index, count }: ModelPart): bigint {
  const [i, n] = [BigInt(index), BigInt(count)];
  return (whole * (i + 1n)) / n - (whole * i) / n;
}

/** The terms of a part; undefined: the whole is one. */
export function partOf(whole: InForce, part: ModelPart | undefined): InForce {
  if (part === undefined) return whole;
  return { ...whole, capacity: shareOf(whole.capacity, part), refill: shareOf(whole.refill, part) };
}

/** The terms, where a millisecond of refill is whole in these units. */
export function exactTerms(inForce: InForce, unitsPerMilli: bigint): InForce {
  const { periodMs } = inForce;
  if (unitsPerMilli % BigInt(periodMs) === 0n) return inForce;
  throw new RangeError(`A refill period of ${periodMs} ms is not exact in this model; name it among its periods.`);
}

/** The next instant after `atMs` at which another window may begin. */
export function windowChangeAfter({ schedule = [] }: Limit, atMs: number, calendar: Calendar): number {
  return Math.min(Infinity, ...schedule.map(({ cron, tz = "UTC" }) => calendar.nextChange(cron, tz, atMs)));
}

/** A part may owe as much less as there are parts: they may be joined. */
export function owedMost(part: ModelPart | undefined): bigint {
  return MOST / BigInt(part?.count ?? 1);
}

/** The most it, or a part of it, holds in any of its windows, in millitokens. */
export function capacityMost({ capacity, schedule = [] }: Limit, part?: ModelPart): bigint {
  const all = schedule.map((entry) =>
    entry.scale === undefined ? milli(entry.capacity ?? capacity) : scaled(milli(capacity), entry.scale),
  );
  const most = -all.reduce((least, one) => lesser(least, -one), -milli(capacity));
  return part === undefined ? most : shareOf(most, part);
}

export function lesser(a: bigint, b: bigint): bigint {
  if (a < b) return a;
  return b;
}

function milli(tokens: number): bigint {
  return BigInt(tokens) * 1000n;
}

/** Rounded down, but something never to nothing. */
function scaled(amount: bigint, scale: number): bigint {
  const product = (amount * BigInt(Math.round(scale * 1000))) / 1000n;
  return amount > 0n && product === 0n ? 1n : product;
}

/** What must be left of a limit, rounded up. */
export function floorOf({ brimMilli }: { readonly brimMilli: bigint }, leavePercent: number): bigint {
  return (brimMilli * BigInt(leavePercent) + 99n) / 100n;
}
