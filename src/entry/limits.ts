import { createCalendar } from "../adapters/system/calendar.ts";
import { type LimitMakers, limitMakers, type Limit as PlainLimit } from "../domain/limit.ts";

/** The calendar of this process: crons are read here, zones are the platform's. */
export const calendar = createCalendar();

export type Limit<Name extends string = string> = PlainLimit<Name>;

/** Makers of limits: `Limit.perMinute("rpm", 100)`, `Limit.quota("month", 1_000_000, { reset: { cron: "0 0 1 * *" } })`. */
export const Limit: LimitMakers = limitMakers(calendar);
