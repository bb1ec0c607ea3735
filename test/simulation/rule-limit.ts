import { type Limit, limitMakers } from "../../src/domain/limits/limit.ts";
import { calendar } from "./calendar.ts";
import type { Rule } from "./promised-limit.ts";

const make = limitMakers(calendar);

/** The limit that is configured for a rule of the promise. */
export function limitOf({ name, capacity, refill, periodMs, everyMs, sessionMs }: Rule): Limit {
  if (sessionMs !== undefined) return make.quota(name, capacity, { resetAfterMs: sessionMs });
  if (everyMs === undefined) return make.custom(name, { capacity, refillAmount: refill, refillPeriodMs: periodMs });
  const cron = CRONS[everyMs / 60_000];
  if (cron === undefined) throw new RangeError(`There is no cron here for every ${everyMs} ms.`);
  return make.quota(name, capacity, { reset: { cron } });
}

/** By the minutes that a period is long. */
const CRONS: Readonly<Record<number, string>> = { 15: "*/15 * * * *", 60: "0 * * * *", 1440: "0 0 * * *" };
