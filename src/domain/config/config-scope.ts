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

/** The most changes of a scope that are kept. What was there before the oldest of them counts for all time before. */
export const CHANGES_KEPT = 8;

/** The level of the configuration that something came from. */
export type LimitSource = ConfigScope["level"] | "none";

/** To whom limits apply: also to parents that are charged (`everyone`), or only to the entity that asks (`callers`). */
export type AppliesTo = "everyone" | "callers";

/**
 * How the limits of a level go together with those of more general levels, and to whom they apply. An option that is
 * absent has its default.
 */
export interface LevelOptions {
  /**
   * Limits of more general levels apply besides these; a limit of the same name replaces theirs. Default: only these
   * limits apply.
   */
  readonly inherit?: true;
  /** `"callers"`: the limits apply to the entity that asks, not to parents. Default: also to parents that are charged. */
  readonly appliesTo?: "callers";
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

/** The id under which changes of a scope appear in the audit log; `$` cannot begin an entity id. */
export function auditIdOf(scope: ConfigScope): string {
  if ("planId" in scope) return planAuditId(scope.planId);
  if ("entityId" in scope) return scope.entityId;
  return "resource" in scope ? `$RESOURCE:${scope.resource}` : "$SYSTEM";
}

/** The id under which changes of a plan appear in the audit log. */
export function planAuditId(planId: string): string {
  return `$PLAN:${planId}`;
}
