import type { Limit } from "./limit.ts";
import { type LimitSet, limitSet } from "./limit-set.ts";
import type { ScheduleEntry } from "./schedule.ts";

/**
 * A part of every capacity and rate of some limits. Capacities are rounded down to whole tokens; one below a token is 0. Rates are
 * rounded down to thousandths of a token: a part of a token a second is still a rate.
 */
export function sharedLimits({ limits }: LimitSet, share: number): LimitSet {
  return limitSet(limits.map((limit) => sharedLimit(limit, share)));
}

function sharedLimit(limit: Limit, share: number): Limit {
  const { schedule, capacity, refillAmount, refillPeriodMs } = limit;
  // So many thousandths in a period are as many tokens in a thousand periods. Vast rates would leave the exact numbers by that.
  const periods = ratesOf(limit).every((amount) => amount <= AMOUNT_IN_PARTS_MAX) ? 1_000 : 1;
  const rate = (amount: number) => partOf(amount * periods, share);
  const entries = schedule?.map((entry): ScheduleEntry => {
    if (entry.scale !== undefined) return entry;
    return {
      ...entry,
      ...(entry.capacity === undefined ? {} : { capacity: partOf(entry.capacity, share) }),
      ...(entry.refillAmount === undefined ? {} : { refillAmount: rate(entry.refillAmount) }),
      ...(entry.refillPeriodMs === undefined ? {} : { refillPeriodMs: entry.refillPeriodMs * periods }),
    };
  });
  // A part is no whole to tell percentages of.
  const { notifyAt: _, ...others } = limit;
  return {
    ...others,
    capacity: partOf(capacity, share),
    refillAmount: rate(refillAmount),
    refillPeriodMs: refillPeriodMs * periods,
    ...(entries === undefined ? {} : { schedule: entries }),
  };
}

const AMOUNT_IN_PARTS_MAX = 1_000_000;

function ratesOf({ refillAmount, schedule = [] }: Limit): readonly number[] {
  return [refillAmount, ...schedule.map((entry) => entry.refillAmount ?? 0)];
}

/** Rounded down. 0.29 of 100 are 29: that 0.29 has no exact double must not take one away. */
function partOf(amount: number, share: number): number {
  return Math.min(amount, Math.floor(amount * share * (1 + 2 ** -50)));
}
