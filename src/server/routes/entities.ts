import { ensureEntity } from "../../engine/acquire/ensure.ts";
import { partsOf } from "../../engine/limiter/limiter-parts.ts";
import { given, listOf, pageOf, pageResponse } from "../page.ts";
import { NS, type Route, route } from "../route.ts";
import { entitiesQuery, entityPatchBody, listQuery, newEntityBody } from "../schemas/input.ts";
import * as output from "../schemas/output.ts";

export const entityRoutes: readonly Route[] = [
  route({
    method: "get",
    path: `${NS}/entities`,
    scope: "read",
    summary: "List entities",
    note: "All of them, or those of a plan.",
    query: entitiesQuery,
    answers: { 200: { description: "Sorted by id.", schema: listOf(output.entity) } },
    handle: async ({ limiter, query }) =>
      pageResponse(
        await limiter.listEntities({
          ...pageOf(query),
          ...(query.planId === undefined ? {} : { planId: query.planId }),
        }),
      ),
  }),
  route({
    method: "post",
    path: `${NS}/entities`,
    scope: "admin",
    summary: "Create an entity",
    body: newEntityBody,
    answers: {
      200: { description: "With ifAbsent: the entity existed and is unchanged.", schema: output.entity },
      201: { description: "The entity was created.", schema: output.entity, headers: ["Location"] },
    },
    handle: async ({ limiter, caller, namespace, body: { ifAbsent, ...body } }) => {
      const options = { principal: caller.id };
      const { item: entity, created } =
        ifAbsent === true
          ? await ensureEntity(partsOf(limiter), given(body), options)
          : { item: await limiter.createEntity(given(body), options), created: true };
      if (!created) return { status: 200, body: entity };
      return { status: 201, body: entity, headers: { location: `/v1/namespaces/${namespace}/entities/${entity.id}` } };
    },
  }),
  route({
    method: "get",
    path: `${NS}/entities/{id}`,
    scope: "read",
    summary: "Show an entity",
    answers: { 200: { description: "The entity.", schema: output.entity } },
    handle: async ({ limiter, id }) => ({ status: 200, body: await limiter.getEntity(id) }),
  }),
  route({
    method: "patch",
    path: `${NS}/entities/{id}`,
    scope: "admin",
    summary: "Change an entity",
    body: entityPatchBody,
    answers: { 200: { description: "The changed entity.", schema: output.entity } },
    handle: async ({ limiter, caller, id, body: { version, ...patch } }) => {
      const options = { principal: caller.id, ...(version === undefined ? {} : { version }) };
      return { status: 200, body: await limiter.updateEntity(id, given(patch), options) };
    },
  }),
  route({
    method: "delete",
    path: `${NS}/entities/{id}`,
    scope: "admin",
    summary: "Delete an entity",
    note: "Its limits, buckets and usage are deleted too.",
    answers: { 204: { description: "The entity was deleted." } },
    handle: async ({ limiter, caller, id }) => {
      await limiter.deleteEntity(id, { principal: caller.id });
      return { status: 204 };
    },
  }),
  route({
    method: "get",
    path: `${NS}/entities/{id}/children`,
    scope: "read",
    summary: "List the children of an entity",
    query: listQuery,
    answers: { 200: { description: "Sorted by id.", schema: listOf(output.entity) } },
    handle: async ({ limiter, id, query }) => {
      const page = await limiter.getChildren(id, pageOf(query));
      // An entity that does not exist has no children either, and whoever misspells one should hear of it.
      if (page.length === 0) await limiter.getEntity(id);
      return pageResponse(page);
    },
  }),
  route({
    method: "get",
    path: `${NS}/entities/{id}/limits`,
    scope: "read",
    summary: "List the limits of an entity",
    note: "Every set that is stored for it. The set without a resource is its default.",
    query: listQuery,
    answers: { 200: { description: "Sorted by resource.", schema: listOf(output.entityLimits) } },
    handle: async ({ limiter, id, query }) => pageResponse(await limiter.listLimits(id, pageOf(query))),
  }),
];
