import type { Limit } from "./limit.ts";

export type OnUnavailable = "allow" | "block";

/** The four places where limits are stored, most specific first. The first that has any wins whole; they do not merge. */
export type ConfigScope =
  | { readonly level: "entity"; readonly entityId: string; readonly resource: string }
  | { readonly level: "entityDefault"; readonly entityId: string }
  | { readonly level: "resource"; readonly resource: string }
  | { readonly level: "system" };

export type LimitSource = ConfigScope["level"] | "none";

export interface StoredConfig {
  readonly limits: readonly Limit[];
  /** System level only. */
  readonly onUnavailable?: OnUnavailable;
}

/** Everything the plan needs of one level of the chain, read together. */
export interface LevelConfig {
  readonly limits: readonly Limit[];
  readonly source: LimitSource;
  /** Absent when the entity was never created. */
  readonly entity?: { readonly parentId?: string; readonly cascade: boolean };
  readonly onUnavailable?: OnUnavailable;
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

/** The first scope with limits; `found` is in the order of `scopesOf`. */
export function resolveLimits(
  found: readonly (StoredConfig | undefined)[],
  scopes: readonly ConfigScope[],
): { readonly limits: readonly Limit[]; readonly source: LimitSource } {
  for (let i = 0; i < scopes.length; i++) {
    const limits = found[i]?.limits ?? [];
    if (limits.length > 0) return { limits, source: (scopes[i] as ConfigScope).level };
  }
  return { limits: [], source: "none" };
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
