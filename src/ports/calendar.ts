// The nouns that need a calendar say what they need of it; an adapter provides it.
export type { Calendar, CronUse } from "../domain/calendar.ts";
