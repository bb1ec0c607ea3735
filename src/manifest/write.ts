import type { Access, OnUnavailable } from "../domain/config.ts";
import { ExistsError, NotFoundError } from "../domain/errors.ts";
import type { Limit } from "../domain/limit.ts";
import type { EntityValue } from "../domain/piece.ts";
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
      return writeLimits(limiter, { admin }, change, who);
    case "access":
      await limiter.setAccess(whereOf(change), (after as Access | null) ?? "inherit", who);
      return;
    case "cascade":
      await limiter.setCascade(whereOf(change), (after as boolean | null) ?? "inherit", who);
      return;
    case "onUnavailable":
      return admin.changeSystem({ onUnavailable: after as OnUnavailable | null }, who);
    case "entity":
      return writeEntity(limiter, change, who);
  }
}

async function writeLimits(
  limiter: Limiter,
  { admin }: Pick<LimiterParts, "admin">,
  { level, resource = "", entityId = "", after }: Change,
  who: ChangeOptions,
): Promise<void> {
  const limits = after as readonly Limit[] | null;
  if (level === "system") return admin.changeSystem({ limits }, who);
  if (level === "resource") {
    if (limits !== null) await limiter.setResourceDefaults(resource, limits, who);
    else await limiter.deleteResourceDefaults(resource, who);
    return;
  }
  const options = level === "entity" ? { resource, ...who } : who;
  if (limits !== null) await limiter.setLimits(entityId, limits, options);
  else await limiter.deleteLimits(entityId, options);
}

// What is absent of a declared entity has its default, so all of it is written.
async function writeEntity(
  limiter: Limiter,
  { entityId = "", before, after }: Change,
  who: ChangeOptions,
): Promise<void> {
  if (after === null) {
    return limiter.deleteEntity(entityId, who).catch((error: unknown) => {
      // Somebody was faster.
      if (!(error instanceof NotFoundError)) throw error;
    });
  }
  const { parentId, ...rest } = after as EntityValue;
  if (before === null) {
    try {
      await limiter.createEntity({ id: entityId, ...rest, ...(parentId === undefined ? {} : { parentId }) }, who);
      return;
    } catch (error) {
      if (!(error instanceof ExistsError)) throw error;
    }
  }
  await limiter.updateEntity(entityId, { ...rest, parentId: parentId ?? null }, who);
}

function whereOf({ entityId, resource }: Change): { readonly entityId?: string; readonly resource?: string } {
  return { ...(entityId === undefined ? {} : { entityId }), ...(resource === undefined ? {} : { resource }) };
}
