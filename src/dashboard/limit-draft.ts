import { cronOf, KINDS, type Kind, type KindDraft, kindOf, seconds, zoneIn } from "./limit-kinds.ts";
import type { Limit } from "./shapes.ts";
import { FormError, numberIn, numberOf, tokensWords } from "./words.ts";

type ScheduleEntry = NonNullable<Limit["schedule"]>[number];

/** A limit in the form, as the texts of its fields. */
export interface LimitDraft extends KindDraft {
  /** Keeps a row while its name is typed. */
  readonly id: number;
  readonly isNew: boolean;
  /** Saving deletes it. */
  readonly isRemoved: boolean;
  readonly name: string;
  /** The measure that it counts; empty for its own name. */
  readonly counts: string;
  readonly kind: Kind;
  readonly capacity: string;
  readonly mode: "hard" | "soft" | "shadow";
  /** Thresholds in percent, such as `80/95`; empty for none. */
  readonly notify: string;
  readonly windows: readonly WindowDraft[];
}

/** One window of a schedule. With a `scale`, the amounts are not used. */
export interface WindowDraft {
  readonly id: number;
  readonly cron: string;
  readonly tz: string;
  readonly scale: string;
  readonly capacity: string;
  readonly amount: string;
  /** Seconds. */
  readonly period: string;
}

let lastId = 0;

export function newDraft(): LimitDraft {
  const terms = {
    kind: "drip",
    capacity: "100",
    amount: "100",
    period: "60",
    reset: "monthly",
    cron: "0 0 1 * *",
    tz: "",
    after: "3600",
    hold: "60",
  } as const;
  return {
    ...{ id: ++lastId, isNew: true, isRemoved: false, name: "", counts: "" },
    ...terms,
    mode: "hard",
    notify: "",
    windows: [],
  };
}

export function newWindow(): WindowDraft {
  return { id: ++lastId, cron: "* 9-17 * * 1-5", tz: "", scale: "0.5", capacity: "", amount: "", period: "" };
}

export function draftOf(limit: Limit): LimitDraft {
  const { name, counts = "", capacity, soft, shadow, schedule = [], notifyAt = [] } = limit;
  const kind = kindOf(limit);
  return {
    ...newDraft(),
    ...{ isNew: false, name, counts, kind, capacity: tokensWords(name, capacity), notify: notifyAt.join("/") },
    mode: soft ? "soft" : shadow ? "shadow" : "hard",
    amount: tokensWords(name, capacity),
    ...KINDS[kind].draftOf(limit),
    windows: schedule.map((entry) => windowOf(name, entry)),
  };
}

function windowOf(name: string, entry: ScheduleEntry): WindowDraft {
  const { cron, tz, scale, capacity, refillAmount, refillPeriodMs } = entry;
  const text = (value: number | undefined) => (value === undefined ? "" : tokensWords(name, value));
  return {
    id: ++lastId,
    ...{
      cron,
      tz: tz ?? "",
      scale: scale === undefined ? "" : String(scale),
      capacity: text(capacity),
      amount: text(refillAmount),
    },
    period: refillPeriodMs === undefined ? "" : seconds(refillPeriodMs),
  };
}

/** Reads the limit from its fields. Throws if one is not a number; the service checks the rest. */
export function limitOf(draft: LimitDraft): Limit {
  const { kind, mode, windows } = draft;
  const name = draft.name.trim();
  const counts = draft.counts.trim();
  if (name === "") throw new FormError("A new limit has no name; give one, such as rpm.");
  const number = (what: string, text: string) => numberOf(`${name}: ${what}`, text);
  return {
    ...{ name, capacity: number("the capacity", draft.capacity), refillAmount: 0, refillPeriodMs: 1000 },
    ...KINDS[kind].termsOf(draft, number),
    ...(counts === "" ? {} : { counts }),
    ...(mode === "hard" ? {} : { [mode]: true as const }),
    ...(draft.notify.trim() === "" ? {} : { notifyAt: percentsIn(name, draft.notify) }),
    ...(windows.length === 0
      ? {}
      : { schedule: windows.map((window) => ({ ...entryOf(name, window), ...zoneIn(window.tz) })) }),
  };
}

/** Reads thresholds; the service checks their order and number. */
function percentsIn(name: string, text: string): readonly number[] {
  return text
    .split(/[/,\s]+/)
    .flatMap((part) => (part === "" ? [] : [numberOf(`${name}: a percentage to be told`, part)]));
}

function entryOf(name: string, { cron, scale, capacity, amount, period }: WindowDraft): ScheduleEntry {
  const optional = (key: string, what: string, text: string, factor: number) =>
    text.trim() === "" ? {} : { [key]: numberOf(`${name}: ${what} of a window`, text) * factor };
  if (scale.trim() !== "") return { cron: cron.trim(), ...optional("scale", "the scale", scale, 1) };
  return {
    cron: cron.trim(),
    ...optional("capacity", "the capacity", capacity, 1),
    ...optional("refillAmount", "the amount", amount, 1),
    ...optional("refillPeriodMs", "the period", period, 1000),
  };
}

/** Windows as text, to compare an old schedule with a new one. */
export function windowsText(windows: readonly WindowDraft[]): string {
  const terms = ({ scale, capacity, amount, period }: WindowDraft) =>
    scale !== ""
      ? `x ${scale}`
      : [capacity && `capacity ${capacity}`, amount && `amount ${amount}`, period && `period ${period} s`]
          .filter(Boolean)
          .join(", ");
  return (
    windows.map((window) => `${window.cron}${window.tz === "" ? "" : ` ${window.tz}`}: ${terms(window)}`).join("; ") ||
    "none"
  );
}

/** True if two texts of a field mean the same value, such as `60000` and `60,000`. */
export function isSameText(one: string, other: string): boolean {
  if (one.trim() === other.trim()) return true;
  const value = numberIn(one);
  return value !== undefined && value === numberIn(other);
}

/** True if saving would change the limit. */
export function isChanged(before: LimitDraft | undefined, draft: LimitDraft): boolean {
  const plain = ({ id: _, isNew: __, windows, reset, cron, ...fields }: LimitDraft) => {
    const numbers = NUMBERS.map((field) => [field, numberIn(fields[field]) ?? fields[field]]);
    return JSON.stringify([
      { ...fields, ...Object.fromEntries(numbers) },
      cronOf({ reset, cron }),
      windowsText(windows),
    ]);
  };
  return before === undefined || plain(before) !== plain(draft);
}

const NUMBERS = ["capacity", "amount", "period", "after", "hold"] as const;
