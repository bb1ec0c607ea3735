import { given, valueAfter } from "../names/given.ts";
import {
  type LimitsChange,
  type LimitsOverride,
  type PolicyChange,
  type StoredConfig,
  textOfFrozen,
} from "./config.ts";
import { limitsAnything, runningAccess, runningOverride, withoutEnded } from "./overrides.ts";
import { isSameValue } from "./piece.ts";

/**
 * What a scope says after a change; `config` undefined: nothing at all. `underUntilMs`: it is the base under an override that runs until
 * then. `unchanged`: nothing is to be written.
 */
export type ConfigChange =
  | { readonly kind: "unchanged" }
  | { readonly kind: "changed"; readonly config: StoredConfig | undefined; readonly underUntilMs?: number };

const UNCHANGED: ConfigChange = { kind: "unchanged" };
const EMPTY: StoredConfig = { limits: [] };

/** The scope says something else than the change is for. */
export interface Conflict {
  readonly kind: "conflict";
}

/** The audit details of a change as it was decided. */
export function detailsOf(
  details: Readonly<Record<string, unknown>>,
  { underUntilMs }: Pick<Extract<ConfigChange, { kind: "changed" }>, "underUntilMs">,
): Readonly<Record<string, unknown>> {
  return underUntilMs === undefined ? details : { ...details, underUntilMs };
}

/** A stored configuration with its policy changed, its limits kept. Access that is set ends an override of it, or is one. */
export function policyChanged(config: StoredConfig | undefined, change: PolicyChange, nowMs: number): ConfigChange {
  const { access, cascade, accessOverride, frozen, ...rest } = withoutEnded(config ?? EMPTY, nowMs);
  const { untilMs } = change;
  const next = {
    access: valueAfter(untilMs === undefined ? change.access : undefined, access),
    cascade: valueAfter(change.cascade, cascade),
    frozen: valueAfter(change.frozen, frozen),
    accessOverride: change.access === undefined || change.keepOverride === true ? accessOverride : overrideOf(change),
  };
  const isSameOverride =
    next.accessOverride?.access === accessOverride?.access && next.accessOverride?.untilMs === accessOverride?.untilMs;
  const isSameRest = isSameOverride && textOfFrozen(next.frozen) === textOfFrozen(frozen);
  if (next.access === access && next.cascade === cascade && isSameRest) return UNCHANGED;
  const changed = changedTo({ ...rest, ...given(next) });
  const isUnder = change.keepOverride === true && accessOverride !== undefined;
  return isUnder ? { ...changed, underUntilMs: accessOverride.untilMs } : changed;
}

function overrideOf({ access, untilMs }: PolicyChange): StoredConfig["accessOverride"] {
  return access == null || untilMs === undefined ? undefined : { untilMs, access };
}

/**
 * A stored configuration with its limits replaced, its policy kept. New limits come with their options: as the base, or as an override
 * of it. `ifAbsent`: where there are limits nothing changes, and a setting that is there stays.
 */
export function limitsChanged(config: StoredConfig | undefined, change: LimitsChange, nowMs: number): ConfigChange {
  const before = withoutEnded(config ?? EMPTY, nowMs);
  const running = runningOverride(before, nowMs);
  const isIfAbsent = change.ifAbsent === true;
  if (isIfAbsent && (before.limits.length > 0 || (running !== undefined && change.untilMs !== undefined))) {
    return UNCHANGED;
  }
  if (change.untilMs !== undefined) return overridden(before, { ...change, untilMs: change.untilMs }, nowMs);
  const setting = <Value>(asked: Value | null | undefined, now: Value | undefined) =>
    valueAfter(isIfAbsent && now !== undefined ? undefined : asked, now);
  const { access, cascade, accessOverride, frozen } = before;
  const { inherit, appliesTo } = change.limits === undefined ? before : change;
  const onUnavailable = setting(change.onUnavailable, before.onUnavailable);
  const usageKeptDays = setting(change.usageKeptDays, before.usageKeptDays);
  const override = change.limits === undefined || change.keepOverride === true || isIfAbsent ? running : undefined;
  const after: StoredConfig = {
    ...given({ access, cascade, accessOverride, override, frozen }),
    limits: change.limits ?? before.limits,
    ...given({ inherit, appliesTo, onUnavailable, usageKeptDays }),
  };
  if (isSameLimits(before, after)) return UNCHANGED;
  const changed = changedTo(after);
  return override === undefined || change.limits === undefined
    ? changed
    : { ...changed, underUntilMs: override.untilMs };
}

function overridden(
  before: StoredConfig,
  { limits = [], inherit, appliesTo, untilMs }: LimitsChange & { readonly untilMs: number },
  nowMs: number,
): ConfigChange {
  const override = { fromMs: nowMs, untilMs, limits, ...given({ inherit, appliesTo }) };
  return isSameOverride(before.override, override) ? UNCHANGED : changedTo({ ...before, override });
}

/** A change of limits where the stored configuration is the one that the change expects, or the change expects none. */
export function limitsChangedIf(
  config: StoredConfig | undefined,
  change: LimitsChange,
  nowMs: number,
): ConfigChange | Conflict {
  const { expected, ...asked } = change;
  const isExpected = expected === undefined || isSameConfig(config, expected, nowMs);
  return isExpected ? limitsChanged(config, asked, nowMs) : { kind: "conflict" };
}

/** What `delete` takes away: all that a scope says of limits, or only the override that runs. */
export type DeletedPart = "all" | "override";

/** A stored configuration without its limits, or without the override that runs; unchanged where there were none. */
export function limitsDeleted(config: StoredConfig | undefined, part: DeletedPart, nowMs: number): ConfigChange {
  if (config === undefined) return UNCHANGED;
  if (part === "override") {
    const { override: _, ...rest } = withoutEnded(config, nowMs);
    return runningOverride(config, nowMs) === undefined ? UNCHANGED : changedTo(rest);
  }
  const isEmpty = !limitsAnything(config, nowMs) && config.onUnavailable === undefined;
  return isEmpty ? UNCHANGED : withoutLimits(config, nowMs);
}

/** Deletes limits and keeps the policy, and how long usage is kept: an operator who takes limits away does not mean the bills. */
export function withoutLimits(config: StoredConfig | undefined, nowMs: number): ConfigChange {
  const kept = withoutEnded(config ?? EMPTY, nowMs);
  const { limits: _, onUnavailable: __, inherit: ___, appliesTo: ____, override: _____, ...policy } = kept;
  return changedTo({ ...policy, limits: [] });
}

/** Compares limits by name, in any order, and the options. */
function isSameLimits(one: StoredConfig, other: StoredConfig): boolean {
  return (
    isSameValue(one.limits, other.limits) &&
    one.inherit === other.inherit &&
    one.appliesTo === other.appliesTo &&
    one.onUnavailable === other.onUnavailable &&
    one.usageKeptDays === other.usageKeptDays &&
    isSameOverride(one.override, other.override)
  );
}

/** Whether two overrides are equal; when each began does not matter. */
function isSameOverride(one: LimitsOverride | undefined, other: LimitsOverride | undefined): boolean {
  if (one === undefined || other === undefined) return one === other;
  const isSameEnd = one.untilMs === other.untilMs && one.inherit === other.inherit && one.appliesTo === other.appliesTo;
  return isSameEnd && isSameValue(one.limits, other.limits);
}

function isSameConfig(config: StoredConfig = EMPTY, expected: StoredConfig, nowMs: number): boolean {
  const [one, other] = [withoutEnded(config, nowMs), withoutEnded(expected, nowMs)];
  const [access, otherAccess] = [runningAccess(one, nowMs), runningAccess(other, nowMs)];
  const isSameAccess = access?.access === otherAccess?.access && access?.untilMs === otherAccess?.untilMs;
  return isSameLimits(one, other) && isSameAccess && one.access === other.access && one.cascade === other.cascade;
}

function changedTo(config: StoredConfig): Extract<ConfigChange, { kind: "changed" }> {
  return { kind: "changed", config: saysSomething(config) ? config : undefined };
}

function saysSomething({ limits, ...rest }: StoredConfig): boolean {
  return limits.length > 0 || Object.values(rest).some((value) => value !== undefined);
}
