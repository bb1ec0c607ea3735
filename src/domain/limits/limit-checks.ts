import { ValidationError } from "../names/errors.ts";
import { checkMeasure, shown } from "../names/names.ts";
import type { CommonFields, FieldCheck } from "./limit-field.ts";
import { checkNotifyAt } from "./limit-numbers.ts";
import type { ScheduleEntry } from "./schedule.ts";
import { checkSchedule } from "./schedule-check.ts";

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

function flag(name: string, field: string, value: unknown): true | undefined {
  if (typeof value === "boolean") return value ? true : undefined;
  throw invalidLimit(name, `${field} is ${shown(value)}; give true or false`);
}

export function invalidLimit(name: unknown, what: string): ValidationError {
  return new ValidationError("limit_invalid", `Limit ${shown(name)}: ${what}.`);
}
