import { given, listOf, pageAnswer, pageOf } from "../page.ts";
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
    answers: { 200: { description: "In the order of their ids.", schema: listOf(output.plan) } },
    handle: async ({ limiter, query }) => pageAnswer(await limiter.listPlans(pageOf(query))),
  }),
  route({
    method: "post",
    path: `${NS}/plans`,
    scope: "admin",
    summary: "Make a plan",
    body: newPlanBody,
    answers: { 201: { description: "It was made.", schema: output.plan, headers: ["Location"] } },
    handle: async ({ limiter, caller, namespace, body }) => {
      const plan = await limiter.createPlan(given(body), { principal: caller.id });
      return { status: 201, body: plan, headers: { location: `/v1/namespaces/${namespace}/plans/${plan.id}` } };
    },
  }),
  route({
    method: "get",
    path: `${NS}/plans/{id}`,
    scope: "read",
    summary: "Read a plan",
    answers: { 200: { description: "As it is stored.", schema: output.plan } },
    handle: async ({ limiter, id }) => ({ status: 200, body: await limiter.getPlan(id) }),
  }),
  route({
    method: "patch",
    path: `${NS}/plans/{id}`,
    scope: "admin",
    summary: "Change a plan",
    note: "Its name or its metadata.",
    body: planPatchBody,
    answers: { 200: { description: "As it is after the change.", schema: output.plan } },
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
    answers: { 204: { description: "It was deleted." } },
    handle: async ({ limiter, caller, id }) => {
      await limiter.deletePlan(id, { principal: caller.id });
      return { status: 204 };
    },
  }),
];
