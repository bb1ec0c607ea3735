import { ValidationError } from "../names/errors.ts";
import { given } from "../names/given.ts";
import { KnownNames } from "../names/known-names.ts";
import { checkMeasure, shown } from "../names/names.ts";
import type { CommonFields, FieldCheck } from "./limit-field.ts";
import { checkNotifyAt, TOKENS_MAX, wholeSecondsMs, wholeTokens, wrongLimit } from "./limit-numbers.ts";
import { cronOfReset, cronProblem } from "./reset-names.ts";
import { type CronCheck, type CronUse, perMilleOf, type Reset, type ScheduleEntry, TZ_DEFAULT } from "./schedule.ts";

/** More windows than this on one limit are surely a mistake, and would not fit the stored item. */
const ENTRIES_MAX = 16;
const SCALE_MAX = 1_000_000;

/** The part of a limit that stands whatever the window. */
interface Base {
  readonly name: string;
  readonly capacity: number;
  readonly refillAmount: number;
  /** The most that it holds in any window. */
  readonly most: number;
}

const RESET = new KnownNames<Reset>({ cron: true, tz: true });
const ENTRY = new KnownNames<ScheduleEntry>({
  ...{ cron: true, tz: true, scale: true },
  ...{ capacity: true, refillAmount: true, refillPeriodMs: true },
});

/** A reset as the value of a limit has it, with its cron, also where it was given by its name. */
export function checkReset(name: string, given: Reset | string, calendar: CronCheck): Reset {
  // A cron alone stays refused: whoever gives one has to think of its zone.
  const reset = typeof given === "string" && !/\s/.test(given.trim()) ? { cron: given } : given;
  if (typeof reset !== "object" || reset === null) {
    throw wrongLimit(
      name,
      `reset is ${shown(given)}; give { cron, tz? }, or a name: hourly, daily, weekly, monthly, yearly`,
    );
  }
  RESET.check(reset, `Limit "${name}": reset`);
  const { cron, tz } = checkCron(name, reset, "reset", calendar);
  return Object.freeze({ cron, tz });
}

/** The windows of a limit, each checked against its base. `resets`: it is no limit that drips, and no window can make it drip. */
function checkSchedule(
  base: Base,
  given: readonly ScheduleEntry[],
  resets: boolean,
  calendar: CronCheck,
): readonly ScheduleEntry[] {
  const { name } = base;
  if (!Array.isArray(given)) {
    throw wrongLimit(name, `schedule is ${shown(given)}; give a list of windows`);
  }
  if (given.length > ENTRIES_MAX) {
    throw wrongLimit(name, `the schedule has ${given.length} windows; at most ${ENTRIES_MAX} are supported`);
  }
  return Object.freeze(given.map((entry) => checkEntry(base, entry, resets, calendar)));
}

function checkEntry(
  { name, capacity, refillAmount, most }: Base,
  entry: ScheduleEntry,
  resets: boolean,
  calendar: CronCheck,
): ScheduleEntry {
  if (typeof entry !== "object" || entry === null) {
    throw wrongLimit(name, `${shown(entry)} is not a window; give { cron, scale }`);
  }
  ENTRY.check(entry, `Limit "${name}": a window of the schedule`);
  const { cron, tz } = checkCron(name, entry, "window", calendar);
  const tokens = (field: "capacity" | "refillAmount") =>
    entry[field] === undefined ? undefined : wholeTokens(name, `${field} in a window`, entry[field], 1);
  const absolutes = given({
    capacity: tokens("capacity"),
    refillAmount: tokens("refillAmount"),
    refillPeriodMs:
      entry.refillPeriodMs === undefined
        ? undefined
        : wholeSecondsMs(name, "refillPeriodMs in a window", entry.refillPeriodMs),
  });
  const changes = Object.keys(absolutes).length > 0;
  if ((entry.scale === undefined) === !changes) {
    throw wrongLimit(
      name,
      `the window "${cron}" has ${changes ? "a scale and absolute values" : "nothing to change"}; give either scale, or at least one of capacity, refillAmount, refillPeriodMs`,
    );
  }
  if (resets && (absolutes.refillAmount !== undefined || absolutes.refillPeriodMs !== undefined)) {
    throw wrongLimit(
      name,
      `the window "${cron}" would make a ${most === TOKENS_MAX ? "quota" : "concurrent limit"} refill; change only its capacity or scale`,
    );
  }
  if (entry.scale !== undefined) {
    const scale = checkScale({ name, cron, most }, entry.scale, Math.max(capacity, refillAmount));
    return Object.freeze({ cron, tz, scale });
  }
  if ((absolutes.capacity ?? 0) > most) {
    throw wrongLimit(
      name,
      `capacity in the window "${cron}" is ${absolutes.capacity}; such a limit has at most ${most}`,
    );
  }
  return Object.freeze({ cron, tz, ...absolutes });
}

function checkScale(
  { name, cron, most }: { readonly name: string; readonly cron: string; readonly most: number },
  scale: unknown,
  scaled: number,
): number {
  const whole = typeof scale === "number" && scale > 0 && scale <= SCALE_MAX && perMilleOf(scale) / 1000 === scale;
  if (!whole) {
    throw wrongLimit(
      name,
      `the window "${cron}" has scale ${shown(scale)}; give a number above 0 and up to ${SCALE_MAX} with at most three decimal places`,
    );
  }
  if (scaled * scale > most) {
    throw wrongLimit(
      name,
      `scale ${scale} in the window "${cron}" gives more than ${most} tokens; choose a smaller one`,
    );
  }
  return scale;
}

/** Whether a stored value has a cron and a zone that the calendar can work with. */
export function isSoundCron(value: unknown, use: CronUse, calendar: CronCheck): boolean {
  if (typeof value !== "object" || value === null) return false;
  const { cron, tz = TZ_DEFAULT } = value as { cron?: unknown; tz?: unknown };
  return typeof cron === "string" && typeof tz === "string" && calendar.problemOf(cron, tz, use) === undefined;
}

function checkCron(
  name: string,
  given: { readonly cron: string; readonly tz?: string },
  use: "window" | "reset",
  calendar: CronCheck,
): { readonly cron: string; readonly tz: string } {
  const { tz = TZ_DEFAULT } = given;
  const cron = use === "reset" && typeof given.cron === "string" ? cronOfReset(given.cron) : given.cron;
  if (typeof cron !== "string" || typeof tz !== "string") {
    throw new ValidationError(
      "cron_invalid",
      `Limit "${name}": the ${use} has cron ${shown(cron)} and tz ${shown(tz)}; give strings such as "0 0 1 * *" and "UTC".`,
    );
  }
  const problem = cronProblem({ cron, tz }, use, calendar);
  if (problem !== undefined) throw new ValidationError("cron_invalid", `Limit "${name}": ${problem}`);
  return { cron: cron.trim().split(/\s+/).join(" "), tz };
}

/** The fields that any limit may have, in the order in which the value of a limit has them, and how each is checked. */
export const COMMON_CHECKS: { readonly [Field in keyof CommonFields]-?: FieldCheck<CommonFields[Field]> } = {
  counts: (counts, { name }) => {
    const measure = checkMeasure(counts as string);
    return measure === name ? undefined : measure;
  },
  soft: (soft, { name }) => flag(name, "soft", soft),
  shadow: (shadow, { name, isSoft }) => {
    const isShadow = flag(name, "shadow", shadow);
    if (isShadow && isSoft) {
      throw invalidLimit(
        name,
        "it is soft and shadow; soft goes into debt by what does not fit, shadow leaves it out: give one of them",
      );
    }
    return isShadow;
  },
  schedule: (given, limit) => {
    const schedule = checkSchedule(limit, given as readonly ScheduleEntry[], limit.resets, limit.calendar);
    return schedule.length === 0 ? undefined : schedule;
  },
  notifyAt: (notifyAt, { name }) => checkNotifyAt(name, notifyAt),
};

/** A flag as a limit has it: `true`, or nothing. */
export function flag(name: string, field: string, value: unknown): true | undefined {
  if (typeof value === "boolean") return value ? true : undefined;
  throw invalidLimit(name, `${field} is ${shown(value)}; give true or false`);
}

export function invalidLimit(name: unknown, what: string): ValidationError {
  return new ValidationError("limit_invalid", `Limit ${shown(name)}: ${what}.`);
}
