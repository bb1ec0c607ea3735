import type { BucketKey } from "../../bucket/bucket-key.ts";
import { ValidationError } from "../../names/errors.ts";
import { shown } from "../../names/names.ts";
import type { FieldJson } from "../limit-field.ts";
import { wrongLimit } from "../limit-numbers.ts";
import { type KindFields, type KindForm, type KindRules, type KindStored, NO_MARKS } from "./kind.ts";

const NEVER_MS = Number.POSITIVE_INFINITY;

// At most N at once: what is taken is held until it is given back, or until its time is up (`domain/bucket/holds.ts`). Time brings nothing
// else, so it has no periods; its marks only tell its beginnings apart.

export const HOLD_DEFAULT_MS = 60_000;
export const HOLD_LEAST_MS = 1_000;
export const HOLD_MAX_MS = 86_400_000;

/** The most slots of a limit. */
const SLOTS_MAX = 1_000_000;

export const CONCURRENT_RULES: KindRules = {
  refillsSteadily: false,
  hasPeriods: false,
  opensWindow: false,
  isWhole: true,
  holdsSlots: true,
  marks: NO_MARKS,
  isClosed: () => false,
  endMs: () => NEVER_MS,
  windowEndMs: () => NEVER_MS,
  filledMs: () => -NEVER_MS,
  lengthMs: () => NEVER_MS,
  isSameRule: () => true,
  pin: () => ({ reset: undefined, untilMs: NEVER_MS }),
  // A hold is known by its slice, never by a period.
  isOf: () => false,
};

export const CONCURRENT_FORM: KindForm = { most: SLOTS_MAX, checked: checkedHoldMs };

export const CONCURRENT_STORED: KindStored = {
  field: "holdMs",
  attribute: "hm",
  type: "number",
  prefix: "p",
  encoded: ({ holdMs }) => holdMs && holdMs / 1000,
  decoded: (seconds) => ({ kind: "decoded", value: { holdMs: Number(seconds) * 1000 } }),
  isSound: ({ holdMs }) => isHoldMs(holdMs),
};

export const CONCURRENT_JSON: FieldJson = {
  service: {
    type: "number",
    description:
      "Of a limit of so many at once: how long a slot is held unless it is given back or renewed, in ms: whole seconds, 1,000 to 86,400,000.",
  },
  manifest: {
    key: "hold_seconds",
    unit: "seconds",
    schema: {
      type: "integer",
      minimum: HOLD_LEAST_MS / 1000,
      maximum: HOLD_MAX_MS / 1000,
      description: "At most `capacity` at once; each is free again after so many seconds unless it is renewed.",
    },
  },
};

export function holdMsOf({ holdMs = HOLD_DEFAULT_MS }: KindFields): number {
  return holdMs;
}

type SlotNumbers = { readonly name: string } & Readonly<Record<"capacity" | "refillAmount" | "refillPeriodMs", number>>;

/** The numbers of a limit that has `holdMs`: it has no refill, and not more slots than are counted. */
export function checkSlots({ name, capacity, refillAmount, refillPeriodMs }: SlotNumbers): void {
  if (capacity > SLOTS_MAX) throw wrongLimit(name, `capacity is ${capacity}; give from 1 to ${SLOTS_MAX} slots`);
  if (refillAmount !== 0) {
    throw wrongLimit(name, `it has holdMs and refillAmount ${refillAmount}; slots are given back, they do not refill`);
  }
  if (refillPeriodMs !== 1_000) {
    throw wrongLimit(name, `it has holdMs and refillPeriodMs ${refillPeriodMs}; nothing refills it, so give 1000`);
  }
}

/** Work whose refusals are errors of the limit: `burst`, `reset` and the like say that another kind was meant. */
export function refusedAsLimit<Value>(work: () => Value): Value {
  try {
    return work();
  } catch (error) {
    throw error instanceof ValidationError ? new ValidationError("limit_invalid", error.message) : error;
  }
}

function isHoldMs(value: unknown): value is number {
  if (typeof value !== "number" || !Number.isSafeInteger(value) || value % 1000 !== 0) return false;
  return value >= HOLD_LEAST_MS && value <= HOLD_MAX_MS;
}

function checkedHoldMs(name: string, value: unknown): number {
  if (isHoldMs(value)) return value;
  throw wrongLimit(
    name,
    `holdMs is ${shown(value)}; give whole seconds in milliseconds, from ${HOLD_LEAST_MS} to ${HOLD_MAX_MS}`,
  );
}

export function topUpOfSlots(limit: string, { entityId, resource }: BucketKey): ValidationError {
  return new ValidationError(
    "top_up_concurrent",
    `"${limit}" of ${entityId} on ${resource} says how many are at once and has no balance to fill; raise the limit instead.`,
  );
}

export function adjustOfSlots(
  limit: string,
  { entityId, resource }: Pick<BucketKey, "entityId" | "resource">,
): ValidationError {
  return new ValidationError(
    "adjust_concurrent",
    `"${limit}" of ${entityId} on ${resource} says how many are at once, which an adjustment cannot exceed; ` +
      "take more slots with lease.consume, which may be refused.",
  );
}

export function holdNeeded(
  limit: string,
  { entityId, resource }: Pick<BucketKey, "entityId" | "resource">,
): ValidationError {
  return new ValidationError(
    "hold_needed",
    `"${limit}" of ${entityId} on ${resource} says how many are at once, and holdMs is 0: slots are held, and not charged at once. Give a holdMs of 1000 or more, or none.`,
  );
}
