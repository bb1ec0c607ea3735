import type { ConfigScope } from "../domain/config/config.ts";
import { TOTAL_RESOURCE } from "../domain/config/totals.ts";

/** The entity or the plan, then the resource; empty: any. */
function keyOf(scope: ConfigScope): [owner: string, resource: string] {
  const owner = "planId" in scope ? scope.planId : "entityId" in scope ? scope.entityId : "";
  if ("resource" in scope) return [owner, scope.resource];
  const isTotal = scope.level === "entityTotal" || scope.level === "planTotal" || scope.level === "systemTotal";
  return [owner, isTotal ? TOTAL_RESOURCE : ""];
}

/** The scope of a row of `config`. */
export function scopeOfRow(entityId: string, resource: string): ConfigScope {
  if (entityId === "") {
    if (resource === TOTAL_RESOURCE) return { level: "systemTotal" };
    return resource === "" ? { level: "system" } : { level: "resource", resource };
  }
  if (resource === TOTAL_RESOURCE) return { level: "entityTotal", entityId };
  return resource === "" ? { level: "entityDefault", entityId } : { level: "entity", entityId, resource };
}

/** The scope of a row of `plan_config`. */
export function scopeOfPlanRow(planId: string, resource: string): ConfigScope {
  if (resource === TOTAL_RESOURCE) return { level: "planTotal", planId };
  return resource === "" ? { level: "planDefault", planId } : { level: "plan", planId, resource };
}

/** The place of a scope: whose it is, an entity's, a default's or a plan's, and of which resource; empty: any. */
type HistoryKey = readonly [of: "entity" | "plan", owner: string, resource: string];

type StintsKey = readonly [of: "stints", owner: string, resource: ""];

export function historyKey(scope: ConfigScope): HistoryKey {
  return ["planId" in scope ? "plan" : "entity", ...keyOf(scope)];
}

/** The place of the plans that an entity had. */
export function stintsKey(entityId: string): StintsKey {
  return ["stints", entityId, ""];
}
