import { listOf, pageAnswer, pageOf } from "../page.ts";
import { NS, type Route, route } from "../route.ts";
import { capacityQuery, listQuery, onResourceQuery } from "../schemas/input.ts";
import * as output from "../schemas/output.ts";

/** Questions over all entities of a resource. */
export const acrossRoutes: readonly Route[] = [
  route({
    method: "get",
    path: `${NS}/limits/entities`,
    scope: "read",
    summary: "List entities with limits of their own on a resource",
    query: onResourceQuery,
    answers: { 200: { description: "Entity ids, sorted.", schema: listOf(output.resourceName) } },
    handle: async ({ limiter, query: { resource, ...page } }) =>
      pageAnswer(await limiter.listEntitiesWithLimits(resource, pageOf(page))),
  }),
  route({
    method: "get",
    path: `${NS}/limits/resources`,
    scope: "read",
    summary: "List resources on which entities have limits of their own",
    query: listQuery,
    answers: { 200: { description: "Resource names, sorted.", schema: listOf(output.resourceName) } },
    handle: async ({ limiter, query }) => pageAnswer(await limiter.listResourcesWithEntityLimits(pageOf(query))),
  }),
  route({
    method: "get",
    path: `${NS}/capacity`,
    scope: "read",
    summary: "Show what all entities together have left of one limit on a resource",
    query: capacityQuery,
    answers: { 200: { description: "The total, and each entity.", schema: output.capacity } },
    handle: async ({ limiter, query: { resource, limit } }) => ({
      status: 200,
      body: await limiter.resourceCapacity(resource, limit),
    }),
  }),
];
