import { ensurePlan } from "../../engine/acquire/ensure.ts";
import { partsOf } from "../../engine/limiter/limiter-parts.ts";
import { given, listOf, pageOf, pageResponse } from "../page.ts";
import { NS, type Route, route } from "../route.ts";
import { listQuery, newPlanBody, planPatchBody } from "../schemas/input.ts";
import * as output from "../schemas/output.ts";

export const planRoutes: readonly Route[] = [
  route({
    method: "get",
    path: `${NS}/plans`,
    scope: "read",
    summary: "List plans",
    query: listQuery,
    answers: { 200: { description: "Sorted by id.", schema: listOf(output.plan) } },
    handle: async ({ limiter, query }) => pageResponse(await limiter.listPlans(pageOf(query))),
  }),
  route({
    method: "post",
    path: `${NS}/plans`,
    scope: "admin",
    summary: "Create a plan",
    body: newPlanBody,
    answers: {
      200: { description: "With ifAbsent: the plan existed and is unchanged.", schema: output.plan },
      201: { description: "The plan was created.", schema: output.plan, headers: ["Location"] },
    },
    handle: async ({ limiter, caller, namespace, body: { ifAbsent, ...body } }) => {
      const options = { principal: caller.id };
      const { item: plan, created } =
        ifAbsent === true
          ? await ensurePlan(partsOf(limiter), given(body), options)
          : { item: await limiter.createPlan(given(body), options), created: true };
      if (!created) return { status: 200, body: plan };
      return { status: 201, body: plan, headers: { location: `/v1/namespaces/${namespace}/plans/${plan.id}` } };
    },
  }),
  route({
    method: "get",
    path: `${NS}/plans/{id}`,
    scope: "read",
    summary: "Show a plan",
    answers: { 200: { description: "The plan.", schema: output.plan } },
    handle: async ({ limiter, id }) => ({ status: 200, body: await limiter.getPlan(id) }),
  }),
  route({
    method: "patch",
    path: `${NS}/plans/{id}`,
    scope: "admin",
    summary: "Change a plan",
    note: "Its name or its metadata.",
    body: planPatchBody,
    answers: { 200: { description: "The changed plan.", schema: output.plan } },
    handle: async ({ limiter, caller, id, body: { version, ...patch } }) => {
      const options = { principal: caller.id, ...(version === undefined ? {} : { version }) };
      return { status: 200, body: await limiter.updatePlan(id, given(patch), options) };
    },
  }),
  route({
    method: "delete",
    path: `${NS}/plans/{id}`,
    scope: "admin",
    summary: "Delete a plan",
    note: "Its limits and totals are deleted too. It is refused while an entity refers to the plan.",
    answers: { 204: { description: "The plan was deleted." } },
    handle: async ({ limiter, caller, id }) => {
      await limiter.deletePlan(id, { principal: caller.id });
      return { status: 204 };
    },
  }),
];
