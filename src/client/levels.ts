import type { StoredConfig } from "../domain/config.ts";
import { NotFoundError } from "../domain/errors.ts";
import type { Limit } from "../domain/limit.ts";
import { checkName, refuse } from "./check.ts";
import type { ServiceCalls } from "./http.ts";

/** By which route the service knows a level, and which query names it. */
export interface LevelRoute {
  readonly path: string;
  readonly query: Readonly<Record<string, string | undefined>>;
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

/** The route of a level, and the options without the resource, where that is part of it. */
export function routeOf(level: string, field: string, owner: string, options: object) {
  const path = level.endsWith("Totals") ? "/totals" : "/limits";
  const query = field === "" ? {} : { [field]: checkName(field, owner) };
  if (!level.endsWith("Limits")) return { route: { path, query }, rest: options };
  const { resource, ...rest } = options as { readonly resource?: string };
  return { route: { path, query: resource === undefined ? query : { ...query, resource: checkName("resource", resource) } }, rest };
}

/** What a level says, with its tag where the service has one; `limits: []` where it says nothing. */
export async function readLevel(
  calls: ServiceCalls,
  ns: string,
  { path, query }: LevelRoute,
): Promise<{ readonly config: StoredConfig; readonly tag: string | undefined }> {
  const none = { config: { limits: [] }, tag: undefined };
  return orWithoutLimits(async () => {
    const { body, headers } = await calls.answer<StoredConfig & Record<string, unknown>>("GET", ns + path, { query });
    const { level: _, entityId: __, planId: ___, resource: ____, ...config } = body;
    return { config, tag: headers.get("etag") ?? undefined };
  }, none);
}

/** Sets the limits of a level, with `ifTag` only while it is what was read with this tag. Answers whether that changed something. */
export async function setLevel(
  calls: ServiceCalls,
  ns: string,
  { path, query }: LevelRoute,
  limits: readonly Limit[],
  { principal, ...options }: { readonly principal?: string | undefined },
  ifTag?: string,
): Promise<boolean> {
  refuse({ principal });
  const { body, repeats } = await calls.answer<{ readonly changed: boolean }>("PUT", ns + path, {
    query,
    body: { limits, ...options },
    // Sent again after a lost answer, what was read has been changed: by the first.
    ...(ifTag === undefined ? {} : { headers: { "if-match": ifTag }, repeats: "never" }),
  });
  // A repeat finds what the first may have set, and cannot tell whose it is.
  return body.changed || repeats > 0;
}

/** Answers whether there were any. */
export function deleteLevel(calls: ServiceCalls, ns: string, { path, query }: LevelRoute, options: object): Promise<boolean> {
  return orWithoutLimits(async () => {
    refuse(options);
    await calls.answer("DELETE", ns + path, { query, repeats: "never" });
    return true;
  }, false);
}

async function orWithoutLimits<Value>(work: () => Promise<Value>, none: Value): Promise<Value> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof NotFoundError && error.code === "limits_not_found") return none;
    throw error;
  }
}
