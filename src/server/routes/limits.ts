import { given, listOf, pageAnswer, pageOf } from "../page.ts";
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
    summary: "The limits stored at one level: entity on resource, entity, plan on resource, plan, resource, or system",
    query: levelQuery,
    answers: { 200: { description: "What that very level says.", schema: output.levelLimits, headers: ["ETag"] } },
    handle: ({ limiter, query }) => storedAt(limiter, levelOf(query)),
  }),
  route({
    method: "put",
    path: `${NS}/limits`,
    scope: "admin",
    summary: "Set the limits of one level",
    query: levelQuery,
    body: limitsBody,
    conditional: true,
    answers: {
      200: {
        description: "As they are now, and whether they were changed.",
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
    summary: "Delete the limits of one level",
    query: levelQuery,
    conditional: true,
    answers: { 204: { description: "They are gone." } },
    handle: (call) => deleteAt(call, levelOf(call.query)),
  }),
  route({
    method: "get",
    path: `${NS}/limits/levels`,
    scope: "read",
    summary: "Every level that counts for an entity, a plan and a resource, as far as they are named, totals too",
    query: levelQuery,
    answers: {
      200: { description: "The most specific first; one that says nothing has no limits.", schema: output.levels },
    },
    handle: async ({ limiter, query }) => ({ status: 200, body: await levelsOf(limiter, query) }),
  }),
  route({
    method: "get",
    path: `${NS}/limits/defaults`,
    scope: "read",
    summary: "What is stored for everybody: the limits and totals of the system, then those of every resource",
    query: listQuery,
    answers: { 200: { description: "Levels that have limits.", schema: listOf(output.levelLimits) } },
    handle: ({ limiter, query }) => defaultsOf(limiter, pageOf(query)),
  }),
  route({
    method: "get",
    path: `${NS}/limits/resets`,
    scope: "read",
    summary: "When a quota with such a reset would be full again, before it is set",
    query: resetQuery,
    answers: { 200: { description: "The next resets, or what is wrong with it.", schema: output.resets } },
    handle: ({ limiter, query }) => ({ status: 200, body: nextResets(limiter, query) }),
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
    query: policyQuery,
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
    query: policyQuery,
    body: cascadeBody,
    answers: { 204: { description: "It is set." } },
    handle: async ({ limiter, caller, query, body: { cascade } }) => {
      await limiter.setCascade(given(query), cascade, { principal: caller.id });
      return { status: 204 };
    },
  }),
];
