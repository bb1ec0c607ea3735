import { nearestName } from "../names/known-names.ts";
import type { CronCheck, CronUse } from "./schedule.ts";

/** A usual reset by its name. It happens at the full hour, or at 00:00 of the time zone; a week begins on Monday. */
export type ResetName = "hourly" | "daily" | "weekly" | "monthly" | "yearly";

/** Names of the usual resets and their crons. */
export const RESETS: readonly (readonly [name: ResetName, cron: string])[] = [
  ["hourly", "0 * * * *"],
  ["daily", "0 0 * * *"],
  ["weekly", "0 0 * * 1"],
  ["monthly", "0 0 1 * *"],
  ["yearly", "0 0 1 1 *"],
];

/** The cron of a reset that is called by its name; any other text as it is. */
export function cronOfReset(text: string): string {
  return RESETS.find(([name]) => name === text.trim())?.[1] ?? text;
}

/** What is wrong with a cron, or with the name that stands in its place; undefined: nothing. */
export function cronProblem(
  { cron, tz }: { readonly cron: string; readonly tz: string },
  use: CronUse,
  calendar: CronCheck,
): string | undefined {
  // One word is meant as a name: to hear of five fields would lead astray.
  if (use === "reset" && /^@?[A-Za-z]+$/.test(cron.trim())) {
    const names = RESETS.map(([name]) => name);
    const near = nearestName(cron.trim().replace("@", ""), names);
    const hint = near === undefined ? "give one of these" : `did you mean "${near}"`;
    return `Reset "${cron}" is neither a cron nor one of ${names.join(", ")}; ${hint}${near === undefined ? "." : "?"}`;
  }
  return calendar.problemOf(cron, tz, use);
}
