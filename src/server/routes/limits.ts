import { given, listOf, pageOf, pageResponse } from "../page.ts";
import { NS, type Route, route } from "../route.ts";
import {
  accessBody,
  cascadeBody,
  levelQuery,
  limitsBody,
  listQuery,
  pairQuery,
  policyQuery,
  resetQuery,
} from "../schemas/input.ts";
import * as output from "../schemas/output.ts";
import { defaultsOf, deleteAt, levelOf, levelsOf, setAt, storedAt } from "./levels.ts";
import { nextResets } from "./resets.ts";

export const limitRoutes: readonly Route[] = [
  route({
    method: "get",
    path: `${NS}/limits`,
    scope: "read",
    summary: "Show the limits of a level",
    note: "The level follows from the query: entity on resource, entity, plan on resource, plan, resource, or with nothing the system.",
    query: levelQuery,
    answers: {
      200: { description: "The limits of exactly that level.", schema: output.levelLimits, headers: ["ETag"] },
    },
    handle: ({ limiter, query }) => storedAt(limiter, levelOf(query)),
  }),
  route({
    method: "put",
    path: `${NS}/limits`,
    scope: "admin",
    summary: "Set the limits of a level",
    note: "The level follows from the query, as for reading. The limits replace all that are stored there.",
    query: levelQuery,
    body: limitsBody,
    conditional: true,
    answers: {
      200: {
        description: "The limits now stored, and whether they changed.",
        schema: output.changedLimits,
        headers: ["ETag"],
      },
    },
    handle: (call) => setAt(call, levelOf(call.query), call.body),
  }),
  route({
    method: "delete",
    path: `${NS}/limits`,
    scope: "admin",
    summary: "Delete the limits of a level",
    note: "The level follows from the query, as for reading.",
    query: levelQuery,
    conditional: true,
    answers: { 204: { description: "The limits were deleted." } },
    handle: (call) => deleteAt(call, levelOf(call.query)),
  }),
  route({
    method: "get",
    path: `${NS}/limits/levels`,
    scope: "read",
    summary: "Show the limits of all levels",
    note: "Every level that applies to the entity, the plan and the resource of the query, totals included.",
    query: levelQuery,
    answers: {
      200: {
        description: "Most specific first; a level without settings has no limits.",
        schema: output.levels,
      },
    },
    handle: async ({ limiter, query }) => ({ status: 200, body: await levelsOf(limiter, query) }),
  }),
  route({
    method: "get",
    path: `${NS}/limits/defaults`,
    scope: "read",
    summary: "List default limits",
    note: "The limits and totals of the system, then the limits of every resource.",
    query: listQuery,
    answers: { 200: { description: "The levels that have limits.", schema: listOf(output.levelLimits) } },
    handle: ({ limiter, query }) => defaultsOf(limiter, pageOf(query)),
  }),
  route({
    method: "get",
    path: `${NS}/limits/resets`,
    scope: "read",
    summary: "Preview a reset",
    note: "When a quota with such a reset would be full again. Nothing is stored.",
    query: resetQuery,
    answers: { 200: { description: "The next resets, or why the reset is invalid.", schema: output.resets } },
    handle: ({ limiter, query }) => ({ status: 200, body: nextResets(limiter, query) }),
  }),
  route({
    method: "get",
    path: `${NS}/limits/effective`,
    scope: "read",
    summary: "Show the limits that apply",
    note: "To an entity on a resource, with the level that they come from.",
    query: pairQuery,
    answers: { 200: { description: "The limits in force.", schema: output.effective } },
    handle: async ({ limiter, query: { entityId, resource } }) => ({
      status: 200,
      body: await limiter.resolveLimits(entityId, resource),
    }),
  }),
  route({
    method: "get",
    path: `${NS}/resources`,
    scope: "read",
    summary: "List resources with default limits",
    query: listQuery,
    answers: { 200: { description: "Resource names.", schema: listOf(output.resourceName) } },
    handle: async ({ limiter, query }) => pageResponse(await limiter.listResources(pageOf(query))),
  }),
  route({
    method: "put",
    path: `${NS}/access`,
    scope: "admin",
    summary: "Set access",
    note: "Switches an entity or a resource off, lets it bypass its limits, or takes that back.",
    query: policyQuery,
    body: accessBody,
    answers: { 204: { description: "The setting is stored.", headers: ["Zael-Changed"] } },
    handle: async ({ limiter, caller, query, body: { access } }) => {
      const changed = await limiter.setAccess(given(query), access, { principal: caller.id });
      return { status: 204, headers: { "zael-changed": String(changed) } };
    },
  }),
  route({
    method: "put",
    path: `${NS}/cascade`,
    scope: "admin",
    summary: "Set cascading",
    note: "Whether parents are charged.",
    query: policyQuery,
    body: cascadeBody,
    answers: { 204: { description: "The setting is stored.", headers: ["Zael-Changed"] } },
    handle: async ({ limiter, caller, query, body: { cascade } }) => {
      const changed = await limiter.setCascade(given(query), cascade, { principal: caller.id });
      return { status: 204, headers: { "zael-changed": String(changed) } };
    },
  }),
];
