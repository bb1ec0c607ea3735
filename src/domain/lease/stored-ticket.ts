import {
  isSlotPin,
  joinedTicket,
  type PeriodPin,
  type PeriodShare,
  PLAIN_TICKET,
  type SlotPin,
  type Ticket,
  ticketWith,
} from "../bucket/give-back.ts";
import type { Reset } from "../limits/schedule.ts";
import { VersionError } from "../names/errors.ts";
import { given } from "../names/given.ts";

/**
 * Reads what was written down in a compact form: throws where something else stands than what belongs there, so that damage, or
 * what a newer version has written, is never taken for a value.
 */
export class StoredForm {
  readonly #what: string;

  constructor(what: string) {
    this.#what = what;
  }

  parse(text: string): unknown {
    try {
      return JSON.parse(text);
    } catch {
      return this.fail("is not JSON");
    }
  }

  /** `length`: exactly so many. */
  list(value: unknown, length?: number): readonly unknown[] {
    if (Array.isArray(value) && (length === undefined || value.length === length)) return value;
    return this.fail(length === undefined ? "lacks a list" : `lacks a list of ${length}`);
  }

  text(value: unknown): string {
    return typeof value === "string" ? value : this.fail("lacks a string");
  }

  integer(value: unknown): number {
    // -0 is never written; reject it.
    const isWhole = Number.isSafeInteger(value) && !Object.is(value, -0);
    return isWhole ? (value as number) : this.fail("lacks a whole number");
  }

  natural(value: unknown): number {
    const integer = this.integer(value);
    return integer >= 0 ? integer : this.fail("has a negative number");
  }

  /** Null stands for what there is none of. */
  orNone<Value>(value: unknown, read: (value: unknown) => Value): Value | undefined {
    return value === null ? undefined : read(value);
  }

  oneOf<Value extends string>(value: unknown, all: readonly Value[]): Value {
    const found = all.find((one) => one === value);
    return found ?? this.fail(`lacks one of ${all.join(", ")}`);
  }

  fail(why: string): never {
    throw new VersionError(
      "stored_form_unknown",
      `${this.#what} ${why}: it was written by a newer version of zae-limiter, or is damaged. Upgrade zae-limiter.`,
    );
  }
}

/** A ticket as it is stored: 0 for the plain one, else its pins, and what undoes the request where there is any. */
type StoredTicket =
  | 0
  | readonly [pins: readonly StoredPin[]]
  | readonly [
      pins: readonly StoredPin[],
      overdrawn: readonly string[],
      opened: readonly string[],
      ...shadowed: readonly (readonly string[])[],
    ];

/** `null` stands for what there is none of. `milli` only where there is one. */
type StoredPeriod = readonly [
  limit: string,
  reset: readonly [cron: string, tz: string | null] | null,
  untilMs: number | null,
  windowStartMs: number | null,
  resets: number,
];
type StoredSlots = readonly [limit: string, place: number, endMs: number, resets: number, sinceMs: number];
type StoredPin =
  | StoredPeriod
  | readonly [...StoredPeriod, milli: number]
  | StoredSlots
  | readonly [...StoredSlots, milli: number];

/** The stored form of a ticket: JSON-safe, and read back as it was. */
export function storedTicket(ticket: Ticket): StoredTicket {
  const { pins, overdrawn, opened, shadowed } = ticket;
  const stored = pins.map(storedPin);
  if (shadowed.length > 0) return [stored, overdrawn, opened, shadowed];
  if (overdrawn.length > 0 || opened.length > 0) return [stored, overdrawn, opened];
  return stored.length === 0 ? 0 : [stored];
}

function storedPin(pin: PeriodPin): StoredPin {
  if (isSlotPin(pin)) {
    const { limit, place, endMs, resets, sinceMs, milli } = pin;
    const slots: StoredSlots = [limit, place, endMs, resets, sinceMs];
    return milli === undefined ? slots : [...slots, milli];
  }
  const { limit, reset, untilMs, windowStartMs, resets, milli } = pin;
  const period: StoredPeriod = [
    limit,
    reset === undefined ? null : [reset.cron, reset.tz ?? null],
    // JSON has no Infinity.
    Number.isFinite(untilMs) ? untilMs : null,
    windowStartMs ?? null,
    resets,
  ];
  return milli === undefined ? period : [...period, milli];
}

const FORM = new StoredForm("The ticket of a stored lease");

export function ticketFrom(stored: unknown): Ticket {
  if (stored === 0) return PLAIN_TICKET;
  const fields = FORM.list(stored);
  const [first] = fields;
  const kind = Array.isArray(first) ? typeof first[0] : "none";
  // Leases that were stored before tickets had no place: a list of pins, or one of shards.
  if (kind === "string") return ticketWith(fields.map(pinFrom));
  if (kind === "number") return joinedTicket(fields.map(shareOfShard));
  const rest = fields.length === 1 ? [first, [], []] : fields;
  const [pins, overdrawn, opened, shadowed] = rest.length === 4 ? rest : [...FORM.list(rest, 3), []];
  return {
    ...ticketWith(FORM.list(pins).map(pinFrom)),
    overdrawn: namesIn(overdrawn),
    opened: namesIn(opened),
    shadowed: namesIn(shadowed),
  };
}

function namesIn(stored: unknown): readonly string[] {
  return FORM.list(stored).map((name) => FORM.text(name));
}

function pinFrom(stored: unknown): PeriodPin {
  const fields = FORM.list(stored);
  // The reset of a quota is a list, or null where there is none; in its place stands the slice of slots.
  if (typeof fields[1] === "number") return slotPinFrom(fields);
  const [limit, reset, untilMs, windowStartMs, resets, milli] = fields.length === 6 ? fields : FORM.list(fields, 5);
  return {
    limit: FORM.text(limit),
    reset: FORM.orNone(reset, resetFrom),
    untilMs: FORM.orNone(untilMs, (value) => FORM.integer(value)) ?? Number.POSITIVE_INFINITY,
    windowStartMs: FORM.orNone(windowStartMs, (value) => FORM.integer(value)),
    resets: FORM.integer(resets),
    ...given({ milli: milli === undefined ? undefined : FORM.natural(milli) }),
  };
}

function slotPinFrom(fields: readonly unknown[]): SlotPin {
  const [limit, place, endMs, resets, sinceMs, milli] = fields.length === 6 ? fields : FORM.list(fields, 5);
  return {
    limit: FORM.text(limit),
    place: FORM.natural(place),
    endMs: FORM.integer(endMs),
    resets: FORM.integer(resets),
    sinceMs: FORM.integer(sinceMs),
    ...given({ milli: milli === undefined ? undefined : FORM.natural(milli) }),
  };
}

function resetFrom(stored: unknown): Reset {
  const [cron, tz] = FORM.list(stored, 2);
  return { cron: FORM.text(cron), ...given({ tz: FORM.orNone(tz, (value) => FORM.text(value)) }) };
}

/** `[shard, shards, pins, what it gave, overdrawn]`, as tickets of DynamoDB once were. */
function shareOfShard(stored: unknown): PeriodShare {
  const [, , pins, gave] = FORM.list(stored, 5);
  const flat = FORM.orNone(gave, (value) => FORM.list(value)) ?? [];
  const amounts = Array.from({ length: flat.length / 2 }, (_, i) => ({
    limit: FORM.text(flat[2 * i]),
    milli: FORM.natural(flat[2 * i + 1]),
  }));
  return { ticket: pins === 0 ? PLAIN_TICKET : ticketWith(FORM.list(pins).map(pinFrom)), amounts };
}
