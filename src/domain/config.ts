import type { Limit } from "./limit.ts";
import { type MergedLimits, type MergeProblem, mergedLimits } from "./merged-limits.ts";

/** What an outage of the store means: requests are refused (`block`) or let through uncounted (`allow`). */
export type OnUnavailable = "allow" | "block";

/** What an id means that was never created: it is limited by defaults, or refused. */
export type UnknownEntities = "allow" | "refuse";

/**
 * The places where limits are stored, most specific first: six for what is taken on a resource, three for totals over all
 * resources. The first that has any wins whole, unless it says `inherit`: then it adds to what comes after it.
 */
export type ConfigScope =
  | { readonly level: "entity"; readonly entityId: string; readonly resource: string }
  | { readonly level: "entityDefault"; readonly entityId: string }
  | { readonly level: "plan"; readonly planId: string; readonly resource: string }
  | { readonly level: "planDefault"; readonly planId: string }
  | { readonly level: "resource"; readonly resource: string }
  | { readonly level: "system" }
  | { readonly level: "entityTotal"; readonly entityId: string }
  | { readonly level: "planTotal"; readonly planId: string }
  | { readonly level: "systemTotal" };

/** The level of configuration that something came from. */
export type LimitSource = ConfigScope["level"] | "none";

/** Whom limits meet: also parents that are charged, or only the entity that asks. */
export type AppliesTo = "everyone" | "callers";

/** `disabled`: refused at once. `bypass`: let through, counted, nothing debited. `enforce`: the limits count. */
export type Access = "disabled" | "bypass" | "enforce";

/** What a scope says besides limits; what it does not say is asked one scope further out. */
interface ScopePolicy {
  readonly access?: Access;
  /** Whether parents are charged, in place of the entity's own flag. */
  readonly cascade?: boolean;
}

/** What only the system level says besides limits and policy. */
export interface SystemSettings {
  /** What an outage of the store means. */
  readonly onUnavailable?: OnUnavailable;
  /** For how many days usage is kept on DynamoDB after it was counted. Memory and SQLite have `usage: { keepMs }` instead. */
  readonly usageKeptDays?: number;
}

/** How the limits of a level go with the levels after it, and whom they meet. What is absent is the default. */
export interface LevelOptions {
  /** Adds to the levels after it: limits of the same name replace, others stay. Default: the level wins whole. */
  readonly inherit?: true;
  /** `callers`: only the entity that asks. Default: also parents that are charged. */
  readonly appliesTo?: "callers";
}

export interface StoredConfig extends ScopePolicy, SystemSettings, LevelOptions {
  readonly limits: readonly Limit[];
}

/** A change of policy: `null` takes a value away, absent leaves it. */
export interface PolicyChange {
  readonly access?: Access | null;
  readonly cascade?: boolean | null;
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
}

/**
 * The scopes that apply to an entity on a resource, in the order in which they are asked: those of limits, then those of totals.
 * `planId`: undefined where the entity has none.
 */
export function scopesOf(entityId: string, resource: string, planId: string | undefined): readonly ConfigScope[] {
  return [
    { level: "entity", entityId, resource },
    { level: "entityDefault", entityId },
    ...(planId === undefined ? [] : planScopes(planId, resource)),
    { level: "resource", resource },
    { level: "system" },
    { level: "entityTotal", entityId },
    ...(planId === undefined ? [] : [{ level: "planTotal", planId } as const]),
    { level: "systemTotal" },
  ];
}

function planScopes(planId: string, resource: string): readonly ConfigScope[] {
  return [
    { level: "plan", planId, resource },
    { level: "planDefault", planId },
  ];
}

/** Whether a scope has limits over all resources. */
export function isTotal({ level }: ConfigScope): boolean {
  return level === "entityTotal" || level === "planTotal" || level === "systemTotal";
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
  const limits = mergedLimits(found.slice(0, totalsAt), scopes.slice(0, totalsAt));
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
  /** System level only. A store that keeps usage as it was opened refuses it. */
  readonly usageKeptDays?: number;
  /** Only where no limits are. */
  readonly ifAbsent?: true;
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

/** Under which id a scope's changes appear in the audit log; `$` cannot begin an entity id. */
export function auditIdOf(scope: ConfigScope): string {
  switch (scope.level) {
    case "system":
    case "systemTotal":
      return "$SYSTEM";
    case "resource":
      return `$RESOURCE:${scope.resource}`;
    case "plan":
    case "planDefault":
    case "planTotal":
      return planAuditId(scope.planId);
    default:
      return scope.entityId;
  }
}

/** Under which id the changes of a plan appear in the audit log. */
export function planAuditId(planId: string): string {
  return `$PLAN:${planId}`;
}
