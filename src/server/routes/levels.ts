import type { ConfigScope, StoredConfig } from "../../domain/config/config.ts";
import { NotFoundError } from "../../domain/names/errors.ts";
import { deleteConfigIf } from "../../engine/limiter/conditional-delete.ts";
import type { Limiter } from "../../engine/limiter/limiter.ts";
import { partsOf } from "../../engine/limiter/limiter-parts.ts";
import type { Caller } from "../caller.ts";
import { givenLimits } from "../given-limits.ts";
import { given } from "../page.ts";
import { etagOf, isMet, type Precondition, preconditionOf, saysSomething } from "../precondition.ts";
import { Problem } from "../problem.ts";
import { invalid } from "../read-input.ts";
import type { RouteResponse } from "../route-response.ts";

/** Who or what the limits of a level are of, as a query names it. */
interface LevelQuery {
  readonly entityId?: string | undefined;
  readonly planId?: string | undefined;
  readonly resource?: string | undefined;
}

/** The body of a request that sets the limits of a level. */
interface LevelBody {
  readonly limits: readonly (object | string)[];
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
  throw invalid([{ pointer: "/planId", detail: "entityId is given too; name the entity or the plan" }]);
}

/** What a level says itself: limits, policy and, at the system level, what an outage means. */
export async function storedAt(limiter: Limiter, level: ConfigScope): Promise<RouteResponse> {
  const config = await partsOf(limiter).admin.getConfig(level, {});
  if (!saysSomething(config)) throw none(level);
  return { status: 200, body: { ...level, ...config }, headers: { etag: etagOf(config) } };
}

/**
 * What each level says that counts for an entity (and its plan), a plan or a resource. Asked for a plan and an entity, or for an
 * entity that is not there, it is no mistake: these are the levels that would count.
 */
export async function levelsOf(
  limiter: Limiter,
  { entityId, planId: asked, resource }: LevelQuery,
): Promise<{
  readonly planId?: string;
  readonly items: readonly (ConfigScope & StoredConfig & { readonly etag?: string })[];
}> {
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
      .map(async (scope) => {
        const config = await admin.getConfig(scope, {});
        return { ...scope, ...config, ...(saysSomething(config) ? { etag: etagOf(config) } : {}) };
      }),
  );
  return { ...(planId === undefined ? {} : { planId }), items };
}

/** What is stored for everybody: on every resource and over all of them, as far as there is something, then resource by resource. */
export async function defaultsOf(
  limiter: Limiter,
  page: { readonly limit: number; readonly cursor?: string },
): Promise<RouteResponse> {
  const { admin } = partsOf(limiter);
  const resources = await limiter.listResources(page);
  const scopes: readonly ConfigScope[] = [
    ...(page.cursor === undefined ? ([{ level: "system" }, { level: "systemTotal" }] as const) : []),
    ...resources.map((resource) => ({ level: "resource" as const, resource })),
  ];
  const stored = await Promise.all(scopes.map(async (scope) => ({ ...scope, ...(await admin.getConfig(scope, {})) })));
  const { cursor } = resources;
  const items = stored.filter(({ limits }) => limits.length > 0);
  return { status: 200, body: { items, ...(cursor === undefined ? {} : { cursor }) } };
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

/** What is changed, by whom, and what the client expects to be there. */
interface LevelCall {
  readonly limiter: Limiter;
  readonly caller: Caller;
  readonly request: Request;
}

/** Sets the limits of a level; the answer says whether something was written. */
export async function setAt(call: LevelCall, level: ConfigScope, body: LevelBody): Promise<RouteResponse> {
  const { limiter, caller } = call;
  const { limits, ...options } = body;
  for (const name of ["onUnavailable", "usageKeptDays"] as const) {
    if (options[name] === undefined || level.level === "system") continue;
    throw invalid([{ pointer: `/${name}`, detail: "only the system level has it; leave entityId and resource out" }]);
  }
  const definitions = givenLimits(limiter, limits);
  const settings = { principal: caller.id, ...given(options) };
  const { admin } = partsOf(limiter);
  const outcome = await admin.setConfigIf(level, definitions, settings, await expectedOf(call, level));
  if (outcome === "conflict") throw await otherwise(limiter, level);
  const { body: stored, ...answer } = await storedAt(limiter, level);
  return { ...answer, body: { ...(stored as object), changed: outcome === "written" } };
}

/** Deletes the limits of a level. */
export async function deleteAt(call: LevelCall, level: ConfigScope): Promise<RouteResponse> {
  const { limiter, caller } = call;
  const { admin } = partsOf(limiter);
  const expected = await expectedOf(call, level);
  const options = { principal: caller.id };
  if (expected === undefined) {
    if (!(await admin.deleteConfig(level, options))) throw none(level);
    return { status: 204 };
  }
  const outcome = await deleteConfigIf(limiter, level, options, expected);
  if (outcome === "conflict") throw await otherwise(limiter, level);
  if (outcome === "unchanged") throw none(level);
  return { status: 204 };
}

/** What must still be there when it is written: what the client has seen. Undefined: whatever is there. */
async function expectedOf({ limiter, request }: LevelCall, level: ConfigScope): Promise<StoredConfig | undefined> {
  const precondition: Precondition = preconditionOf(request);
  if (precondition.kind === "absent") return undefined;
  const config = await partsOf(limiter).admin.getConfig(level, {});
  if (isMet(precondition, config)) return config;
  throw changedMeanwhile(level, config);
}

async function otherwise(limiter: Limiter, level: ConfigScope): Promise<Problem> {
  return changedMeanwhile(level, await partsOf(limiter).admin.getConfig(level, {}));
}

function changedMeanwhile(level: ConfigScope, config: StoredConfig): Problem {
  const isThere = saysSomething(config);
  const detail = isThere
    ? `The limits of this level (${level.level}) were changed in the meantime. Read them again before you change them.`
    : `This level (${level.level}) has no limits any more: they were deleted in the meantime, or never set.`;
  return new Problem("limits_changed", detail, {
    ...(isThere ? { headers: { etag: etagOf(config) } } : {}),
    members: { current: { ...level, ...config } },
  });
}

function none({ level }: ConfigScope): Problem {
  return new Problem("limits_not_found", `This level (${level}) has no limits; set them with PUT.`);
}
