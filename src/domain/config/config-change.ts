import type { LimitsChange, PolicyChange, StoredConfig } from "./config.ts";
import { isSameValue } from "./piece.ts";

/** What a scope says after a change; `config` undefined: nothing at all. `unchanged`: nothing is to be written. */
export type ConfigChange =
  | { readonly kind: "unchanged" }
  | { readonly kind: "changed"; readonly config: StoredConfig | undefined };

const UNCHANGED: ConfigChange = { kind: "unchanged" };

/** The scope says something else than the change is for. */
export interface Conflict {
  readonly kind: "conflict";
}

const CONFLICT: Conflict = { kind: "conflict" };

/** A stored configuration with its policy changed, its limits kept. */
export function policyChanged(config: StoredConfig | undefined, change: PolicyChange): ConfigChange {
  const { access, cascade, ...rest } = config ?? { limits: [] };
  const next = {
    access: change.access === undefined ? access : (change.access ?? undefined),
    cascade: change.cascade === undefined ? cascade : (change.cascade ?? undefined),
  };
  if (next.access === access && next.cascade === cascade) return UNCHANGED;
  return changedTo({
    ...rest,
    ...(next.access === undefined ? {} : { access: next.access }),
    ...(next.cascade === undefined ? {} : { cascade: next.cascade }),
  });
}

/**
 * A stored configuration with its limits replaced, its policy kept. New limits come with their options. `ifAbsent`: where there
 * are limits nothing changes, and a setting that is there stays.
 */
export function limitsChanged(config: StoredConfig | undefined, change: LimitsChange): ConfigChange {
  if (change.ifAbsent === true) return config === undefined ? written(config, change) : whereAbsent(config, change);
  return written(config, change);
}

/** The same, where the change is for this very configuration, or for any. */
export function limitsChangedIf(config: StoredConfig | undefined, change: LimitsChange): ConfigChange | Conflict {
  const { expected, ...asked } = change;
  return expected === undefined || isSameConfig(config, expected) ? limitsChanged(config, asked) : CONFLICT;
}

function whereAbsent(config: StoredConfig, { ifAbsent: _, ...change }: LimitsChange): ConfigChange {
  if (config.limits.length > 0) return UNCHANGED;
  const { onUnavailable, usageKeptDays, ...rest } = change;
  return written(config, {
    ...rest,
    ...(onUnavailable === undefined || config.onUnavailable !== undefined ? {} : { onUnavailable }),
    ...(usageKeptDays === undefined || config.usageKeptDays !== undefined ? {} : { usageKeptDays }),
  });
}

function written(config: StoredConfig | undefined, next: LimitsChange): ConfigChange {
  const before: StoredConfig = config ?? { limits: [] };
  const { onUnavailable: outage, usageKeptDays: kept, limits, inherit, appliesTo, ...rest } = before;
  const usageKeptDays = next.usageKeptDays === undefined ? kept : (next.usageKeptDays ?? undefined);
  const onUnavailable = next.onUnavailable === undefined ? outage : (next.onUnavailable ?? undefined);
  const options = next.limits === undefined ? { inherit, appliesTo } : next;
  const after: StoredConfig = {
    ...rest,
    limits: next.limits ?? limits,
    ...(options.inherit === undefined ? {} : { inherit: options.inherit }),
    ...(options.appliesTo === undefined ? {} : { appliesTo: options.appliesTo }),
    ...(onUnavailable === undefined ? {} : { onUnavailable }),
    ...(usageKeptDays === undefined ? {} : { usageKeptDays }),
  };
  return saysTheSame(before, after) ? UNCHANGED : changedTo(after);
}

/** A stored configuration without its limits; unchanged where there were none. */
export function limitsDeleted(config: StoredConfig | undefined): ConfigChange {
  if (config === undefined || (config.limits.length === 0 && config.onUnavailable === undefined)) return UNCHANGED;
  return withoutLimits(config);
}

/** Its policy is kept, and how long usage is kept, too: whoever takes limits away does not mean the bills. */
export function withoutLimits(config: StoredConfig | undefined): ConfigChange {
  const { limits: _, onUnavailable: __, inherit: ___, appliesTo: ____, ...policy } = config ?? { limits: [] };
  return changedTo({ ...policy, limits: [] });
}

/** Limits by name, in any order; the same options. */
function saysTheSame(one: StoredConfig, other: StoredConfig): boolean {
  return (
    isSameValue(one.limits, other.limits) &&
    one.inherit === other.inherit &&
    one.appliesTo === other.appliesTo &&
    one.onUnavailable === other.onUnavailable &&
    one.usageKeptDays === other.usageKeptDays
  );
}

function isSameConfig(config: StoredConfig = { limits: [] }, expected: StoredConfig): boolean {
  return saysTheSame(config, expected) && config.access === expected.access && config.cascade === expected.cascade;
}

function changedTo(config: StoredConfig): ConfigChange {
  return { kind: "changed", config: saysSomething(config) ? config : undefined };
}

function saysSomething({ limits, ...rest }: StoredConfig): boolean {
  return limits.length > 0 || Object.values(rest).some((value) => value !== undefined);
}
