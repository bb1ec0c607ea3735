import type { KindFields, KindStored } from "./kinds/kind.ts";
import { STORED } from "./kinds/table.ts";
import { isSoundCron } from "./limit-checks.ts";
import type { CommonFields, FieldStored } from "./limit-field.ts";
import { isNotifyAt, notifyAtOf } from "./limit-numbers.ts";
import { TZ_DEFAULT } from "./schedule.ts";
import { decodeSchedule, encodeSchedule } from "./schedule-grammar.ts";

type LimitFields = CommonFields & KindFields;

/** The last parts of the attributes of fields, as in the table shared with the original. */
export type FieldAttribute = "ct" | "soft" | "sh" | "sched" | "na" | KindStored["attribute"];

/** The fields that any limit may have, as they are stored. */
export const COMMON_STORED: readonly FieldStored<LimitFields, FieldAttribute>[] = [
  {
    ...({ field: "counts", attribute: "ct", configured: "counts", type: "string" } as const),
    encoded: ({ counts }) => counts,
    decoded: (counts) => ({ kind: "decoded", value: { counts: String(counts) } }),
    isSound: ({ counts }) => typeof counts === "string",
  },
  {
    ...({ field: "soft", attribute: "soft", type: "flag" } as const),
    encoded: ({ soft }) => soft,
    decoded: () => ({ kind: "decoded", value: { soft: true } }),
  },
  {
    ...({ field: "shadow", attribute: "sh", type: "flag" } as const),
    encoded: ({ shadow }) => shadow,
    decoded: () => ({ kind: "decoded", value: { shadow: true } }),
  },
  {
    ...({ field: "schedule", attribute: "sched", type: "string", common: "sched" } as const),
    encoded: ({ schedule }) => schedule && encodeSchedule(schedule).compact,
    decoded: (stored, { zone }) => {
      const windows = decodeSchedule(String(stored), zone);
      return windows.kind === "decoded" ? { kind: "decoded", value: { schedule: windows.value } } : windows;
    },
    problem: ({ schedule = [] }, calendar) =>
      schedule.map(({ cron, tz = TZ_DEFAULT }) => calendar.problemOf(cron, tz, "window")).find((each) => each),
    isSound: ({ schedule }, calendar) =>
      Array.isArray(schedule) && schedule.every((window) => isSoundCron(window, "window", calendar)),
  },
  {
    ...({ field: "notifyAt", attribute: "na", type: "string" } as const),
    encoded: ({ notifyAt }) => notifyAt?.join(","),
    decoded: (stored, { attribute }) => {
      const notifyAt = notifyAtOf(String(stored), ",");
      return notifyAt === undefined
        ? { kind: "unreadable", problem: `"${attribute}" is "${stored}"` }
        : { kind: "decoded", value: { notifyAt } };
    },
    wants: "rising percentages",
    isSound: ({ notifyAt }) => isNotifyAt(notifyAt),
  },
];

/** All fields of a limit but its name and its numbers. */
export const FIELDS_STORED: readonly FieldStored<LimitFields, FieldAttribute>[] = [...COMMON_STORED, ...STORED];
