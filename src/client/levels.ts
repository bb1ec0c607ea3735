import type { StoredConfig } from "../domain/config/config.ts";
import type { Limit } from "../domain/limits/limit.ts";
import { NotFoundError } from "../domain/names/errors.ts";
import { checkName, refuse } from "./check.ts";
import type { Operation, ServiceCalls } from "./http.ts";
import { type Path, requestOf } from "./path.ts";

/** By which route the service knows a level, and which query names it. */
export interface LevelRoute {
  readonly path: Path;
  readonly query: { readonly entityId?: string; readonly planId?: string; readonly resource?: string };
}

/** `get…`, `set…` and `delete…` of a level. `where`: its route, with the name of its owner where it has one. */
export function levelOperations<const Level extends string>(level: Level, where: string) {
  const rows: Readonly<Record<string, Operation>> = {
    [`get${level}`]: [`GET ${where}`, ofLevel],
    [`set${level}`]: [`PUT ${where}`, ofLevel],
    [`delete${level}`]: [`DELETE ${where}`, ofLevel],
  };
  return rows as Readonly<Record<`${"get" | "set" | "delete"}${Level}`, Operation>>;
}

async function ofLevel(calls: ServiceCalls, http: string, given: readonly unknown[]): Promise<unknown> {
  const { method, path, query, rest } = requestOf(http, given);
  const limits = method === "PUT" ? (rest.shift() as readonly Limit[]) : [];
  const { resource, ...others } = (rest[0] ?? {}) as { readonly resource?: string };
  // An entity and a plan may have limits on one resource.
  const isOn = resource !== undefined && /limits.+Id/.test(http);
  const route = { path, query: isOn ? { ...query, resource: checkName("resource", resource) } : query };
  const options = isOn || resource === undefined ? others : { resource, ...others };
  if (method === "PUT") return setLevel(calls, route, limits, options);
  if (method === "DELETE") return deleteLevel(calls, route, options);
  const { config } = await readLevel(calls, route);
  return path === "limits" && http.endsWith(path) ? config : config.limits;
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
