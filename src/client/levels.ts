import type { StoredConfig } from "../domain/config.ts";
import { NotFoundError } from "../domain/errors.ts";
import type { Limit } from "../domain/limit.ts";
import { checkName, refuse } from "./check.ts";
import type { ServiceCalls } from "./http.ts";
import { at, type Path } from "./path.ts";

/** By which route the service knows a level, and which query names it. */
export interface LevelRoute {
  readonly path: Path;
  readonly query: { readonly entityId?: string; readonly planId?: string; readonly resource?: string };
}

/** What `set…`, `get…` and `delete…` of a level begin with: the name of its owner; "" where it has none. */
export const LEVELS = {
  Limits: "entityId",
  PlanLimits: "planId",
  ResourceDefaults: "resource",
  SystemDefaults: "",
  Totals: "entityId",
  PlanTotals: "planId",
  SystemTotals: "",
} as const;

/** The route of a level; and the options without the resource, where that is part of it. */
export function routeOf(
  level: string,
  owner: string,
  { resource, ...rest }: { readonly resource?: string },
): LevelRoute & { readonly options: object } {
  const field = LEVELS[level as keyof typeof LEVELS];
  const isOn = level.endsWith("Limits") && resource !== undefined;
  return {
    path: level.endsWith("Totals") ? at`totals` : at`limits`,
    query: {
      ...(field && { [field]: checkName(field, owner) }),
      ...(isOn && { resource: checkName("resource", resource) }),
    },
    options: isOn || resource === undefined ? rest : { resource, ...rest },
  };
}

/** What a level says, with its tag where the service has one; `limits: []` where it says nothing. */
export async function readLevel(
  calls: ServiceCalls,
  { path, query }: LevelRoute,
): Promise<{ readonly config: StoredConfig; readonly tag?: string | null }> {
  return unlessEmpty<{ config: StoredConfig; tag?: string | null }>({ config: { limits: [] } }, async () => {
    const { body, headers } = await calls.answer<StoredConfig & Record<string, unknown>>("GET", path, { query });
    const { level: _, entityId: __, planId: ___, resource: ____, ...config } = body;
    return { config, tag: headers.get("etag") };
  });
}

/** Sets the limits of a level, with `ifTag` only while it is what was read with this tag. Answers whether that changed something. */
export async function setLevel(
  calls: ServiceCalls,
  { path, query }: LevelRoute,
  limits: readonly Limit[],
  { principal, ...options }: { readonly principal?: string | undefined },
  ifTag?: string | null,
): Promise<boolean> {
  refuse({ principal });
  const { body, repeats } = await calls.answer<{ readonly changed: boolean }>("PUT", path, {
    query,
    body: { limits, ...options },
    // Sent again after a lost answer, what was read has been changed: by the first.
    ...(ifTag && { headers: { "if-match": ifTag }, repeats: "never" }),
  });
  // A repeat finds what the first may have set, and cannot tell whose it is.
  return body.changed || repeats > 0;
}

/** Answers whether there were any. */
export function deleteLevel(calls: ServiceCalls, { path, query }: LevelRoute, options: object): Promise<boolean> {
  return unlessEmpty(false, async () => {
    refuse(options);
    await calls.answer("DELETE", path, { query, repeats: "never" });
    return true;
  });
}

async function unlessEmpty<Value>(none: Value, work: () => Promise<Value>): Promise<Value> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof NotFoundError && error.code === "limits_not_found") return none;
    throw error;
  }
}
