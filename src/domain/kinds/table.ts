import type { LimitKind } from "../limit-kind.ts";
import { CALENDAR_FORM, CALENDAR_RULES, CALENDAR_STORED, CALENDAR_TEXT } from "./calendar.ts";
import { CONCURRENT_FORM, CONCURRENT_RULES, CONCURRENT_STORED } from "./concurrent.ts";
import { DRIP_RULES } from "./drip.ts";
import type { KindFields, KindForm, KindRules, KindStored, KindText } from "./kind.ts";
import { SESSION_FORM, SESSION_RULES, SESSION_STORED, SESSION_TEXT } from "./session.ts";

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

/** What time does to a limit. */
export function rulesOf(limit: KindFields): KindRules {
  return RULES[kindOf(limit)];
}

/** Kinds that have a field of their own, in the order in which texts have the fields: one that is new stands last. */
export const FORMS: readonly KindForm[] = [CALENDAR_FORM, SESSION_FORM, CONCURRENT_FORM];

/** The same kinds, as they are stored. */
export const STORED: readonly KindStored[] = [CALENDAR_STORED, SESSION_STORED, CONCURRENT_STORED];

/** Those of these kinds that people write with a word. */
export const TEXTS: readonly KindText[] = [CALENDAR_TEXT, SESSION_TEXT];

/** How a limit is written down, but for what all limits have; undefined: it has nothing else. */
export function formOf(limit: KindFields): KindForm | undefined {
  return FORMS.find(({ field }) => limit[field] !== undefined);
}

/** How a limit is stored, but for what all limits have; undefined: it has nothing else. */
export function storedOf(limit: KindFields): KindStored | undefined {
  return STORED.find(({ field }) => limit[field] !== undefined);
}
