import type { Access, OnUnavailable } from "../domain/config.ts";
import { ExistsError, NotFoundError } from "../domain/errors.ts";
import type { Limit } from "../domain/limit.ts";
import { type EntityValue, type LimitsValue, limitsOfValue, type PlanValue, scopeOfPiece } from "../domain/piece.ts";
import type { ChangeOptions } from "../engine/level-options.ts";
import type { Limiter } from "../engine/limiter.ts";
import type { LimiterParts } from "../engine/limiter-parts.ts";
import type { Change } from "./change.ts";

/** Makes one change by the calls that anybody would make it by: registries, live buckets and the audit trail follow. */
export async function writeChange(
  limiter: Limiter,
  { admin }: LimiterParts,
  change: Change,
  who: ChangeOptions,
): Promise<void> {
  const { what, after } = change;
  switch (what) {
    case "limits":
    case "totals":
      return writeLimits({ admin }, change, who);
    case "plan":
      return writePlan(limiter, change, who);
    case "access":
      await limiter.setAccess(whereOf(change), (after as Access | null) ?? "inherit", who);
      return;
    case "cascade":
      await limiter.setCascade(whereOf(change), (after as boolean | null) ?? "inherit", who);
      return;
    case "onUnavailable":
      return admin.changeSystem({ onUnavailable: after as OnUnavailable | null }, who);
    case "usageKeptDays":
      return admin.changeSystem({ usageKeptDays: after as number | null }, who);
    case "entity":
      return writeEntity(limiter, change, who);
  }
}

async function writeLimits({ admin }: Pick<LimiterParts, "admin">, change: Change, who: ChangeOptions): Promise<void> {
  const after = change.after as readonly Limit[] | LimitsValue | null;
  const scope = scopeOfPiece(change);
  if (scope === undefined) return;
  if (scope.level === "system") {
    return admin.changeSystem(after === null ? { limits: null } : limitsOfValue(after), who);
  }
  if (after === null) {
    // With its plan they may be gone already.
    await admin.deleteConfig(scope, who).catch(unlessMissing);
    return;
  }
  const { limits, ...options } = limitsOfValue(after);
  await admin.setConfig(scope, limits, { ...options, ...who });
}

async function writePlan(limiter: Limiter, { planId = "", before, after }: Change, who: ChangeOptions): Promise<void> {
  if (after === null) return limiter.deletePlan(planId, who).catch(unlessMissing);
  const { name, metadata } = after as PlanValue;
  if (before === null) {
    try {
      await limiter.createPlan({ id: planId, name, metadata }, who);
      return;
    } catch (error) {
      if (!(error instanceof ExistsError)) throw error;
    }
  }
  await limiter.updatePlan(planId, { name, metadata }, who);
}

// Somebody was faster.
function unlessMissing(error: unknown): void {
  if (!(error instanceof NotFoundError)) throw error;
}

// What is absent of a declared entity has its default, so all of it is written.
async function writeEntity(
  limiter: Limiter,
  { entityId = "", before, after }: Change,
  who: ChangeOptions,
): Promise<void> {
  if (after === null) {
    return limiter.deleteEntity(entityId, who).catch(unlessMissing);
  }
  const { parentId, planId, ...rest } = after as EntityValue;
  if (before === null) {
    try {
      const owners = { ...(parentId === undefined ? {} : { parentId }), ...(planId === undefined ? {} : { planId }) };
      await limiter.createEntity({ id: entityId, ...rest, ...owners }, who);
      return;
    } catch (error) {
      if (!(error instanceof ExistsError)) throw error;
    }
  }
  await limiter.updateEntity(entityId, { ...rest, parentId: parentId ?? null, planId: planId ?? null }, who);
}

function whereOf({ entityId, resource }: Change): { readonly entityId?: string; readonly resource?: string } {
  return { ...(entityId === undefined ? {} : { entityId }), ...(resource === undefined ? {} : { resource }) };
}
