import { checkReset, isSoundCron } from "../limit-checks.ts";
import type { FieldJson } from "../limit-field.ts";
import { RESETS } from "../reset-names.ts";
import { type Calendar, type Reset, TZ_DEFAULT } from "../schedule.ts";
import { canonicalFields, decodeReset, encodeReset } from "../schedule-grammar.ts";
import { type KindFields, type KindForm, type KindRules, type KindStored, type KindText, NO_MARKS } from "./kind.ts";

// A quota that is full again by the calendar: at every reset of its cron, whenever it was used.

const NEVER_MS = Number.POSITIVE_INFINITY;

export const CALENDAR_RULES: KindRules = {
  refillsSteadily: false,
  hasPeriods: true,
  opensWindow: false,
  isWhole: false,
  holdsSlots: false,
  marks: NO_MARKS,
  isClosed: () => false,
  endMs: ({ reset }, _, atMs, calendar) => nextReset(reset, atMs, calendar),
  windowEndMs: () => NEVER_MS,
  filledMs: ({ reset }, _, atMs, calendar) =>
    reset === undefined ? -NEVER_MS : calendar.previousReset(reset.cron, reset.tz ?? TZ_DEFAULT, atMs),
  lengthMs: () => NEVER_MS,
  isSameRule: (a, b) => sameReset(a.reset, b.reset),
  pin: ({ reset }, atMs, calendar) => ({ reset, untilMs: nextReset(reset, atMs, calendar) }),
  isOf: ({ reset }, _, pin, nowMs) => sameReset(pin.reset, reset) && nowMs < pin.untilMs,
};

export const CALENDAR_FORM: KindForm = {
  checked: (name, reset, calendar) => checkReset(name, reset as Reset | string, calendar),
  zone: ({ reset }) => reset?.tz ?? TZ_DEFAULT,
};

export const CALENDAR_STORED: KindStored = {
  field: "reset",
  attribute: "rsched",
  type: "string",
  common: "rsched",
  prefix: "l",
  encoded: ({ reset }) => reset && encodeReset(reset.cron),
  decoded: (stored, { zone }) => {
    const cron = decodeReset(String(stored));
    return cron.kind === "decoded" ? { kind: "decoded", value: { reset: { cron: cron.value, tz: zone } } } : cron;
  },
  problem: ({ reset }, calendar) => reset && calendar.problemOf(reset.cron, reset.tz ?? TZ_DEFAULT, "reset"),
  isSound: ({ reset }, calendar) => isSoundCron(reset, "reset", calendar),
};

export const CALENDAR_TEXT: KindText = {
  word: "reset",
  hasZone: true,
  read: (cron, tz) => ({ reset: { cron, tz } }),
  written: ({ reset }) => reset && (RESETS.find(([, cron]) => cron === reset.cron)?.[0] ?? reset.cron),
};

export const CALENDAR_JSON: FieldJson = {
  service: {
    anyOf: [
      { type: "object", properties: { cron: { type: "string" }, tz: { type: "string" } }, required: ["cron"] },
      { type: "string" },
    ],
    description: 'Of a calendar quota: a cron and its zone, or "hourly", "daily", "weekly", "monthly", "yearly" (UTC).',
  },
  manifest: {
    key: "reset_schedule",
    schema: { type: "array", items: { $ref: "#/definitions/reset" }, minItems: 1, maxItems: 1 },
  },
};

function nextReset(reset: KindFields["reset"], atMs: number, calendar: Calendar): number {
  return reset === undefined ? NEVER_MS : calendar.nextReset(reset.cron, reset.tz ?? TZ_DEFAULT, atMs);
}

/** Whether two resets are the same, however they are written: Sunday is 0 and 7, and no zone is UTC. */
export function sameReset(a: Reset | undefined, b: Reset | undefined): boolean {
  if (a === b) return true;
  if (a === undefined || b === undefined || (a.tz ?? TZ_DEFAULT) !== (b.tz ?? TZ_DEFAULT)) return false;
  return a.cron === b.cron || canonicalFields(a.cron).join(" ") === canonicalFields(b.cron).join(" ");
}
