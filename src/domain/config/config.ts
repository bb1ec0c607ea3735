import { TOTAL_RESOURCE } from "../bucket/bucket-key.ts";
import type { Limit } from "../limits/limit.ts";
import { type MergedLimits, type MergeProblem, mergedLimits } from "../limits/merged-limits.ts";
import { type ConfigScope, isTotal, type LevelOptions, type LimitSource } from "./config-scope.ts";

// Where limits are stored stands in a file of its own, below this one.
export * from "./config-scope.ts";

/** What happens to requests while the store does not answer: they are refused (`block`), or pass uncounted (`allow`). */
export type OnUnavailable = "allow" | "block";

/**
 * In place of `"allow"` and `"block"`, for one process: while the store does not answer, each request is decided by buckets in this
 * process that have a part of every capacity and rate.
 */
export interface OutageShareOption {
  /** The part, above 0 and at most 1. With `1 / 8`, eight processes together grant what the limits allow. */
  readonly share: number;
}

/**
 * What happens with the id of an entity that was never created: the default limits apply (`allow`), or it is refused
 * (`refuse`).
 */
export type UnknownEntities = "allow" | "refuse";

/**
 * `disabled`: requests are refused. `bypass`: requests pass and are counted, and nothing is debited. `enforce`: the
 * limits apply.
 */
export type Access = "disabled" | "bypass" | "enforce";

/** What a scope says besides limits; what it does not say is asked one scope further out. */
interface ScopePolicy {
  readonly access?: Access;
  /** Whether parents are charged, in place of the entity's own flag. */
  readonly cascade?: boolean;
}

/** Settings of the namespace. */
export interface SystemSettings {
  /** What happens to requests while the store does not answer. */
  readonly onUnavailable?: OnUnavailable;
  /**
   * For how many days DynamoDB keeps usage after it was counted. Memory and SQLite have the option `usage: { keepMs }`
   * instead.
   */
  readonly usageKeptDays?: number;
}

export interface StoredConfig extends ScopePolicy, SystemSettings, LevelOptions {
  readonly limits: readonly Limit[];
}

/** A change of policy: `null` takes a value away, absent leaves it. */
export interface PolicyChange {
  readonly access?: Access | null;
  readonly cascade?: boolean | null;
}

/** Limits of an entity on a resource from an instant on: what its scopes said together. */
export interface LimitsSince {
  readonly fromMs: number;
  /** Of the change: a later one has a higher number. */
  readonly number: number;
  readonly limits: readonly Limit[];
}

/** Everything the plan needs of one level of the chain, read together. */
export interface LevelConfig {
  /** Whether the entity was created; it need not be. */
  readonly created: boolean;
  /** Those of its bucket on the resource, whoever asks: the entity's own as a caller. */
  readonly limits: readonly Limit[];
  /** The first level that has any. */
  readonly source: LimitSource;
  /** The level of each limit by name, where levels were added up; absent: all are of `source`. */
  readonly sources?: Readonly<Record<string, LimitSource>>;
  /** Those that a request from below takes of; absent: all of `limits`. */
  readonly forEveryone?: readonly Limit[];
  /** Limits of the entity over all resources, as a caller; their bucket is that of the resource `"*"`. */
  readonly totals: readonly Limit[];
  readonly totalsSource: LimitSource;
  /** As `sources`, of the totals. */
  readonly totalsSources?: Readonly<Record<string, LimitSource>>;
  /** As `forEveryone`, of the totals. */
  readonly totalsForEveryone?: readonly Limit[];
  /** The levels do not go together: every request is refused with this. */
  readonly problem?: MergeProblem;
  /** The entity's plan. */
  readonly planId?: string;
  readonly access: Access;
  /** The scope that said so; `none` when none did. */
  readonly accessSource: LimitSource;
  /** Whether the parent is charged too. */
  readonly cascade: boolean;
  /** The scope that said so; `none` when it is the entity's own flag. */
  readonly cascadeSource: LimitSource;
  readonly parentId?: string;
  readonly onUnavailable?: OnUnavailable;
  /**
   * The number of the read of configuration by this process, where the store cannot say that configuration changed: a bucket
   * that casts doubt on it is believed until a later read.
   */
  readonly reading?: number;
  /** Every change that was answered before the read began is in it, although the store was not asked for that. */
  readonly isConsistent?: true;
  /** The changes of its limits that are kept, the oldest first; the last has the limits of now. Absent: none is known. */
  readonly changes?: readonly LimitsSince[];
  /** As `changes`, of the totals. */
  readonly totalsChanges?: readonly LimitsSince[];
}

/** What the store has of an entity that its limits depend on. */
export interface ConfiguredEntity {
  readonly parentId?: string;
  readonly planId?: string;
  readonly cascade: boolean;
}

/** What the scopes and the entity say together; `found` is in the order of `scopes`, which `scopesOf` made. */
export function resolveConfig(
  found: readonly (StoredConfig | undefined)[],
  scopes: readonly ConfigScope[],
  entity: ConfiguredEntity | undefined,
): LevelConfig {
  const totalsAt = scopes.findIndex(isTotal);
  // Over all resources there are only totals: how limits on resources go together says nothing of them.
  const limitsEnd = scopes.some((scope) => "resource" in scope && scope.resource === TOTAL_RESOURCE) ? 0 : totalsAt;
  const limits = mergedLimits(found.slice(0, limitsEnd), scopes.slice(0, limitsEnd));
  const totals = mergedLimits(found.slice(totalsAt), scopes.slice(totalsAt));
  const problem = limits.problem ?? totals.problem;
  const access = first(found, scopes, (config) => config.access);
  const cascade = first(found, scopes, (config) => config.cascade);
  const onUnavailable = found[scopes.findIndex(({ level }) => level === "system")]?.onUnavailable;
  return {
    created: entity !== undefined,
    limits: limits.limits,
    source: limits.source,
    ...(limits.sources === undefined ? {} : { sources: limits.sources }),
    ...(limits.forEveryone === undefined ? {} : { forEveryone: limits.forEveryone }),
    ...totalsIn(totals),
    ...(problem === undefined ? {} : { problem }),
    ...(entity?.planId === undefined ? {} : { planId: entity.planId }),
    access: access.value ?? "enforce",
    accessSource: access.source,
    cascade: cascade.value ?? entity?.cascade ?? false,
    cascadeSource: cascade.source,
    ...(entity?.parentId === undefined ? {} : { parentId: entity.parentId }),
    ...(onUnavailable === undefined ? {} : { onUnavailable }),
  };
}

function totalsIn({ limits, source, sources, forEveryone }: MergedLimits) {
  return {
    totals: limits,
    totalsSource: source,
    ...(sources === undefined ? {} : { totalsSources: sources }),
    ...(forEveryone === undefined ? {} : { totalsForEveryone: forEveryone }),
  };
}

/** A change of what a scope limits: what is absent stays; but new limits come with their options, absent ones are the default. */
export interface LimitsChange extends LevelOptions {
  /** Empty: none any more. */
  readonly limits?: readonly Limit[];
  /** System level only; `null` takes it away. */
  readonly onUnavailable?: OnUnavailable | null;
  /** System level only; `null` takes it away. A store that keeps usage as it was opened refuses it. */
  readonly usageKeptDays?: number | null;
  /** Only where no limits are. */
  readonly ifAbsent?: true;
  /** Only where the scope says exactly this, policy and settings included; one that says nothing has no limits and no more. */
  readonly expected?: StoredConfig;
}

function first<Value>(
  found: readonly (StoredConfig | undefined)[],
  scopes: readonly ConfigScope[],
  pick: (config: StoredConfig) => Value | undefined,
): { readonly value: Value | undefined; readonly source: LimitSource } {
  for (const [i, scope] of scopes.entries()) {
    const config = found[i];
    const value = config === undefined ? undefined : pick(config);
    if (value !== undefined) return { value, source: scope.level };
  }
  return { value: undefined, source: "none" };
}
