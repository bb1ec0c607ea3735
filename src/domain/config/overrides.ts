import { checkLimits, type Limit } from "../limits/limit.ts";
import { ValidationError } from "../names/errors.ts";
import { given } from "../names/given.ts";
import { checkInstant } from "../names/instant.ts";
import { shown } from "../names/names.ts";
import type { Access, AccessOverride, LimitsOverride, StoredConfig } from "./config.ts";
import type { LevelOptions } from "./config-scope.ts";

/** An end is at most this far ahead. */
const DAYS_MAX = 366;

/** The instant at which something set now is to end; throws for one that is none, or not between now and a year ahead. */
export function checkUntil(untilMs: number, nowMs: number): number {
  checkInstant("untilMs", untilMs, nowMs);
  if (!Number.isSafeInteger(untilMs)) {
    throw new ValidationError("instant_invalid", `untilMs is ${shown(untilMs)}; give whole milliseconds since 1970.`);
  }
  if (untilMs <= nowMs) {
    throw new ValidationError("until_invalid", `untilMs is ${untilMs}, and now is ${nowMs}; give a later instant.`);
  }
  if (untilMs - nowMs > DAYS_MAX * DAY_MS) {
    throw new ValidationError(
      "until_invalid",
      `untilMs is ${untilMs}, more than ${DAYS_MAX} days after now, ${nowMs}; give an earlier instant, or set it without an end.`,
    );
  }
  return untilMs;
}

const DAY_MS = 86_400_000;

/** The override of limits that runs at a reading of the clock; undefined: there is none, or it is over. */
export function runningOverride(config: StoredConfig | undefined, nowMs: number): LimitsOverride | undefined {
  const override = config?.override;
  return override !== undefined && nowMs < override.untilMs ? override : undefined;
}

/** The override of access that runs at a reading of the clock. */
export function runningAccess(config: StoredConfig | undefined, nowMs: number): AccessOverride | undefined {
  const override = config?.accessOverride;
  return override !== undefined && nowMs < override.untilMs ? override : undefined;
}

/** Whether a scope limits anything at a reading of the clock: an override over nothing may be over. */
export function limitsAnything(config: Pick<StoredConfig, "limits" | "override">, nowMs: number): boolean {
  return config.limits.length > 0 || (config.override !== undefined && nowMs < config.override.untilMs);
}

/** A configuration without the overrides that are over; what it says is the same. */
export function withoutEnded(config: StoredConfig, nowMs: number): StoredConfig {
  const { override: _, accessOverride: __, ...base } = config;
  return {
    ...base,
    ...given({ override: runningOverride(config, nowMs), accessOverride: runningAccess(config, nowMs) }),
  };
}

/** What a configuration says at a reading of the clock: an override that runs hides its base whole. */
export function inForce(config: StoredConfig, nowMs: number): StoredConfig {
  if (config.override === undefined && config.accessOverride === undefined) return config;
  const { override, accessOverride, ...base } = withoutEnded(config, nowMs);
  const said = override === undefined ? base : { ...withoutOptions(base), ...limitsOf(override) };
  return accessOverride === undefined ? said : { ...said, access: accessOverride.access };
}

/** What a configuration says once nothing of it runs any more. */
export function baseOf(config: StoredConfig): StoredConfig {
  return inForce(config, Number.POSITIVE_INFINITY);
}

/** What a level says, and what its overrides leave at their end. */
export interface ShownConfig extends Omit<StoredConfig, "override" | "accessOverride">, LimitsEnding {
  readonly accessUntilMs?: number;
  /** What the scope says of access from then on; absent: nothing. */
  readonly accessThen?: Access;
}

/** When limits end by themselves, and what the level says from then on. */
export interface LimitsEnding {
  /** The limits count until then, in ms since 1970. Absent: they have no end. */
  readonly untilMs?: number;
  /** What the level says from then on; `null`: nothing. Absent: the limits have no end. */
  readonly then?: (LevelOptions & { readonly limits: readonly Limit[] }) | null;
}

/** A configuration at a reading of the clock as it is shown. */
export function shownConfig(config: StoredConfig, nowMs: number): ShownConfig {
  const { limits, inherit, appliesTo, access } = config;
  const [override, accessOverride] = [runningOverride(config, nowMs), runningAccess(config, nowMs)];
  const then = limits.length === 0 ? null : { limits, ...given({ inherit, appliesTo }) };
  return {
    ...inForce(config, nowMs),
    ...(override === undefined ? {} : ending(override.untilMs, then)),
    ...(accessOverride === undefined
      ? {}
      : { accessUntilMs: accessOverride.untilMs, ...given({ accessThen: access }) }),
  };
}

/** An end as it is shown: when it is, and what comes then. */
export function ending<Then>(untilMs: number, then: Then): { readonly untilMs: number; readonly then: Then } {
  return { untilMs, then };
}

/** The instants at which overrides of some configurations end, the first one first. */
export function endsOf(configs: readonly (StoredConfig | undefined)[]): readonly number[] {
  // Nearly no level that is resolved has one.
  if (!configs.some((config) => config?.override ?? config?.accessOverride)) return NO_ENDS;
  const ends = configs.flatMap((config) => [config?.override?.untilMs ?? [], config?.accessOverride?.untilMs ?? []]);
  return [...new Set(ends.flat())].sort((a, b) => a - b);
}

/** The limits of an override as those of a level. */
function limitsOf({ limits, inherit, appliesTo }: LimitsOverride): Pick<StoredConfig, "limits" | keyof LevelOptions> {
  return { limits, ...given({ inherit, appliesTo }) };
}

/** Reads an override as it is stored; throws where that is something else. */
export function overrideFrom(stored: unknown): LimitsOverride {
  const { fromMs, untilMs, limits, inherit, appliesTo } = stored as LimitsOverride;
  if (!Number.isSafeInteger(fromMs) || !Number.isSafeInteger(untilMs))
    throw new RangeError("Its instants are no numbers.");
  const options = given({ inherit: inherit === true ? (true as const) : undefined, appliesTo });
  return { fromMs, untilMs, limits: checkLimits(limits, ANY_CRON), ...options };
}

const NO_ENDS: readonly number[] = Object.freeze([]);

/** A calendar that finds nothing wrong: the crons were checked when the limits were set. */
const ANY_CRON = { problemOf: () => undefined };

function withoutOptions({ inherit: _, appliesTo: __, ...rest }: StoredConfig): StoredConfig {
  return rest;
}
