import type { Terms } from "../../bucket/balance.ts";
import { ValidationError } from "../names/errors.ts";
import { KnownNames } from "../names/known-names.ts";
import { checkLimitName, shown } from "../names/names.ts";
import { checkSlots, HOLD_DEFAULT_MS, refusedAsLimit } from "./kinds/concurrent.ts";
import type { KindFields } from "./kinds/kind.ts";
import { FORMS, formOf, ownFieldsOf } from "./kinds/table.ts";
import { COMMON_CHECKS, flag, invalidLimit } from "./limit-checks.ts";
import type {
  CheckedLimit,
  CommonFields,
  ConcurrentOptions,
  CustomTerms,
  KindOptions,
  RateOptions,
} from "./limit-field.ts";
import { PERIOD_MAX_MS, TOKENS_MAX, wholeSecondsMs, wholeTokens } from "./limit-numbers.ts";
import type { ResetName } from "./reset-names.ts";
import { type CronCheck, effectiveTerms, type Reset, TZ_DEFAULT } from "./schedule.ts";
import { strictTerms } from "./strict-window.ts";

export type { ConcurrentOptions, CustomTerms, KindOptions, RateOptions };
export { PERIOD_MAX_MS, TOKENS_MAX };

/** At most this many limits on one bucket: a composite item of them stays a single write. */
const LIMITS_MAX = 16;

/**
 * A limit: how time changes a balance of whole tokens. It drips (`refillAmount` every `refillPeriodMs`, up to
 * `capacity`), or it is a quota that resets, by the calendar or some time after its first use (`refillAmount` is 0). Or it
 * says how many are at once (`holdMs`): `capacity` are slots, each held until it is given back or its time is up. A plain, frozen value that survives JSON. Make one with `Limit.perMinute("rpm", 100)` and the other makers.
 */
export interface Limit<Name extends string = string, Measure extends string = Name>
  extends CommonFields<Measure>,
    KindFields {
  /** Its name, once in a bucket. */
  readonly name: Name;
  /** The most it holds, in whole tokens. */
  readonly capacity: number;
  /** Whole tokens that drip in over a period; 0 for a quota and for a limit on how many are at once. */
  readonly refillAmount: number;
  /** The period, in ms: whole seconds. */
  readonly refillPeriodMs: number;
}

/**
 * When a quota is full again: by the calendar (`reset`), or some time after its first use (`resetAfterMs`). Give one
 * of the two.
 */
export type QuotaOptions<Measure extends string = string> = KindOptions<Measure> &
  (
    | {
        /** Full again by the calendar: `"monthly"` at 00:00 UTC, or by a cron, also `{ cron: "monthly", tz }`. */
        readonly reset: Reset | ResetName;
        /** Not with `reset`. */
        readonly resetAfterMs?: undefined;
      }
    | {
        /** Full again so long after the first use, in ms. */
        readonly resetAfterMs: number;
        /** Not with `resetAfterMs`. */
        readonly reset?: undefined;
      }
  );

type Quota<Measure extends string = string> = KindOptions<Measure> & {
  readonly reset?: Reset | ResetName | undefined;
  readonly resetAfterMs?: number | undefined;
};

const RATE_OPTIONS = new KnownNames<RateOptions>({ burst: true, ...COMMON_CHECKS, strictWindow: true });
const CUSTOM_TERMS = new KnownNames<CustomTerms>({
  ...{ capacity: true, refillAmount: true, refillPeriodMs: true },
  ...COMMON_CHECKS,
});
const QUOTA_OPTIONS = new KnownNames<Quota>({ reset: true, resetAfterMs: true, ...COMMON_CHECKS });
const CONCURRENT_OPTIONS = new KnownNames<ConcurrentOptions>({ holdMs: true, ...COMMON_CHECKS });
const LIMIT = new KnownNames<Limit>({
  ...{ name: true, capacity: true, refillAmount: true, refillPeriodMs: true },
  ...COMMON_CHECKS,
  ...FORMS,
});

/** Makes a limit of so many tokens a period, and at most `burst` at once. */
type RateMaker = <const Name extends string, const Measure extends string = Name>(
  name: Name,
  rate: number,
  options?: RateOptions<Measure>,
) => Limit<Name, Measure>;

/** Makers of limits. `Limit.perMinute("tpm", 10_000, { burst: 20_000 })` refills 10,000 a minute and holds 20,000. */
export interface LimitMakers {
  /** A limit of `rate` tokens a second that holds at most `burst`. */
  readonly perSecond: RateMaker;
  /** A limit of `rate` tokens a minute that holds at most `burst`. */
  readonly perMinute: RateMaker;
  /** A limit of `rate` tokens an hour that holds at most `burst`. */
  readonly perHour: RateMaker;
  /** A limit of `rate` tokens a day that holds at most `burst`. */
  readonly perDay: RateMaker;
  /** A limit with its own capacity, amount and period. */
  custom<const Name extends string, const Measure extends string = Name>(
    name: Name,
    terms: CustomTerms<Measure>,
  ): Limit<Name, Measure>;
  /**
   * A limit of `amount` tokens a period, all of them back at its end: `Limit.quota("month", 1_000_000, { reset:
   * "monthly" })`, or `{ reset: { cron: "monthly", tz: "Europe/Berlin" } }` in a time zone.
   */
  quota<const Name extends string, const Measure extends string = Name>(
    name: Name,
    amount: number,
    options: QuotaOptions<Measure>,
  ): Limit<Name, Measure>;
  /**
   * At most so many at once: `Limit.concurrent("parallel", 10, { holdMs: 60_000 })`. What a request takes it holds until it settles,
   * gives back, or `holdMs` have passed without a renewal.
   */
  concurrent<const Name extends string, const Measure extends string = Name>(
    name: Name,
    slots: number,
    options?: ConcurrentOptions<Measure>,
  ): Limit<Name, Measure>;
}

/** The makers, with the calendar by which crons and time zones are checked. */
export function limitMakers(calendar: CronCheck): LimitMakers {
  /** Makes a limit of options as they were given: the check sees what is wrong with them. */
  const make = <Name extends string, Measure extends string>(
    numbers: Pick<Limit<Name>, "name" | "capacity" | "refillAmount" | "refillPeriodMs">,
    options: Quota<Measure> & Pick<KindFields, "holdMs">,
  ) => checkLimit({ ...numbers, ...(options as CommonFields<Measure> & KindFields) }, calendar);
  const perPeriod = (refillPeriodMs: number) =>
    function perPeriod<const Name extends string, const Measure extends string = Name>(
      name: Name,
      rate: number,
      options: RateOptions<Measure> = {},
    ): Limit<Name, Measure> {
      const given = RATE_OPTIONS.check(options, `Limit ${shown(name)}: the options after the rate`);
      const { burst, strictWindow = false, ...kind } = given;
      const terms = flag(name, "strictWindow", strictWindow)
        ? strictTerms(name, rate, given)
        : { capacity: burst ?? rate, refillAmount: rate };
      return make({ name, ...terms, refillPeriodMs }, kind);
    };
  return {
    perSecond: perPeriod(1_000),
    perMinute: perPeriod(60_000),
    perHour: perPeriod(3_600_000),
    perDay: perPeriod(86_400_000),
    custom: (name, terms) => {
      const known = CUSTOM_TERMS.check(terms ?? ({} as CustomTerms), `Limit ${shown(name)}: the terms`);
      const { capacity, refillAmount, refillPeriodMs, ...kind } = known;
      return make({ name, capacity, refillAmount, refillPeriodMs }, kind);
    },
    quota<const Name extends string, const Measure extends string = Name>(
      name: Name,
      amount: number,
      options: QuotaOptions<Measure>,
    ): Limit<Name, Measure> {
      const known: Quota<Measure> =
        options === undefined ? {} : QUOTA_OPTIONS.check(options, `Limit ${shown(name)}: the options`);
      if (known.reset === undefined && known.resetAfterMs === undefined) {
        throw invalidLimit(name, 'a quota needs a reset; give reset: "monthly", reset: { cron, tz } or resetAfterMs');
      }
      return make({ name, capacity: amount, ...NO_REFILL }, known);
    },
    concurrent<const Name extends string, const Measure extends string = Name>(
      name: Name,
      slots: number,
      options: ConcurrentOptions<Measure> = {},
    ): Limit<Name, Measure> {
      const { holdMs = HOLD_DEFAULT_MS, ...kind } = refusedAsLimit(() =>
        CONCURRENT_OPTIONS.check(options, `Limit ${shown(name)}: the options`),
      );
      return make({ name, capacity: slots, ...NO_REFILL }, { holdMs, ...kind });
    },
  };
}

const NO_REFILL = { refillAmount: 0, refillPeriodMs: 1_000 };

/** Makers for limits without crons, for callers that have no calendar. */
export const Limit: LimitMakers = limitMakers({
  problemOf: () => "This entry point has no calendar; use the Limit of `zae-limiter`",
});

/** Limits that `checkLimit` answered: frozen with all that they hold, so that what was found out about one stays true. */
const MADE = new WeakSet<object>();

/** Whether a limit was made here, and so can never change; one that is only frozen may hold what is not. */
export function isMade(limit: unknown): boolean {
  return MADE.has(limit as object);
}

/** The limit as given, checked and frozen; throws a `ValidationError` that names the limit, the field and its value. */
export function checkLimit<Name extends string, Measure extends string>(
  limit: Limit<Name, Measure>,
  calendar: CronCheck,
): Limit<Name, Measure> {
  if (typeof limit !== "object" || limit === null) {
    throw new ValidationError(
      "limit_invalid",
      `Not a limit: ${shown(limit)}; make one with Limit.perMinute(name, rate).`,
    );
  }
  const name = checkLimitName(limit.name) as Name;
  LIMIT.check(limit, `Limit "${name}"`);
  const capacity = wholeTokens(name, "capacity", limit.capacity, 1);
  const refillPeriodMs = wholeSecondsMs(name, "refillPeriodMs", limit.refillPeriodMs);
  const own = ownFieldsOf(limit);
  const [fields] = own.map((field) => ({ [field]: FORMS[field].checked(name, limit[field], calendar) }));
  if (own.length > 1) throw invalidLimit(name, `it has ${own.join(" and ")}; give one of them`);
  const resets = fields !== undefined;
  const refillAmount = wholeTokens(name, "refillAmount", limit.refillAmount, resets ? 0 : 1);
  if (limit.holdMs !== undefined) checkSlots(limit);
  else if (resets && refillAmount !== 0) {
    throw invalidLimit(name, `it has a reset and refillAmount ${refillAmount}; a limit refills or resets, not both`);
  }
  // Nothing drips into what resets: its period means nothing, and is the same for all.
  const base = { name, capacity, refillAmount, refillPeriodMs: resets ? 1_000 : refillPeriodMs };
  const most = (own[0] && FORMS[own[0]].most) ?? TOKENS_MAX;
  const common = commonFields(limit, { ...base, most, resets, isSoft: limit.soft === true, calendar });
  const made = Object.freeze({ ...base, ...(common as CommonFields<Measure>), ...fields });
  MADE.add(made);
  return made;
}

function commonFields(limit: Limit, checked: CheckedLimit): CommonFields {
  const fields: Record<string, unknown> = {};
  for (const field of Object.keys(COMMON_CHECKS) as (keyof CommonFields)[]) {
    const value = limit[field] === undefined ? undefined : COMMON_CHECKS[field](limit[field], checked);
    if (value !== undefined) fields[field] = value;
  }
  return fields;
}

/** A list of limits, each checked, no name twice, in the order given. Empty is refused: it would mean "no limit at all". */
export function checkLimits<Name extends string, Measure extends string>(
  limits: readonly Limit<Name, Measure>[],
  calendar: CronCheck,
): readonly Limit<Name, Measure>[] {
  if (!Array.isArray(limits)) {
    throw new ValidationError(
      "limits_invalid",
      `Limits must be a list, not ${shown(limits)}; pass [Limit.perMinute(...)].`,
    );
  }
  if (limits.length === 0) {
    throw new ValidationError("limits_empty", "The list of limits is empty; name at least one, or delete the limits.");
  }
  if (limits.length > LIMITS_MAX) throw tooMany(limits);
  const checked = limits.map((limit) => checkLimit(limit as Limit<Name, Measure>, calendar));
  const names = new Set<string>();
  for (const { name } of checked) {
    if (names.has(name)) {
      throw new ValidationError("limit_duplicate", `Limit "${name}" is given twice; remove one.`);
    }
    names.add(name);
  }
  const problem = setProblem(checked);
  if (problem !== undefined) throw problem;
  return Object.freeze(checked);
}

/** Why limits that are each fine cannot be those of one bucket. */
export function setProblem(limits: readonly Limit[]): ValidationError | undefined {
  return limits.length > LIMITS_MAX ? tooMany(limits) : zoneProblem(limits);
}

function tooMany(limits: readonly unknown[]): ValidationError {
  return new ValidationError(
    "limits_too_many",
    `${limits.length} limits on one bucket; at most ${LIMITS_MAX} are supported. Split them over several resources.`,
  );
}

/** Whether a limit is a reason to refuse; soft limits and shadows never are. */
export function isHard({ soft, shadow }: Limit): boolean {
  return soft !== true && shadow !== true;
}

/** The terms outside all windows. */
export function termsOf(limit: Limit): Terms {
  return {
    capacityMilli: limit.capacity * 1000,
    refillAmountMilli: limit.refillAmount * 1000,
    refillPeriodMs: limit.refillPeriodMs,
  };
}

/** The largest capacity the limit ever has, in millitokens: more than that is never granted. */
export function capacityMaxMilli(limit: Limit): number {
  let most = limit.capacity * 1000;
  for (const entry of limit.schedule ?? []) {
    most = Math.max(most, effectiveTerms(termsOf(limit), [entry], () => true).capacityMilli);
  }
  return most;
}

/** The zone that a limit goes by; undefined where it asks no calendar. Limits of one bucket have one between them. */
export function zoneOf(limit: Limit): string | undefined {
  return formOf(limit)?.zone?.(limit) ?? (limit.schedule && (limit.schedule[0]?.tz ?? TZ_DEFAULT));
}

// Limits of one bucket are stored with one zone between them.
function zoneProblem(limits: readonly Limit[]): ValidationError | undefined {
  const zones = new Set(
    limits.flatMap((limit) => [
      ...(limit.schedule ?? []).map(({ tz }) => tz ?? TZ_DEFAULT),
      ...[formOf(limit)?.zone?.(limit) ?? []].flat(),
    ]),
  );
  if (zones.size <= 1) return undefined;
  return new ValidationError(
    "limits_zones",
    `The limits of one bucket share one time zone, but these have ${[...zones].join(" and ")}; give all the same tz.`,
  );
}
