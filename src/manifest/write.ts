import type { Access, OnUnavailable } from "../domain/config/config.ts";
import {
  type EntityValue,
  type LimitsValue,
  limitsOfValue,
  type PlanValue,
  scopeOfPiece,
} from "../domain/config/piece.ts";
import type { Limit } from "../domain/limits/limit.ts";
import { NotFoundError } from "../domain/names/errors.ts";
import type { ChangeOptions } from "../engine/limiter/level-options.ts";
import type { Limiter } from "../engine/limiter/limiter.ts";
import type { LimiterParts } from "../engine/limiter/limiter-parts.ts";
import type { Change } from "./change.ts";
import type { LivePiece } from "./stale.ts";

/** Who makes a change, and what it finds. */
interface ChangeContext extends ChangeOptions {
  readonly live: LivePiece;
}

/**
 * Makes one change by the calls that anybody would make it by: registries, live buckets and the audit trail follow. An entity or
 * a plan is created only where none is, and updated only at the version that was found.
 */
export async function writeChange(
  limiter: Limiter,
  { admin }: LimiterParts,
  change: Change,
  { live, ...who }: ChangeContext,
): Promise<void> {
  const { what, after } = change;
  switch (what) {
    case "limits":
    case "totals":
      return writeLimits({ admin }, change, who);
    case "plan":
      return writePlan(limiter, change, { live, ...who });
    case "access":
      await limiter.setAccess(whereOf(change), (after as Access | null) ?? "inherit", who);
      return;
    case "cascade":
      await limiter.setCascade(whereOf(change), (after as boolean | null) ?? "inherit", who);
      return;
    case "onUnavailable":
      await admin.changeSystem({ onUnavailable: after as OnUnavailable | null }, who);
      return;
    case "usageKeptDays":
      await admin.changeSystem({ usageKeptDays: after as number | null }, who);
      return;
    case "entity":
      return writeEntity(limiter, change, { live, ...who });
  }
}

async function writeLimits({ admin }: Pick<LimiterParts, "admin">, change: Change, who: ChangeOptions): Promise<void> {
  const after = change.after as readonly Limit[] | LimitsValue | null;
  const scope = scopeOfPiece(change);
  if (scope === undefined) return;
  if (scope.level === "system") {
    await admin.changeSystem(after === null ? { limits: null } : limitsOfValue(after), who);
    return;
  }
  if (after === null) {
    // With its plan they may be gone already.
    await admin.deleteConfig(scope, who).catch(unlessMissing);
    return;
  }
  const { limits, ...options } = limitsOfValue(after);
  await admin.setConfig(scope, limits, { ...options, ...who });
}

async function writePlan(
  limiter: Limiter,
  { planId = "", after }: Change,
  { live, ...who }: ChangeContext,
): Promise<void> {
  if (after === null) return limiter.deletePlan(planId, who).catch(unlessMissing);
  const { name, metadata } = after as PlanValue;
  if (live.version === undefined) await limiter.createPlan({ id: planId, name, metadata }, who);
  else await limiter.updatePlan(planId, { name, metadata }, { ...who, version: live.version });
}

// Somebody was faster.
function unlessMissing(error: unknown): void {
  if (!(error instanceof NotFoundError)) throw error;
}

// What is absent of a declared entity has its default, so all of it is written.
async function writeEntity(
  limiter: Limiter,
  { entityId = "", after }: Change,
  { live, ...who }: ChangeContext,
): Promise<void> {
  if (after === null) {
    return limiter.deleteEntity(entityId, who).catch(unlessMissing);
  }
  const { parentId, planId, ...rest } = after as EntityValue;
  if (live.version === undefined) {
    const owners = { ...(parentId === undefined ? {} : { parentId }), ...(planId === undefined ? {} : { planId }) };
    await limiter.createEntity({ id: entityId, ...rest, ...owners }, who);
    return;
  }
  const patch = { ...rest, parentId: parentId ?? null, planId: planId ?? null };
  await limiter.updateEntity(entityId, patch, { ...who, version: live.version });
}

function whereOf({ entityId, resource }: Change): { readonly entityId?: string; readonly resource?: string } {
  return { ...(entityId === undefined ? {} : { entityId }), ...(resource === undefined ? {} : { resource }) };
}
