import { listOf, pageOf, pageResponse } from "../page.ts";
import { NS, type Route, route } from "../route.ts";
import { capacityQuery, listQuery, onResourceQuery } from "../schemas/input.ts";
import * as output from "../schemas/output.ts";

/** Questions over all entities of a resource. */
export const acrossRoutes: readonly Route[] = [
  route({
    method: "get",
    path: `${NS}/limits/entities`,
    scope: "read",
    summary: "List entities with limits on a resource",
    query: onResourceQuery,
    answers: { 200: { description: "Entity ids, sorted.", schema: listOf(output.resourceName) } },
    handle: async ({ limiter, query: { resource, ...page } }) =>
      pageResponse(await limiter.listEntitiesWithLimits(resource, pageOf(page))),
  }),
  route({
    method: "get",
    path: `${NS}/limits/resources`,
    scope: "read",
    summary: "List resources with limits of entities",
    query: listQuery,
    answers: { 200: { description: "Resource names, sorted.", schema: listOf(output.resourceName) } },
    handle: async ({ limiter, query }) => pageResponse(await limiter.listResourcesWithEntityLimits(pageOf(query))),
  }),
  route({
    method: "get",
    path: `${NS}/capacity`,
    scope: "read",
    summary: "Show the capacity of a resource",
    note: "What all entities together hold of one limit.",
    query: capacityQuery,
    answers: { 200: { description: "The total, and each entity.", schema: output.capacity } },
    handle: async ({ limiter, query: { resource, limit } }) => ({
      status: 200,
      body: await limiter.resourceCapacity(resource, limit),
    }),
  }),
];
