import type { ConfigScope, StoredConfig } from "../../domain/config.ts";
import { NotFoundError } from "../../domain/errors.ts";
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
  readonly usageKeptDays?: number | undefined;
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

/**
 * What each level says that counts for an entity (and its plan), a plan or a resource. Asked for a plan and an entity, or for an
 * entity that is not there, it is no mistake: these are the levels that would count.
 */
export async function levelsOf(
  limiter: Limiter,
  { entityId, planId: asked, resource }: LevelQuery,
): Promise<{ readonly planId?: string; readonly items: readonly (ConfigScope & StoredConfig)[] }> {
  const planId = asked ?? (entityId === undefined ? undefined : await planOf(limiter, entityId));
  const scopes: readonly (ConfigScope | undefined)[] = [
    ...ownScopes(resource, entityId === undefined ? undefined : { level: "entity", entityId }),
    ...ownScopes(resource, planId === undefined ? undefined : { level: "plan", planId }),
    resource === undefined ? undefined : { level: "resource", resource },
    { level: "system" },
    entityId === undefined ? undefined : { level: "entityTotal", entityId },
    planId === undefined ? undefined : { level: "planTotal", planId },
    { level: "systemTotal" },
  ];
  const { admin } = partsOf(limiter);
  const items = await Promise.all(
    scopes
      .filter((scope) => scope !== undefined)
      .map(async (scope) => ({ ...scope, ...(await admin.getConfig(scope, {})) })),
  );
  return { ...(planId === undefined ? {} : { planId }), items };
}

type Owner =
  | { readonly level: "entity"; readonly entityId: string }
  | { readonly level: "plan"; readonly planId: string };

function ownScopes(resource: string | undefined, owner: Owner | undefined): readonly ConfigScope[] {
  if (owner === undefined) return [];
  const onAll: ConfigScope =
    owner.level === "entity"
      ? { level: "entityDefault", entityId: owner.entityId }
      : { level: "planDefault", planId: owner.planId };
  return resource === undefined ? [onAll] : [{ ...owner, resource }, onAll];
}

async function planOf(limiter: Limiter, entityId: string): Promise<string | undefined> {
  try {
    return (await limiter.getEntity(entityId)).planId;
  } catch (error) {
    // Who was never created has limits, too, and no plan.
    if (error instanceof NotFoundError && error.code === "entity_not_found") return undefined;
    throw error;
  }
}

/** Sets the limits of a level; the answer says whether something was written. */
export async function setAt(limiter: Limiter, caller: Caller, level: ConfigScope, body: LevelBody): Promise<Answer> {
  const { limits, ...options } = body;
  for (const name of ["onUnavailable", "usageKeptDays"] as const) {
    if (options[name] === undefined || level.level === "system") continue;
    throw invalid([{ pointer: `/${name}`, detail: "only the system level has it; leave entityId and resource out" }]);
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
