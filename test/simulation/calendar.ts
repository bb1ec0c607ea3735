import { createCalendar } from "../../src/adapters/system/calendar.ts";

/** One for all seeds: what it has worked out is remembered. */
export const calendar = createCalendar();
