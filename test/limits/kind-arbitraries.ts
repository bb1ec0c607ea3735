import { createCalendar } from "../../src/adapters/system/calendar.ts";
import { fullLimit, type LimitState } from "../../src/domain/bucket/limit-state.ts";
import { kindOf } from "../../src/domain/limits/kinds/table.ts";
import { type Limit, limitMakers } from "../../src/domain/limits/limit.ts";
import type { ScheduleEntry } from "../../src/domain/limits/schedule.ts";
import { fc } from "../properties.ts";

/** One for all properties: what it has worked out is remembered. */
export const calendar = createCalendar();
const Kinds = limitMakers(calendar);

/** With changes of the clock at midnight, by half an hour, in either half of the year, or none. */
const ZONES = [
  "UTC",
  "Europe/Berlin",
  "America/New_York",
  "Australia/Lord_Howe",
  "Africa/Cairo",
  "America/Havana",
  "America/Santiago",
  "Asia/Kolkata",
  "Pacific/Apia",
];

/** Windows that change at most some times a day, for stories of decades. */
export const COARSE_WINDOWS = [
  "* 9-17 * * 1-5",
  "* * * * 0,6",
  "* 0-5 1 * *",
  "30 2 * * *",
  "0 0 29 2 *",
  "* * 31 * *",
  "* 1 * 3,11 0",
];
/** Windows that change every few minutes, for stories of days. */
export const FINE_WINDOWS = ["*/2 * * * *", "0-29 * * * *", "*/7 3,4 * * *", "59 * * * *", "* * * * *", "* 2-3 * * *"];

const COARSE_RESETS = [
  "0 0 1 * *",
  "0 0 * * *",
  "0 0 31 * *",
  "0 0 29 2 *",
  "30 2 * * *",
  "* 9-17 * * 1-5",
  "0 0 * * 0",
];
const FINE_RESETS = ["0 * * * *", "*/10 * * * *", "30 1 * * *", "0 0 * * *", "15-20 2,3 * * *"];

const FROM_MS = Date.UTC(1990, 0, 1);
const UNTIL_MS = Date.UTC(2060, 0, 1);
export const anyInstant = fc.integer({ min: FROM_MS, max: UNTIL_MS });

export interface Numbers {
  readonly capacity: fc.Arbitrary<number>;
  readonly rate: fc.Arbitrary<number>;
  readonly periodMs: fc.Arbitrary<number>;
  readonly scale: fc.Arbitrary<number>;
}

/** Rates that divide into nothing evenly. */
export const ODD_NUMBERS: Numbers = {
  capacity: fc.integer({ min: 1, max: 5_000 }),
  rate: fc.integer({ min: 1, max: 300 }),
  periodMs: fc.constantFrom(1_000, 3_000, 7_000, 60_000, 3_600_000, 86_400_000),
  scale: fc.integer({ min: 1, max: 4_000 }).map((perMille) => perMille / 1000),
};

/** Rates of whole millitokens a millisecond, also when they are halved: there is nothing to round. */
export const EVEN_NUMBERS: Numbers = {
  capacity: fc.integer({ min: 1, max: 500_000 }).map((n) => 2 * n),
  rate: fc.integer({ min: 1, max: 10 }).map((n) => 2 * n),
  periodMs: fc.constantFrom(1_000),
  scale: fc.constantFrom(0.5, 1, 2, 3),
};

/** A limit of any kind, with up to three windows that share its time zone. */
export function anyLimit(grain: "coarse" | "fine", numbers: Numbers): fc.Arbitrary<Limit> {
  const windows = grain === "coarse" ? COARSE_WINDOWS : [...FINE_WINDOWS, ...COARSE_WINDOWS];
  const resets = grain === "coarse" ? COARSE_RESETS : [...FINE_RESETS, ...COARSE_RESETS];
  const sessionMs = fc.constantFrom(1_000, 90_000, 5_400_000, 18_000_000, 7 * 86_400_000);
  return fc
    .record({
      kind: fc.constantFrom("drip", "drip", "calendar", "session"),
      tz: fc.constantFrom(...ZONES),
      capacity: numbers.capacity,
      refillAmount: numbers.rate,
      refillPeriodMs: numbers.periodMs,
      reset: fc.constantFrom(...resets),
      resetAfterMs: sessionMs,
      windows: fc.array(anyWindow(windows, numbers), { maxLength: 3 }),
      soft: fc.integer({ min: 0, max: 5 }).map((n) => n === 0),
    })
    .map(({ kind, tz, capacity, refillAmount, refillPeriodMs, reset, resetAfterMs, windows: drawn, soft }) => {
      const schedule = drawn.map((entry) => ({ ...(kind === "drip" ? entry : ofQuota(entry)), tz }));
      const more = { schedule, soft };
      if (kind === "drip") return Kinds.custom("x", { capacity, refillAmount, refillPeriodMs, ...more });
      if (kind === "session") return Kinds.quota("x", capacity, { resetAfterMs, ...more });
      return Kinds.quota("x", capacity, { reset: { cron: reset, tz }, ...more });
    });
}

function anyWindow(crons: readonly string[], numbers: Numbers): fc.Arbitrary<ScheduleEntry> {
  const cron = fc.constantFrom(...crons);
  return fc.oneof(
    fc.record({ cron, scale: numbers.scale }),
    fc.record({ cron, capacity: numbers.capacity }),
    fc.record({ cron, capacity: numbers.capacity, refillAmount: numbers.rate }),
    fc.record({ cron, refillAmount: numbers.rate, refillPeriodMs: numbers.periodMs }),
  );
}

/** No window makes a quota drip. */
function ofQuota(entry: ScheduleEntry): ScheduleEntry {
  const { cron, scale, capacity } = entry;
  return scale === undefined ? { cron, capacity: capacity ?? 7 } : { cron, scale };
}

/** A limit as it may stand on a bucket at `atMs`: part of it spent or more than that, something bought, a session open. */
export function anyState(limit: Limit, atMs: number, fraction: boolean): fc.Arbitrary<LimitState> {
  const full = fullLimit(limit, true, atMs, calendar);
  const kind = kindOf(limit);
  return fc
    .record({
      // Thousandths of the capacity; below zero in debt.
      parts: fc.oneof(fc.integer({ min: -500, max: 1_000 }), fc.constant(0), fc.constant(1_000)),
      remainder: fraction ? fc.nat(full.terms.refillPeriodMs - 1) : fc.constant(0),
      topUp: fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 5_000 })),
      openSinceMs: fc.nat((limit.resetAfterMs ?? 1) - 1),
      closed: fc.boolean(),
    })
    .map(({ parts, remainder, topUp, openSinceMs, closed }) => {
      if (kind === "session" && closed) return full;
      const topUpMilli = kind === "drip" ? 0 : topUp * 1000;
      const capacityMilli = full.terms.capacityMilli + topUpMilli;
      const tokensMilli = Math.floor((capacityMilli * parts) / 1000);
      const windowStartMs = kind === "session" ? atMs - openSinceMs : undefined;
      return {
        ...full,
        terms: { ...full.terms, capacityMilli },
        tokensMilli,
        remainder: kind === "drip" ? remainder : 0,
        quota: full.quota && { windowStartMs, topUpMilli, resets: 0 },
      };
    });
}
