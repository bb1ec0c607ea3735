import { dripMs } from "../../../bucket/level.ts";
import type { FieldJson } from "../limit-field.ts";
import type { LimitKind } from "../limit-kind.ts";
import { CALENDAR_FORM, CALENDAR_JSON, CALENDAR_RULES, CALENDAR_STORED, CALENDAR_TEXT } from "./calendar.ts";
import { CONCURRENT_FORM, CONCURRENT_JSON, CONCURRENT_RULES, CONCURRENT_STORED } from "./concurrent.ts";
import type { KindFields, KindForm, KindRules, KindStored, KindText } from "./kind.ts";
import { SESSION_FORM, SESSION_JSON, SESSION_RULES, SESSION_STORED, SESSION_TEXT } from "./session.ts";

const NEVER_MS = Number.POSITIVE_INFINITY;

/** Rules of a limit that drips: `refillAmount` every `refillPeriodMs`, up to its capacity. It has no field of its own and no periods. */
const DRIP_RULES: KindRules = {
  refillsSteadily: true,
  hasPeriods: false,
  opensWindow: false,
  isWhole: false,
  holdsSlots: false,
  marks: undefined,
  isClosed: () => false,
  endMs: () => NEVER_MS,
  windowEndMs: () => NEVER_MS,
  filledMs: () => -NEVER_MS,
  lengthMs: (_, terms) => dripMs(terms.capacityMilli, terms),
  isSameRule: () => true,
  pin: () => ({ reset: undefined, untilMs: NEVER_MS }),
  isOf: () => true,
};

const RULES: Readonly<Record<LimitKind, KindRules>> = {
  drip: DRIP_RULES,
  calendar: CALENDAR_RULES,
  session: SESSION_RULES,
  concurrent: CONCURRENT_RULES,
};

export function kindOf(limit: KindFields): LimitKind {
  if (limit.reset !== undefined) return "calendar";
  if (limit.holdMs !== undefined) return "concurrent";
  return limit.resetAfterMs === undefined ? "drip" : "session";
}

/** The rules of time for a limit. */
export function rulesOf(limit: KindFields): KindRules {
  return RULES[kindOf(limit)];
}

/** The fields that make kinds, in the order in which texts have them: one that is new stands last. */
export const FORMS: { readonly [Field in keyof KindFields]-?: KindForm } = {
  reset: CALENDAR_FORM,
  resetAfterMs: SESSION_FORM,
  holdMs: CONCURRENT_FORM,
};

/** The stored forms of these fields. */
export const STORED: readonly KindStored[] = [CALENDAR_STORED, SESSION_STORED, CONCURRENT_STORED];

/** The texts of those fields that people write with a word. */
export const TEXTS: readonly KindText[] = [CALENDAR_TEXT, SESSION_TEXT];

/** These fields in documents. */
export const JSONS: { readonly [Field in keyof KindFields]-?: FieldJson } = {
  reset: CALENDAR_JSON,
  resetAfterMs: SESSION_JSON,
  holdMs: CONCURRENT_JSON,
};

/** The fields of kinds that a limit has: one, or none if it drips. */
export function ownFieldsOf(limit: KindFields): readonly (keyof KindFields)[] {
  return (Object.keys(FORMS) as (keyof KindFields)[]).filter((field) => limit[field] !== undefined);
}

/** The form of the field that only limits of its kind have; undefined: it drips. */
export function formOf(limit: KindFields): KindForm | undefined {
  for (const field in FORMS) {
    if (limit[field as keyof KindFields] !== undefined) return FORMS[field as keyof KindFields];
  }
  return undefined;
}

/** The stored form of what only limits of its kind have; undefined: it drips. */
export function storedOf(limit: KindFields): KindStored | undefined {
  return STORED.find(({ field }) => limit[field] !== undefined);
}
