import type { LimitKind } from "../domain/limits/limit-kind.ts";
import { RESETS, type ResetName } from "../domain/limits/reset-names.ts";
import type { Limit } from "./shapes.ts";
import { durationWords, rateWords, tokensWords, whole } from "./words.ts";

export type Kind = LimitKind;

/** The reset of a calendar quota: the name of a usual cron, or a cron of its own. */
export type ResetChoice = ResetName | "cron";

/** The fields of the form that only limits of one kind have. */
export interface KindDraft {
  readonly amount: string;
  /** Seconds. */
  readonly period: string;
  readonly reset: ResetChoice;
  /** Used if `reset` is `"cron"`. */
  readonly cron: string;
  readonly tz: string;
  /** Seconds. */
  readonly after: string;
  /** Seconds. */
  readonly hold: string;
}

/** A field of text of the form. */
export interface TextField<Name extends string> {
  readonly field: Name;
  readonly label: string;
  readonly placeholder?: string;
  readonly title?: string;
  /** Takes a number in any spelling. */
  readonly isNumber?: true;
}

interface KindForm {
  /** The name of the kind in the choice of kinds. */
  readonly choice: string;
  readonly name: string;
  /** The field that makes a limit one of this kind; absent for the kind without one. */
  readonly own?: keyof Limit;
  readonly capacityLabel?: string;
  readonly fields: readonly TextField<Exclude<keyof KindDraft, "reset">>[];
  draftOf(limit: Limit): Partial<KindDraft>;
  /** `number` reads a text, or throws an error that names it. A kind that does not drip keeps the refill of 0 a second. */
  termsOf(draft: KindDraft, number: (what: string, text: string) => number): Partial<Limit>;
  /** Says how such a limit fills up again. */
  words(limit: Limit): string;
}

/** The kinds, in the order in which they are chosen from. */
export const KINDS: Readonly<Record<Kind, KindForm>> = {
  drip: {
    ...{ choice: "Refills", name: "refills" },
    fields: [
      { field: "amount", label: "Refill amount", isNumber: true },
      { field: "period", label: "Period, seconds", isNumber: true },
    ],
    draftOf: ({ name, refillAmount, refillPeriodMs }) => ({
      amount: tokensWords(name, refillAmount),
      period: seconds(refillPeriodMs),
    }),
    termsOf: ({ amount, period }, number) => ({
      refillAmount: number("the amount", amount),
      refillPeriodMs: number("the period", period) * 1000,
    }),
    words: ({ name, refillAmount, refillPeriodMs }) => `refills ${rateWords(name, refillAmount, refillPeriodMs)}`,
  },
  calendar: {
    ...{ choice: "Quota: calendar", name: "calendar quota", own: "reset" },
    fields: [
      { field: "cron", label: "At (cron)" },
      { field: "tz", label: "Time zone", placeholder: "UTC" },
    ],
    draftOf: ({ reset }) =>
      reset === undefined ? {} : { reset: usualName(reset.cron) ?? "cron", cron: reset.cron, tz: reset.tz ?? "" },
    termsOf: (draft) => ({ reset: { cron: cronOf(draft), ...zoneIn(draft.tz) } }),
    words: ({ reset: { cron, tz = "UTC" } = { cron: "" } }) => `full again ${usualName(cron) ?? `at ${cron}`} (${tz})`,
  },
  session: {
    ...{ choice: "Quota: session", name: "session quota", own: "resetAfterMs" },
    fields: [{ field: "after", label: "Seconds after first use", isNumber: true }],
    draftOf: ({ resetAfterMs = 0 }) => ({ after: seconds(resetAfterMs) }),
    termsOf: ({ after }, number) => ({ resetAfterMs: number("the time after first use", after) * 1000 }),
    words: ({ resetAfterMs = 0 }) => `full again ${durationWords(resetAfterMs)} after first use`,
  },
  concurrent: {
    ...{ choice: "At once", name: "at once", own: "holdMs", capacityLabel: "At most, at once" },
    fields: [{ field: "hold", label: "Held for at most, seconds", isNumber: true }],
    draftOf: ({ holdMs = 0 }) => ({ hold: seconds(holdMs) }),
    termsOf: ({ hold }, number) => ({ holdMs: number("the hold", hold) * 1000 }),
    words: ({ holdMs = 0 }) => `at once, each held for at most ${durationWords(holdMs)}`,
  },
};

export const KIND_NAMES = Object.keys(KINDS) as readonly Kind[];

export function kindOf(limit: Limit): Kind {
  const isOf = ({ own }: KindForm) => own !== undefined && limit[own] !== undefined;
  return KIND_NAMES.find((kind) => isOf(KINDS[kind])) ?? "drip";
}

/** Says how a limit fills up again. */
export function refillWords(limit: Limit): string {
  return KINDS[kindOf(limit)].words(limit);
}

const MARKS = {
  schedule: ({ schedule = [] }: Limit) => (schedule.length > 0 ? `${schedule.length} in its schedule` : undefined),
  counts: ({ counts }: Limit) => counts && `counts ${counts}`,
  soft: ({ soft }: Limit) => (soft ? "soft" : undefined),
  shadow: ({ shadow }: Limit) => (shadow ? "shadow" : undefined),
  notifyAt: ({ notifyAt }: Limit) => notifyAt && `tells ${notifyAt.join(", ")} %`,
};

/** A limit in words: its capacity, its refill, and those of `fields` that it has. */
export function limitWords(limit: Limit, fields: readonly (keyof typeof MARKS)[]): string {
  const said = [
    tokensWords(limit.name, limit.capacity),
    refillWords(limit),
    ...fields.map((field) => MARKS[field](limit)),
  ];
  return said.filter((each) => each !== undefined).join(", ");
}

/** The cron of a calendar quota. */
export function cronOf({ reset, cron }: Pick<KindDraft, "reset" | "cron">): string {
  return RESETS.find(([name]) => name === reset)?.[1] ?? cron.trim();
}

function usualName(cron: string): ResetName | undefined {
  return RESETS.find(([, usual]) => usual === cron)?.[0];
}

export function zoneIn(tz: string): { readonly tz?: string } {
  return tz.trim() === "" ? {} : { tz: tz.trim() };
}

export function seconds(ms: number): string {
  return whole(ms / 1000);
}
