import { type PeriodPin, PLAIN_MARK, type TakeMark } from "./give-back.ts";
import type { Reset } from "./schedule.ts";
import { StoredForm } from "./stored-form.ts";

/** A mark as it is stored: 0 for the plain one, else its pins; `null` stands for what there is none of. */
export type StoredMark = 0 | readonly StoredPin[];

type StoredPin = readonly [
  limit: string,
  reset: readonly [cron: string, tz: string | null] | null,
  untilMs: number | null,
  windowStartMs: number | null,
  resets: number,
];

/** The stored form of a mark: JSON-safe, and read back as it was. */
export function storedMark(mark: TakeMark): StoredMark {
  if (mark === PLAIN_MARK) return 0;
  return mark.pins.map(({ limit, reset, untilMs, windowStartMs, resets }) => [
    limit,
    reset === undefined ? null : [reset.cron, reset.tz ?? null],
    // JSON has no Infinity.
    Number.isFinite(untilMs) ? untilMs : null,
    windowStartMs ?? null,
    resets,
  ]);
}

const FORM = new StoredForm("The ticket of a stored lease");

/** The plain mark is the one there is, so that two can be told to be the same. */
export function markFrom(stored: unknown): TakeMark {
  return stored === 0 ? PLAIN_MARK : { pins: FORM.list(stored).map(pinFrom) };
}

function pinFrom(stored: unknown): PeriodPin {
  const [limit, reset, untilMs, windowStartMs, resets] = FORM.list(stored, 5);
  return {
    limit: FORM.text(limit),
    reset: FORM.orNone(reset, resetFrom),
    untilMs: FORM.orNone(untilMs, (value) => FORM.integer(value)) ?? Number.POSITIVE_INFINITY,
    windowStartMs: FORM.orNone(windowStartMs, (value) => FORM.integer(value)),
    resets: FORM.integer(resets),
  };
}

function resetFrom(stored: unknown): Reset {
  const [cron, tz] = FORM.list(stored, 2);
  const zone = FORM.orNone(tz, (value) => FORM.text(value));
  return { cron: FORM.text(cron), ...(zone === undefined ? {} : { tz: zone }) };
}
