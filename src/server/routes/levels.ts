import type { ConfigScope, StoredConfig } from "../../domain/config.ts";
import type { Limit } from "../../domain/limit.ts";
import type { Limiter } from "../../engine/limiter.ts";
import { partsOf } from "../../engine/limiter-parts.ts";
import type { Answer } from "../answer.ts";
import type { Caller } from "../caller.ts";
import { given } from "../page.ts";
import { Problem } from "../problem.ts";
import { invalid } from "../read-input.ts";

/** Who or what the limits of a level are of, as a query names it. */
export interface LevelQuery {
  readonly entityId?: string | undefined;
  readonly planId?: string | undefined;
  readonly resource?: string | undefined;
}

/** The body of a request that sets the limits of a level. */
export interface LevelBody {
  readonly limits: readonly unknown[];
  readonly onUnavailable?: "allow" | "block" | undefined;
  readonly inherit?: boolean | undefined;
  readonly appliesTo?: "everyone" | "callers" | undefined;
  readonly ifAbsent?: boolean | undefined;
}

/** The level of limits on resources that a query names. */
export function levelOf(query: LevelQuery): ConfigScope {
  const { entityId, planId, resource } = oneOwner(query);
  if (entityId !== undefined) {
    return resource === undefined ? { level: "entityDefault", entityId } : { level: "entity", entityId, resource };
  }
  if (planId !== undefined) {
    return resource === undefined ? { level: "planDefault", planId } : { level: "plan", planId, resource };
  }
  return resource === undefined ? { level: "system" } : { level: "resource", resource };
}

/** The level of totals that a query names. */
export function totalOf(query: LevelQuery): ConfigScope {
  const { entityId, planId } = oneOwner(query);
  if (entityId !== undefined) return { level: "entityTotal", entityId };
  return planId === undefined ? { level: "systemTotal" } : { level: "planTotal", planId };
}

function oneOwner(query: LevelQuery): LevelQuery {
  if (query.entityId === undefined || query.planId === undefined) return query;
  throw invalid([{ pointer: "/planId", detail: "there is an entityId, too; name the entity or the plan" }]);
}

/** What a level says itself: limits, policy and, at the system level, what an outage means. */
export async function storedAt(limiter: Limiter, level: ConfigScope): Promise<ConfigScope & StoredConfig> {
  const config = await partsOf(limiter).admin.getConfig(level, {});
  if (config.limits.length === 0 && Object.keys(config).length === 1) throw none(level);
  return { ...level, ...config };
}

/** Sets the limits of a level; the answer says whether something was written. */
export async function setAt(limiter: Limiter, caller: Caller, level: ConfigScope, body: LevelBody): Promise<Answer> {
  const { limits, ...options } = body;
  if (options.onUnavailable !== undefined && level.level !== "system") {
    throw invalid([
      { pointer: "/onUnavailable", detail: "only the system level has it; leave entityId and resource out" },
    ]);
  }
  const definitions = limits.map((limit) => given(limit as object)) as unknown as readonly Limit[];
  const changed = await partsOf(limiter).admin.setConfig(level, definitions, {
    principal: caller.id,
    ...given(options),
  });
  return { status: 200, body: { ...(await storedAt(limiter, level)), changed } };
}

/** Deletes the limits of a level. */
export async function deleteAt(limiter: Limiter, caller: Caller, level: ConfigScope): Promise<Answer> {
  if (!(await partsOf(limiter).admin.deleteConfig(level, { principal: caller.id }))) throw none(level);
  return { status: 204 };
}

function none({ level }: ConfigScope): Problem {
  return new Problem("limits_not_found", `Nothing is stored at this level (${level}); set limits there with PUT.`);
}
