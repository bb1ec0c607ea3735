import type { Terms } from "../../../bucket/balance.ts";
import type { FieldStored, FieldText } from "../limit-field.ts";
import type { Calendar, CronCheck, Reset } from "../schedule.ts";

/** The fields of a limit that make it one of a kind. At most one of them is there; without any, the limit drips. */
export interface KindFields {
  /** Of a calendar quota: when it is full again. */
  readonly reset?: Reset;
  /** Of a session quota: how long after its first use it is full again, in ms. */
  readonly resetAfterMs?: number;
  /** Of a limit on how many are at once: how long a slot is held unless it is given back or renewed, in ms. */
  readonly holdMs?: number;
}

/** The memory of a quota besides its balance. */
export interface QuotaMarks {
  /** The start of the window of a session quota; undefined while it is closed, and then the quota is full. */
  readonly windowStartMs: number | undefined;
  /** The tokens bought on top for this period; they are part of the capacity until the next reset. */
  readonly topUpMilli: number;
  /**
   * Tells beginnings within one period apart, so that a lease from before one gives nothing back after it: how often an
   * operator began anew by hand, counted on from the instant at which the bucket was made or the quota got another rule.
   */
  readonly resets: number;
  /**
   * The capacity from which what was used is counted: used = this + topped up - left. Absent: the one in force. They differ where a
   * window of a schedule opened or ended within the period; what a window cut off counts as used.
   */
  readonly countedFromMilli?: number;
}

/** The marks of a quota that was never used. */
export const NO_MARKS: QuotaMarks = { windowStartMs: undefined, topUpMilli: 0, resets: 0 };

/** The period of a quota in which something was taken, or the slice in which slots are held: it is given back into that one, never into the next. */
export type PeriodPin = QuotaPin | SlotPin;

/** The slice in which slots of a concurrent limit are held. */
export interface SlotPin {
  readonly limit: string;
  readonly place: number;
  readonly endMs: number;
  readonly resets: number;
  /** Since when they are held, or were renewed last: usage counts the time. Tells no two pins apart. */
  readonly sinceMs: number;
  /** The part of it that is in this slice; only where one ticket has several slices of the limit. */
  readonly milli?: number;
}

export function isSlotPin(pin: PeriodPin | undefined): pin is SlotPin {
  return pin !== undefined && "place" in pin;
}

export interface QuotaPin {
  readonly limit: string;
  /** The reset of a calendar quota: its period is known by its end, as long as this stays the same. */
  readonly reset: Reset | undefined;
  /** End of the calendar period; `Infinity` for a session. */
  readonly untilMs: number;
  readonly windowStartMs: number | undefined;
  readonly resets: number;
  /**
   * The part of it that is of this period; only where one take came from several periods of the limit, as shards that got its rule at
   * different instants have them.
   */
  readonly milli?: number;
}

/** The part of a pin that only the kind knows: it tells periods apart besides the marks. */
type KindPin = Pick<QuotaPin, "reset" | "untilMs">;

/**
 * The rules of time for limits of a kind, by their fields and marks. Windows of a schedule, which every kind may have, are no part of it
 * (`limit-state.ts`). Each kind names them all: a base that is spread would stay in every bundle.
 */
export interface KindRules {
  /** Tokens come back a little at a time. Otherwise they all come back at once, when a period ends: a quota. */
  readonly refillsSteadily: boolean;
  /** A percentage (`notifyAt`) is told once a period. Otherwise it is told again when less was used in between. */
  readonly hasPeriods: boolean;
  /** The first use opens a window. */
  readonly opensWindow: boolean;
  /** Its marks are kept once for the whole bucket, so such a bucket is not split into shards. */
  readonly isWhole: boolean;
  /** A take holds slots, which come back: nothing drips or fills, and free slots are never cut (`domain/bucket/holds.ts`). */
  readonly holdsSlots: boolean;
  /** The marks of one that was never used; undefined: it has none. */
  readonly marks: QuotaMarks | undefined;
  /** Whether it has no period at the moment: then it is full, whatever it holds, until it is used. */
  isClosed(marks: QuotaMarks): boolean;
  /** The end of the period that a use at `atMs` falls into; `Infinity` where none ends. */
  endMs(fields: KindFields, marks: QuotaMarks, atMs: number, calendar: Calendar): number;
  /** The end of a window that a use has opened; `Infinity` for one that opens none. It is known without a calendar. */
  windowEndMs(fields: KindFields, marks: QuotaMarks): number;
  /** The last instant up to `atMs` at which it was full again by itself; `-Infinity` where the period goes on. */
  filledMs(fields: KindFields, marks: QuotaMarks, atMs: number, calendar: Calendar): number;
  /** The time in which it fills: what a rate is told by; `Infinity` where that is no fixed time. */
  lengthMs(fields: KindFields, terms: Terms): number;
  /** Whether two limits of the kind are full again by the same rule. */
  isSameRule(a: KindFields, b: KindFields): boolean;
  /** The period that a use at `atMs` falls into. */
  pin(fields: KindFields, atMs: number, calendar: Calendar): KindPin;
  /** Whether the period of a pin with the same marks still goes on at `nowMs`. */
  isOf(fields: KindFields, marks: QuotaMarks, pin: KindPin, nowMs: number): boolean;
}

/** The check of the field of a kind, and what follows from the field. */
export interface KindForm {
  /** The most that such a limit holds; absent: as much as any. */
  readonly most?: number;
  /** The field as the value of a limit has it. Throws a `ValidationError` that names the limit, the field and its value. */
  checked(name: string, value: unknown, calendar: CronCheck): KindFields[keyof KindFields];
  /** The time zone that it goes by; absent: it needs none. */
  zone?(fields: KindFields): string;
}

/** The field of a kind as tables and files store it. */
export interface KindStored extends FieldStored<KindFields, "rsched" | "rsa" | "hm"> {
  readonly type: "string" | "number";
  /** The first part of a limit's attributes in configuration: `l` may be without this field, any other has it. */
  readonly prefix: "l" | "w" | "p";
}

export type KindText = FieldText<KindFields>;
