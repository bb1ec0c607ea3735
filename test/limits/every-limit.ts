import { createCalendar } from "../../src/adapters/system/calendar.ts";
import { HOLD_MAX_MS } from "../../src/domain/limits/kinds/concurrent.ts";
import { type Limit, limitMakers, PERIOD_MAX_MS, TOKENS_MAX } from "../../src/domain/limits/limit.ts";
import type { ScheduleEntry } from "../../src/domain/limits/schedule.ts";
import { fc } from "../properties.ts";

/** One for all properties: what it has worked out is remembered. */
export const calendar = createCalendar();
const make = limitMakers(calendar);

const crons = fc.constantFrom("* 9-17 * * 1-5", "0,30 1-2 * * *", "* * 1 * *", "*/5 * * * 7", "0 0 1 * *", "0 0 * * *");
const tokens = fc.oneof(
  fc.constantFrom(1, 999, 10_000, 1_000_000, TOKENS_MAX),
  fc.integer({ min: 1, max: 9_000_000_000 }),
);
const periods = fc.oneof(
  fc.constantFrom(1_000, 60_000, 86_400_000, PERIOD_MAX_MS),
  fc.integer({ min: 1, max: 1_000_000 }).map((seconds) => seconds * 1000),
);
const scales = fc.integer({ min: 1, max: 1_000 }).map((perMille) => perMille / 1000);
const percents = fc.uniqueArray(fc.integer({ min: 1, max: 100 }), { minLength: 1, maxLength: 4 });

/** Every field that a limit can have, but its name: what is left out is absent. A new field does not compile without a row. */
type Drawn = { readonly [Field in keyof Required<Omit<Limit, "name">>]: fc.Arbitrary<Required<Limit>[Field]> };

function drawn(tz: string): Drawn {
  const window = fc
    .tuple(
      crons,
      scales,
      fc.record({ capacity: tokens, refillAmount: tokens, refillPeriodMs: periods }, { requiredKeys: [] }),
    )
    .map(([cron, scale, terms]): ScheduleEntry => {
      return Object.keys(terms).length === 0 ? { cron, tz, scale } : { cron, tz, ...terms };
    });
  return {
    ...{ capacity: tokens, refillAmount: tokens, refillPeriodMs: periods },
    counts: fc.constantFrom("requests", "tz", "when", "soft"),
    ...{ soft: fc.constant(true), shadow: fc.constant(true) },
    schedule: fc.array(window, { minLength: 1, maxLength: 3 }),
    notifyAt: percents.map((all) => all.toSorted((a, b) => a - b)),
    reset: crons.map((cron) => ({ cron, tz })),
    resetAfterMs: periods,
    holdMs: fc.integer({ min: 1, max: HOLD_MAX_MS / 1000 }).map((seconds) => seconds * 1000),
  };
}

/** Any limit that can exist, of every kind and with every field. */
export function everyLimit(name: string, tz: string): fc.Arbitrary<Limit> {
  const { capacity, refillAmount, refillPeriodMs, reset, resetAfterMs, holdMs, soft, shadow, ...rest } = drawn(tz);
  const always = { capacity, refillAmount, refillPeriodMs };
  const kinds = { reset, resetAfterMs, holdMs };
  return fc
    .record({
      all: fc.record(always),
      more: fc.record(rest, { requiredKeys: [] }),
      kind: fc.record(kinds),
      which: fc.constantFrom("drip", ...(Object.keys(kinds) as (keyof typeof kinds)[])),
      mode: fc.oneof(
        fc.constant({}),
        soft.map((given) => ({ soft: given })),
        shadow.map((given) => ({ shadow: given })),
      ),
    })
    .map(({ all, more, kind, which, mode }) => {
      const options = { ...more, ...mode };
      if (which === "drip") return make.custom(name, { ...all, ...options });
      const most = which === "holdMs" ? 1_000_000 : TOKENS_MAX;
      const schedule = options.schedule?.map(({ cron, scale, capacity: inWindow = 7 }) =>
        scale === undefined ? { cron, tz, capacity: Math.min(most, inWindow) } : { cron, tz, scale },
      );
      const ofQuota = { ...options, ...(schedule && { schedule }) };
      if (which === "holdMs") {
        return make.concurrent(name, Math.min(most, all.capacity), { holdMs: kind.holdMs, ...ofQuota });
      }
      return make.quota(name, all.capacity, { [which]: kind[which], ...ofQuota } as never);
    });
}

/** Limits that can stand together on one bucket. */
export const everySet: fc.Arbitrary<readonly Limit[]> = fc
  .constantFrom("UTC", "Europe/Berlin")
  .chain((tz) => fc.tuple(everyLimit("rpm", tz), everyLimit("usd", tz)))
  .chain((both) => fc.subarray([...both], { minLength: 1 }));
