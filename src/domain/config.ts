import type { Limit } from "./limit.ts";

/** What an outage of the store means: requests are refused (`block`) or let through uncounted (`allow`). */
export type OnUnavailable = "allow" | "block";

/** What an id means that was never created: it is limited by defaults, or refused. */
export type UnknownEntities = "allow" | "refuse";

/** The four places where limits are stored, most specific first. The first that has any wins whole; they do not merge. */
export type ConfigScope =
  | { readonly level: "entity"; readonly entityId: string; readonly resource: string }
  | { readonly level: "entityDefault"; readonly entityId: string }
  | { readonly level: "resource"; readonly resource: string }
  | { readonly level: "system" };

/** The level of configuration that something came from. */
export type LimitSource = ConfigScope["level"] | "none";

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

export interface StoredConfig extends ScopePolicy, SystemSettings {
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
  readonly limits: readonly Limit[];
}

/** Everything the plan needs of one level of the chain, read together. */
export interface LevelConfig {
  /** Whether the entity was created; it need not be. */
  readonly created: boolean;
  readonly limits: readonly Limit[];
  readonly source: LimitSource;
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
}

/** The scopes that apply to an entity on a resource, in the order in which they are asked. */
export function scopesOf(entityId: string, resource: string): readonly ConfigScope[] {
  return [
    { level: "entity", entityId, resource },
    { level: "entityDefault", entityId },
    { level: "resource", resource },
    { level: "system" },
  ];
}

/** What the four scopes and the entity say together; `found` is in the order of `scopesOf`. */
export function resolveConfig(
  found: readonly (StoredConfig | undefined)[],
  scopes: readonly ConfigScope[],
  entity: { readonly parentId?: string; readonly cascade: boolean } | undefined,
): LevelConfig {
  const limits = first(found, scopes, (config) => (config.limits.length > 0 ? config.limits : undefined));
  const access = first(found, scopes, (config) => config.access);
  const cascade = first(found, scopes, (config) => config.cascade);
  const onUnavailable = found[scopes.findIndex(({ level }) => level === "system")]?.onUnavailable;
  return {
    created: entity !== undefined,
    limits: limits.value ?? [],
    source: limits.source,
    access: access.value ?? "enforce",
    accessSource: access.source,
    cascade: cascade.value ?? entity?.cascade ?? false,
    cascadeSource: cascade.source,
    ...(entity?.parentId === undefined ? {} : { parentId: entity.parentId }),
    ...(onUnavailable === undefined ? {} : { onUnavailable }),
  };
}

/** A stored configuration with its policy changed; undefined when it then says nothing at all. */
export function withPolicy(config: StoredConfig | undefined, change: PolicyChange): StoredConfig | undefined {
  const { access, cascade, ...rest } = config ?? { limits: [] };
  const next = {
    access: change.access === undefined ? access : (change.access ?? undefined),
    cascade: change.cascade === undefined ? cascade : (change.cascade ?? undefined),
  };
  const changed: StoredConfig = {
    ...rest,
    ...(next.access === undefined ? {} : { access: next.access }),
    ...(next.cascade === undefined ? {} : { cascade: next.cascade }),
  };
  return saysSomething(changed) ? changed : undefined;
}

/** A change of what a scope limits: what is absent stays. */
export interface LimitsChange {
  /** Empty: none any more. */
  readonly limits?: readonly Limit[];
  /** System level only; `null` takes it away. */
  readonly onUnavailable?: OnUnavailable | null;
  /** System level only. A store that keeps usage as it was opened refuses it. */
  readonly usageKeptDays?: number;
}

/** A stored configuration with its limits replaced, its policy kept; undefined when it then says nothing at all. */
export function withLimits(config: StoredConfig | undefined, next: LimitsChange): StoredConfig | undefined {
  const { onUnavailable: before, ...rest } = config ?? { limits: [] };
  const onUnavailable = next.onUnavailable === undefined ? before : (next.onUnavailable ?? undefined);
  const changed: StoredConfig = {
    ...rest,
    limits: next.limits ?? rest.limits,
    ...(onUnavailable === undefined ? {} : { onUnavailable }),
    ...(next.usageKeptDays === undefined ? {} : { usageKeptDays: next.usageKeptDays }),
  };
  return saysSomething(changed) ? changed : undefined;
}

/**
 * A stored configuration without its limits, its policy kept; undefined when it then says nothing at all. How long usage is kept
 * stays, too: whoever takes limits away does not mean the bills.
 */
export function withoutLimits(config: StoredConfig): StoredConfig | undefined {
  const { limits: _, onUnavailable: __, ...policy } = config;
  const changed = { ...policy, limits: [] };
  return saysSomething(changed) ? changed : undefined;
}

function saysSomething({ limits, ...rest }: StoredConfig): boolean {
  return limits.length > 0 || Object.values(rest).some((value) => value !== undefined);
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
      return "$SYSTEM";
    case "resource":
      return `$RESOURCE:${scope.resource}`;
    default:
      return scope.entityId;
  }
}
