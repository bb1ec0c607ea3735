import { given, listOf, pageAnswer, pageOf } from "../page.ts";
import { NS, type Route, route } from "../route.ts";
import { listQuery, newPlanBody, planPatchBody } from "../schemas/input.ts";
import * as output from "../schemas/output.ts";

export const planRoutes: readonly Route[] = [
  route({
    method: "get",
    path: `${NS}/plans`,
    scope: "read",
    summary: "All plans",
    query: listQuery,
    answers: { 200: { description: "By id.", schema: listOf(output.plan) } },
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
    summary: "One plan",
    answers: { 200: { description: "As it is.", schema: output.plan } },
    handle: async ({ limiter, id }) => ({ status: 200, body: await limiter.getPlan(id) }),
  }),
  route({
    method: "patch",
    path: `${NS}/plans/{id}`,
    scope: "admin",
    summary: "Change a plan's name or metadata",
    body: planPatchBody,
    answers: { 200: { description: "As it is now.", schema: output.plan } },
    handle: async ({ limiter, caller, id, body: { version, ...patch } }) => {
      const options = { principal: caller.id, ...(version === undefined ? {} : { version }) };
      return { status: 200, body: await limiter.updatePlan(id, given(patch), options) };
    },
  }),
  route({
    method: "delete",
    path: `${NS}/plans/{id}`,
    scope: "admin",
    summary: "Remove a plan with its limits and totals; refused while an entity refers to it",
    answers: { 204: { description: "It is gone." } },
    handle: async ({ limiter, caller, id }) => {
      await limiter.deletePlan(id, { principal: caller.id });
      return { status: 204 };
    },
  }),
];
