import { type UsageWindow, windowStartMs } from "../../domain/charge/usage.ts";
import { ValidationError } from "../../domain/names/errors.ts";
import { checkInstant, checkSpan } from "../../domain/names/instant.ts";
import { checkBucketResource, checkEntityId, shown } from "../../domain/names/names.ts";
import type { UsageQuery } from "../../ports/usage-store.ts";

/** Which usage to answer. */
export interface UsageRequest {
  /** Of this entity. Default: of all. */
  readonly entityId?: string;
  /** Of this resource; `"*"` is the total. Default: of all. */
  readonly resource?: string;
  /** How long each window is. */
  readonly window: UsageWindow;
  /** The first window is the one that contains this instant. Default: from the beginning. */
  readonly fromMs?: number;
  /** Only windows that start before this instant. Default: to the end. */
  readonly toMs?: number;
}

export function usageQuery(request: UsageRequest, nowMs: number): UsageQuery {
  const { entityId, resource, window } = request;
  if (window !== "hourly" && window !== "daily" && window !== "monthly") {
    throw new ValidationError("window_invalid", `window is ${shown(window)}; give "hourly", "daily" or "monthly".`);
  }
  const fromMs = checkInstant("fromMs", request.fromMs, nowMs);
  const toMs = checkInstant("toMs", request.toMs, nowMs);
  checkSpan({ name: "fromMs", ms: fromMs }, { name: "toMs", ms: toMs });
  return {
    ...(entityId === undefined ? {} : { entityId: checkEntityId(entityId) }),
    ...(resource === undefined ? {} : { resource: checkBucketResource(resource) }),
    window,
    fromMs: fromMs === undefined || !Number.isFinite(fromMs) ? 0 : windowStartMs(window, fromMs),
    toMs: toMs ?? Number.MAX_SAFE_INTEGER,
  };
}
