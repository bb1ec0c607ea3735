import { given } from "../../domain/names/given.ts";
import { partsOf } from "../../engine/limiter/limiter-parts.ts";
import { ensureEntity, ensurePlan } from "../../engine/limiter/plan-administration.ts";
import type { RouteResponse } from "../problem.ts";
import { pageOf, type Route, route } from "../route.ts";
import { listQuery, name, page, planId, strictObject, told } from "../schemas/input.ts";
import * as output from "../schemas/output.ts";
import { z } from "../vendor.ts";

const metadata = told(z.record(z.string(), z.string()), "Texts of your own.").optional();
const title = told(z.string(), "A name for people. Default: the id.").optional();
const newTitle = told(z.string(), "A name for people.").optional();
const version = told(z.int(), "Refused with 409 if the stored version is another.").optional();
const ifAbsent = told(z.boolean(), "true: one that exists is answered as it is, with 200. Default: false.").optional();

export const entityRoutes: readonly Route[] = [
  route("GET entities", "List entities", {
    note: "All of them, or those of a plan.",
    scope: "read",
    query: strictObject({ planId: planId.optional(), ...page }),
    pages: ["Sorted by id.", output.entity],
    run: ({ limiter, query }) => limiter.listEntities({ ...pageOf(query), ...given({ planId: query.planId }) }),
  }),
  route("POST entities", "Create an entity", {
    scope: "admin",
    body: strictObject({
      id: told(name, "Its id."),
      name: title,
      parentId: told(name, "The entity above it, which must exist. Default: none.").optional(),
      planId: told(name, "Its plan, which must exist. Default: none.").optional(),
      cascade: told(z.boolean(), "Whether its parent is charged too. Default: true with a parent.").optional(),
      metadata,
      ifAbsent,
    }).openapi({ example: { id: "key-1", name: "Key of the shop", parentId: "org-1" } }),
    ok: ["With ifAbsent: the entity existed and is unchanged.", output.entity],
    created: ["The entity was created.", output.entity, "Location"],
    handle: async ({ limiter, caller, namespace, body: { ifAbsent, ...body } }) => {
      const options = { principal: caller.id };
      if (ifAbsent !== true)
        return newResponse(`${namespace}/entities`, await limiter.createEntity(given(body), options));
      const { item, created } = await ensureEntity(partsOf(limiter), given(body), options);
      return created ? newResponse(`${namespace}/entities`, item) : { status: 200, body: item };
    },
  }),
  route("GET entities/{id}", "Show an entity", {
    scope: "read",
    ok: ["The entity.", output.entity],
    run: ({ limiter, id }) => limiter.getEntity(id),
  }),
  route("PATCH entities/{id}", "Change an entity", {
    scope: "admin",
    body: strictObject({
      name: newTitle,
      parentId: told(name.nullable(), "Another parent; null: none.").optional(),
      planId: told(name.nullable(), "Another plan; null: none.").optional(),
      cascade: told(z.boolean(), "Whether its parent is charged too.").optional(),
      metadata,
      version,
    }).openapi({ example: { planId: "pro", version: 3 } }),
    ok: ["The changed entity.", output.entity],
    run: ({ limiter, caller, id, body: { version, ...patch } }) =>
      limiter.updateEntity(id, given(patch), given({ principal: caller.id, version })),
  }),
  route("DELETE entities/{id}", "Delete an entity", {
    note: "Its limits, buckets and usage are deleted too.",
    scope: "admin",
    done: ["The entity was deleted."],
    run: ({ limiter, caller, id }) => limiter.deleteEntity(id, { principal: caller.id }),
  }),
  route("GET entities/{id}/children", "List the children of an entity", {
    scope: "read",
    query: listQuery,
    pages: ["Sorted by id.", output.entity],
    run: async ({ limiter, id, query }) => {
      const children = await limiter.getChildren(id, pageOf(query));
      // An entity that does not exist has no children either: throw, so that a misspelled id is noticed.
      if (children.length === 0) await limiter.getEntity(id);
      return children;
    },
  }),
  route("GET entities/{id}/limits", "List the limits of an entity", {
    note: "Every set that is stored for it. The set without a resource is its default.",
    scope: "read",
    query: listQuery,
    pages: ["Sorted by resource.", output.entityLimits],
    run: ({ limiter, id, query }) => limiter.listLimits(id, pageOf(query)),
  }),
];

export const planRoutes: readonly Route[] = [
  route("GET plans", "List plans", {
    scope: "read",
    query: listQuery,
    pages: ["Sorted by id.", output.plan],
    run: ({ limiter, query }) => limiter.listPlans(pageOf(query)),
  }),
  route("POST plans", "Create a plan", {
    scope: "admin",
    body: strictObject({ id: told(name, "Its id."), name: title, metadata, ifAbsent }).openapi({
      example: { id: "pro", name: "Pro" },
    }),
    ok: ["With ifAbsent: the plan existed and is unchanged.", output.plan],
    created: ["The plan was created.", output.plan, "Location"],
    handle: async ({ limiter, caller, namespace, body: { ifAbsent, ...body } }) => {
      const options = { principal: caller.id };
      if (ifAbsent !== true) return newResponse(`${namespace}/plans`, await limiter.createPlan(given(body), options));
      const { item, created } = await ensurePlan(partsOf(limiter), given(body), options);
      return created ? newResponse(`${namespace}/plans`, item) : { status: 200, body: item };
    },
  }),
  route("GET plans/{id}", "Show a plan", {
    scope: "read",
    ok: ["The plan.", output.plan],
    run: ({ limiter, id }) => limiter.getPlan(id),
  }),
  route("PATCH plans/{id}", "Change a plan", {
    note: "Its name or its metadata.",
    scope: "admin",
    body: strictObject({ name: newTitle, metadata, version }).openapi({ example: { name: "Pro 2" } }),
    ok: ["The changed plan.", output.plan],
    run: ({ limiter, caller, id, body: { version, ...patch } }) =>
      limiter.updatePlan(id, given(patch), given({ principal: caller.id, version })),
  }),
  route("DELETE plans/{id}", "Delete a plan", {
    note: "Its limits and totals are deleted too. It is refused while an entity refers to the plan.",
    scope: "admin",
    done: ["The plan was deleted."],
    run: ({ limiter, caller, id }) => limiter.deletePlan(id, { principal: caller.id }),
  }),
];

function newResponse(below: string, item: { readonly id: string }): RouteResponse {
  return { status: 201, body: item, headers: { location: `/v1/namespaces/${below}/${item.id}` } };
}
