import { TOTAL_RESOURCE } from "../bucket/bucket-key.ts";
import type { Limit } from "../limits/limit.ts";
import { type MergeProblem, mergedLimits } from "../limits/merged-limits.ts";
import { given } from "../names/given.ts";
import { type ConfigScope, isTotal, type LevelOptions, type LimitSource } from "./config-scope.ts";

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

/** A namespace at rest: nothing is taken, topped up or reset there. */
export interface Frozen {
  /** The reason, as it was given. Absent: none was. */
  readonly reason?: string;
}

/** The policy of a scope besides limits; what it does not say is asked one scope further out. */
interface ScopePolicy {
  readonly access?: Access;
  /** System level only: the namespace is frozen, whatever access says. Limits that are set or deleted leave it as it is. */
  readonly frozen?: Frozen;
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

/** Limits that hide those of their level, the base, until an instant. */
export interface LimitsOverride extends LevelOptions {
  readonly fromMs: number;
  readonly untilMs: number;
  readonly limits: readonly Limit[];
}

/** Access that hides what its scope says otherwise, until an instant. */
export interface AccessOverride {
  readonly untilMs: number;
  readonly access: Access;
}

export interface StoredConfig extends ScopePolicy, SystemSettings, LevelOptions {
  readonly limits: readonly Limit[];
  /** Limits in place of these until an instant; it may be over. */
  readonly override?: LimitsOverride;
  /** Access in place of `access` until an instant; it may be over. */
  readonly accessOverride?: AccessOverride;
}

/** A change of policy: `null` takes a value away, absent leaves it. */
export interface PolicyChange {
  readonly access?: Access | null;
  /** The access counts until then, and what the scope said before counts again. */
  readonly untilMs?: number;
  /** An override of access that runs goes on, and the access counts afterwards. */
  readonly keepOverride?: true;
  readonly cascade?: boolean | null;
  /** System level only. */
  readonly frozen?: Frozen | null;
}

/** Limits of an entity on a resource from an instant on: what its scopes said together. */
export interface LimitsSince {
  readonly fromMs: number;
  /** The number of the change: a later one has a higher number. */
  readonly number: number;
  readonly limits: readonly Limit[];
  /** It came by itself: the end of an override. */
  readonly isEnd?: true;
}

/** The configuration of one level of the chain, read together. */
export interface LevelConfig {
  /** Whether the entity was created; it need not be. */
  readonly created: boolean;
  /** The limits of its bucket on the resource: those of the entity as a caller. */
  readonly limits: readonly Limit[];
  /** The first level that has any. */
  readonly source: LimitSource;
  /** The level of each limit by name, where levels were added up; absent: all are of `source`. */
  readonly sources?: Readonly<Record<string, LimitSource>>;
  /** The limits that a request from below takes of; absent: all of `limits`. */
  readonly forEveryone?: readonly Limit[];
  /** Limits of the entity over all resources, as a caller; their bucket is that of the resource `"*"`. */
  readonly totals: readonly Limit[];
  readonly totalsSource: LimitSource;
  /** The `sources` of the totals. */
  readonly totalsSources?: Readonly<Record<string, LimitSource>>;
  /** The totals that a request from below takes of; absent: all. */
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
  /** The namespace is frozen. */
  readonly frozen?: Frozen;
  /**
   * The number of the read of configuration by this process, where the store cannot say that configuration changed: a bucket
   * that casts doubt on it is believed until a later read.
   */
  readonly reading?: number;
  /** Every change that was answered before the read began is in it, although the store was not asked for that. */
  readonly isConsistent?: true;
  /** The generation as of which it was read, where the store tells. */
  readonly generation?: number;
  /** The changes of its limits that are kept, the oldest first; the last has the limits of now. Absent: none is known. */
  readonly changes?: readonly LimitsSince[];
  /** The `changes` of the totals. */
  readonly totalsChanges?: readonly LimitsSince[];
  /** What applies from the next end of an override on, if that makes a difference. It may have come already: see `levelAt`. */
  readonly next?: { readonly atMs: number; readonly level: LevelConfig };
}

/** The fields of an entity that its limits depend on. */
export interface ConfiguredEntity {
  readonly parentId?: string;
  readonly planId?: string;
  readonly cascade: boolean;
}

/** The stored text of a frozen namespace: the reason, empty where none was given. Undefined: it is not frozen. */
export function textOfFrozen(frozen: Frozen | undefined): string | undefined {
  return frozen && (frozen.reason ?? "");
}

/** Reads what `textOfFrozen` has made. */
export function frozenOf(text: string | null | undefined): Frozen | undefined {
  if (text === null || text === undefined) return undefined;
  return text === "" ? {} : { reason: text };
}

/** Resolves what the scopes and the entity say together; `found` is in the order of `scopes`, which `scopesOf` made. */
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
  const { onUnavailable, frozen } = found[scopes.findIndex(({ level }) => level === "system")] ?? {};
  return {
    created: entity !== undefined,
    limits: limits.limits,
    source: limits.source,
    ...given({ sources: limits.sources, forEveryone: limits.forEveryone }),
    totals: totals.limits,
    totalsSource: totals.source,
    ...given({ totalsSources: totals.sources, totalsForEveryone: totals.forEveryone, problem }),
    ...given({ onUnavailable, frozen }),
    ...given({ planId: entity?.planId, parentId: entity?.parentId }),
    access: access.value ?? "enforce",
    accessSource: access.source,
    cascade: cascade.value ?? entity?.cascade ?? false,
    cascadeSource: cascade.source,
  };
}

/** The level at a reading of the clock: overrides that are over by then are none. */
export function levelAt(level: LevelConfig, nowMs: number): LevelConfig {
  let then = level;
  while (then.next !== undefined && nowMs >= then.next.atMs) then = then.next.level;
  if (then === level) return level;
  // It was read with the first one.
  const { reading, isConsistent } = level;
  return { ...then, ...given({ reading, isConsistent }) };
}

/** A change of what a scope limits: what is absent stays; but new limits come with their options, absent ones are the default. */
export interface LimitsChange extends LevelOptions {
  /** The limits are an override that ends then. Absent: they are the base, and a running override is gone. */
  readonly untilMs?: number;
  /** The limits are the base under a running override, which goes on. */
  readonly keepOverride?: true;
  /** Empty: none any more. */
  readonly limits?: readonly Limit[];
  /** System level only; `null` takes it away. */
  readonly onUnavailable?: OnUnavailable | null;
  /** System level only; `null` takes it away. A store that keeps usage as it was opened refuses it. */
  readonly usageKeptDays?: number | null;
  /** The change is made only where there are no limits. */
  readonly ifAbsent?: true;
  /** The change is made only where the scope says exactly this, with policy and settings; one that says nothing has no limits and no more. */
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
