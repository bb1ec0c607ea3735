import { createCalendar } from "../adapters/system/calendar.ts";
import { type LimitMakers, limitMakers, type Limit as PlainLimit } from "../domain/limits/limit.ts";

/** The calendar of this process: crons are read here, zones are the platform's. */
export const calendar = createCalendar();

/**
 * A limit, and the makers of limits.
 *
 * ```ts
 * Limit.perMinute("rpm", 100);
 * Limit.perMinute("tpm", 10_000, { burst: 20_000 });
 * Limit.quota("month", 1_000_000, { reset: "monthly" });
 * ```
 */
export type Limit<Name extends string = string> = PlainLimit<Name>;

export const Limit: LimitMakers = limitMakers(calendar);
