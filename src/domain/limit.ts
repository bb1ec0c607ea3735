import { ValidationError } from "./errors.ts";
import { checkLimitName, shown } from "./names.ts";

/** The most tokens a capacity or an amount may have: a thousand times that is still an exact integer. */
export const TOKENS_MAX = 9_000_000_000_000;

/** The longest refill period: 10^9 seconds, as in the table shared with the original. */
export const PERIOD_MAX_MS = 1_000_000_000_000;

/** At most this many limits on one bucket: a composite item of them stays a single write. */
export const LIMITS_MAX = 16;

/**
 * A limit: whole tokens, up to `capacity`, of which `refillAmount` drip in every `refillPeriodMs`. A plain, frozen value
 * that survives JSON. Make one with `Limit.perMinute("rpm", 100)` and its siblings.
 */
export interface Limit<Name extends string = string> {
  readonly name: Name;
  readonly capacity: number;
  readonly refillAmount: number;
  readonly refillPeriodMs: number;
}

export interface RateOptions {
  /** The capacity, when it differs from the rate: how much may be taken at once after a quiet time. */
  readonly burst?: number;
}

export interface CustomTerms {
  readonly capacity: number;
  readonly refillAmount: number;
  readonly refillPeriodMs: number;
}

/** Makers of limits. `Limit.perMinute("tpm", 10_000, { burst: 20_000 })` refills 10,000 a minute and holds 20,000. */
export const Limit = {
  perSecond: <const Name extends string>(name: Name, rate: number, options: RateOptions = {}): Limit<Name> =>
    perPeriod(name, rate, 1_000, options),
  perMinute: <const Name extends string>(name: Name, rate: number, options: RateOptions = {}): Limit<Name> =>
    perPeriod(name, rate, 60_000, options),
  perHour: <const Name extends string>(name: Name, rate: number, options: RateOptions = {}): Limit<Name> =>
    perPeriod(name, rate, 3_600_000, options),
  perDay: <const Name extends string>(name: Name, rate: number, options: RateOptions = {}): Limit<Name> =>
    perPeriod(name, rate, 86_400_000, options),
  custom: <const Name extends string>(name: Name, terms: CustomTerms): Limit<Name> =>
    checkLimit({
      name,
      capacity: terms?.capacity,
      refillAmount: terms?.refillAmount,
      refillPeriodMs: terms?.refillPeriodMs,
    }),
};

function perPeriod<Name extends string>(
  name: Name,
  rate: number,
  refillPeriodMs: number,
  options: RateOptions,
): Limit<Name> {
  return checkLimit({ name, capacity: options.burst ?? rate, refillAmount: rate, refillPeriodMs });
}

/** The limit as given, checked and frozen; throws a `ValidationError` that names the limit, the field and its value. */
export function checkLimit<Name extends string>(limit: Limit<Name>): Limit<Name> {
  if (typeof limit !== "object" || limit === null) {
    throw new ValidationError(
      "limit_invalid",
      `Not a limit: ${shown(limit)}; make one with Limit.perMinute(name, rate).`,
    );
  }
  const name = checkLimitName(limit.name) as Name;
  const capacity = wholeTokens(name, "capacity", limit.capacity);
  const refillAmount = wholeTokens(name, "refillAmount", limit.refillAmount);
  const refillPeriodMs = limit.refillPeriodMs;
  if (!Number.isSafeInteger(refillPeriodMs) || refillPeriodMs % 1000 !== 0 || refillPeriodMs <= 0) {
    throw new ValidationError(
      "limit_invalid",
      `Limit "${name}": refillPeriodMs is ${shown(refillPeriodMs)}; give whole seconds in milliseconds, at least 1000.`,
    );
  }
  if (refillPeriodMs > PERIOD_MAX_MS) {
    throw new ValidationError(
      "limit_invalid",
      `Limit "${name}": refillPeriodMs is ${refillPeriodMs}; the longest period is ${PERIOD_MAX_MS}.`,
    );
  }
  return Object.freeze({ name, capacity, refillAmount, refillPeriodMs });
}

/** A list of limits, each checked, no name twice, in the order given. Empty is refused: it would mean "no limit at all". */
export function checkLimits<Name extends string>(limits: readonly Limit<Name>[]): readonly Limit<Name>[] {
  if (!Array.isArray(limits)) {
    throw new ValidationError(
      "limits_invalid",
      `Limits must be a list, not ${shown(limits)}; pass [Limit.perMinute(...)].`,
    );
  }
  if (limits.length === 0) {
    throw new ValidationError("limits_empty", "The list of limits is empty; name at least one, or delete the limits.");
  }
  if (limits.length > LIMITS_MAX) {
    throw new ValidationError(
      "limits_too_many",
      `${limits.length} limits on one bucket; at most ${LIMITS_MAX} are supported. Split them over several resources.`,
    );
  }
  const checked = limits.map((limit) => checkLimit(limit as Limit<Name>));
  const names = new Set<string>();
  for (const { name } of checked) {
    if (names.has(name)) {
      throw new ValidationError("limit_duplicate", `Limit "${name}" is given twice; keep one of them.`);
    }
    names.add(name);
  }
  return Object.freeze(checked);
}

function wholeTokens(name: string, field: string, value: unknown): number {
  if (typeof value !== "number" || !Number.isSafeInteger(value) || value <= 0 || value > TOKENS_MAX) {
    throw new ValidationError(
      "limit_invalid",
      `Limit "${name}": ${field} is ${shown(value)}; give a whole number of tokens from 1 to ${TOKENS_MAX}.`,
    );
  }
  return value;
}
