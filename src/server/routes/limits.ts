import type { ConfigScope, SystemSettings } from "../../domain/config.ts";
import type { Limit } from "../../domain/limit.ts";
import type { ChangeOptions } from "../../engine/administration.ts";
import type { Limiter } from "../../engine/limiter.ts";
import { given, listOf, pageAnswer, pageOf } from "../page.ts";
import { Problem } from "../problem.ts";
import { invalid } from "../read-input.ts";
import { NS, type Route, route } from "../route.ts";
import { accessBody, cascadeBody, levelQuery, limitsBody, listQuery, pairQuery } from "../schemas/input.ts";
import * as output from "../schemas/output.ts";

export const limitRoutes: readonly Route[] = [
  route({
    method: "get",
    path: `${NS}/limits`,
    scope: "read",
    summary: "The limits stored at one level: entity and resource, entity, resource, or system",
    query: levelQuery,
    answers: { 200: { description: "What that very level says.", schema: output.levelLimits } },
    handle: async ({ limiter, query }) => ({ status: 200, body: await stored(limiter, levelOf(query)) }),
  }),
  route({
    method: "put",
    path: `${NS}/limits`,
    scope: "admin",
    summary: "Set the limits of one level",
    query: levelQuery,
    body: limitsBody,
    answers: { 200: { description: "As they are now.", schema: output.levelLimits } },
    handle: async ({ limiter, caller, query, body: { limits, onUnavailable } }) => {
      const level = levelOf(query);
      if (onUnavailable !== undefined && level.level !== "system") {
        throw invalid([
          { pointer: "/onUnavailable", detail: "only the system level has it; leave entityId and resource out" },
        ]);
      }
      const change = { principal: caller.id, ...(onUnavailable === undefined ? {} : { onUnavailable }) };
      await setLimits(limiter, level, limits.map(given) as unknown as readonly Limit[], change);
      return { status: 200, body: await stored(limiter, level) };
    },
  }),
  route({
    method: "delete",
    path: `${NS}/limits`,
    scope: "admin",
    summary: "Delete the limits of one level",
    query: levelQuery,
    answers: { 204: { description: "They are gone." } },
    handle: async ({ limiter, caller, query }) => {
      const level = levelOf(query);
      if (!(await deleteLimits(limiter, level, { principal: caller.id }))) throw none(level);
      return { status: 204 };
    },
  }),
  route({
    method: "get",
    path: `${NS}/limits/effective`,
    scope: "read",
    summary: "The limits that apply to an entity on a resource, and the level they come from",
    query: pairQuery,
    answers: { 200: { description: "What is in force.", schema: output.effective } },
    handle: async ({ limiter, query: { entityId, resource } }) => ({
      status: 200,
      body: await limiter.resolveLimits(entityId, resource),
    }),
  }),
  route({
    method: "get",
    path: `${NS}/resources`,
    scope: "read",
    summary: "Resources that have defaults",
    query: listQuery,
    answers: { 200: { description: "Their names.", schema: listOf(output.resourceName) } },
    handle: async ({ limiter, query }) => pageAnswer(await limiter.listResources(pageOf(query))),
  }),
  route({
    method: "put",
    path: `${NS}/access`,
    scope: "admin",
    summary: "Switch an entity or a resource off, let it through, or take that back",
    query: levelQuery,
    body: accessBody,
    answers: { 204: { description: "It is set." } },
    handle: async ({ limiter, caller, query, body: { access } }) => {
      await limiter.setAccess(given(query), access, { principal: caller.id });
      return { status: 204 };
    },
  }),
  route({
    method: "put",
    path: `${NS}/cascade`,
    scope: "admin",
    summary: "Whether parents are charged",
    query: levelQuery,
    body: cascadeBody,
    answers: { 204: { description: "It is set." } },
    handle: async ({ limiter, caller, query, body: { cascade } }) => {
      await limiter.setCascade(given(query), cascade, { principal: caller.id });
      return { status: 204 };
    },
  }),
];

function levelOf({
  entityId,
  resource,
}: {
  entityId?: string | undefined;
  resource?: string | undefined;
}): ConfigScope {
  if (entityId !== undefined) {
    return resource === undefined ? { level: "entityDefault", entityId } : { level: "entity", entityId, resource };
  }
  return resource === undefined ? { level: "system" } : { level: "resource", resource };
}

/** What a level says itself: limits, policy and, at the system level, what an outage means. */
async function stored(limiter: Limiter, level: ConfigScope) {
  const config = await configOf(limiter, level);
  const { level: _, ...scope } = level;
  const policy = level.level === "system" ? {} : await limiter.getPolicy(scope);
  if (config.limits.length === 0 && Object.keys({ ...config, ...policy }).length === 1) throw none(level);
  return { ...level, ...config, ...policy };
}

async function configOf(limiter: Limiter, level: ConfigScope): Promise<{ limits: readonly Limit[] } & SystemSettings> {
  switch (level.level) {
    case "entity":
      return { limits: await limiter.getLimits(level.entityId, { resource: level.resource }) };
    case "entityDefault":
      return { limits: await limiter.getLimits(level.entityId) };
    case "resource":
      return { limits: await limiter.getResourceDefaults(level.resource) };
    case "system": {
      const { limits, onUnavailable, usageKeptDays } = await limiter.getSystemDefaults();
      return { limits, ...given({ onUnavailable, usageKeptDays }) };
    }
  }
}

function setLimits(
  limiter: Limiter,
  level: ConfigScope,
  limits: readonly Limit[],
  change: SystemSettings & ChangeOptions,
): Promise<void> {
  switch (level.level) {
    case "entity":
      return limiter.setLimits(level.entityId, limits, { ...change, resource: level.resource });
    case "entityDefault":
      return limiter.setLimits(level.entityId, limits, change);
    case "resource":
      return limiter.setResourceDefaults(level.resource, limits, change);
    case "system":
      return limiter.setSystemDefaults(limits, change);
  }
}

function deleteLimits(limiter: Limiter, level: ConfigScope, change: ChangeOptions): Promise<boolean> {
  switch (level.level) {
    case "entity":
      return limiter.deleteLimits(level.entityId, { ...change, resource: level.resource });
    case "entityDefault":
      return limiter.deleteLimits(level.entityId, change);
    case "resource":
      return limiter.deleteResourceDefaults(level.resource, change);
    case "system":
      return limiter.deleteSystemDefaults(change);
  }
}

function none({ level }: ConfigScope): Problem {
  return new Problem("limits_not_found", `Nothing is stored at this level (${level}); set limits there with PUT.`);
}
