import { auditIdOf, type ConfigScope, isTotal, type StoredConfig } from "../../domain/config/config.ts";
import type { SetOutcome } from "./administration.ts";
import { type ChangeOptions, resourceIn } from "./level-options.ts";
import type { Limiter } from "./limiter.ts";
import { partsOf } from "./limiter-parts.ts";

/** Deletes what a level says of limits, only while it says what was read of it. Only the service does so: it is no part of a limiter. */
export async function deleteConfigIf(
  limiter: Limiter,
  scope: ConfigScope,
  options: ChangeOptions,
  expected: StoredConfig,
): Promise<SetOutcome> {
  const { admin, deps } = partsOf(limiter);
  const action = isTotal(scope) ? "totals_deleted" : "limits_deleted";
  const event = admin.event(action, auditIdOf(scope), options, {}, resourceIn(scope));
  const change = { limits: [], ...(scope.level === "system" ? { onUnavailable: null } : {}), expected };
  const reply = await deps.scope.config.set(scope, change, event);
  if (reply === "written") admin.changed(event);
  // A plan that is gone took its limits with it.
  return reply === "planMissing" ? "unchanged" : reply;
}
