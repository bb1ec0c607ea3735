import type { RefusalRequest } from "../../engine/refusal/refusal-counts.ts";
import { leaveOf } from "../caller.ts";
import { given, listOf, pageOf, pageResponse } from "../page.ts";
import { NS, type Route, route } from "../route.ts";
import {
  auditQuery,
  bucketsQuery,
  explainBody,
  pairQuery,
  refusalsQuery,
  refusalTotalsQuery,
  summaryQuery,
  usageExportQuery,
  usageQuery,
  usageTotalsQuery,
} from "../schemas/input.ts";
import * as output from "../schemas/output.ts";
import type { z } from "../vendor.ts";
import { usageExported } from "./usage-export.ts";
import { summarized } from "./usage-summary.ts";

/** Questions that change nothing. */
export const lookingRoutes: readonly Route[] = [
  route({
    method: "get",
    path: `${NS}/available`,
    scope: "read",
    summary: "Show what limits hold",
    note: "Every limit of the entity, and of the parents that are charged with it.",
    query: pairQuery,
    answers: { 200: { description: "The entity first, then its parents.", schema: listOf(output.availability) } },
    handle: async ({ limiter, query }) => ({ status: 200, body: { items: await limiter.available(query) } }),
  }),
  route({
    method: "post",
    path: `${NS}/explain`,
    scope: "read",
    summary: "Explain a request",
    note: "Which limits apply to an entity on a resource, where they come from, and what a request would get.",
    body: explainBody,
    answers: { 200: { description: "The explanation.", schema: output.explanation } },
    handle: async ({ limiter, caller, body }) => {
      const leavePercent = leaveOf(caller, body.leavePercent);
      return { status: 200, body: await limiter.explain(given({ ...body, leavePercent })) };
    },
  }),
  route({
    method: "get",
    path: `${NS}/buckets`,
    scope: "read",
    summary: "List buckets",
    note: "Buckets that tokens were taken from.",
    query: bucketsQuery,
    answers: { 200: { description: "Sorted by entity, then by resource.", schema: listOf(output.bucket) } },
    handle: async ({ limiter, query: { entityId, resource, ...page } }) =>
      pageResponse(await limiter.listBuckets({ ...given({ entityId, resource }), ...pageOf(page) })),
  }),
  route({
    method: "get",
    path: `${NS}/usage`,
    scope: "read",
    summary: "List usage",
    note: "Tokens that were used, by window.",
    query: usageQuery,
    answers: { 200: { description: "Oldest first.", schema: listOf(output.usage) } },
    handle: async ({ limiter, query: { limit, cursor, ...about } }) =>
      pageResponse(await limiter.usage({ ...given(about), ...pageOf({ limit, cursor }) })),
  }),
  route({
    method: "get",
    path: `${NS}/usage/summary`,
    scope: "read",
    summary: "Sum up usage",
    note: "As it was charged at every level, and with each request once.",
    query: summaryQuery,
    answers: { 200: { description: "The sum of all windows.", schema: output.usageSummary } },
    handle: async ({ limiter, query }) => ({ status: 200, body: await summarized(limiter, given(query)) }),
  }),
  route({
    method: "get",
    path: `${NS}/usage/totals`,
    scope: "read",
    summary: "Sum up usage by entity or resource",
    query: usageTotalsQuery,
    answers: { 200: { description: "Sorted by name.", schema: listOf(output.usageTotal) } },
    handle: async ({ limiter, query }) => ({ status: 200, body: { items: await limiter.usageTotals(given(query)) } }),
  }),
  route({
    method: "get",
    path: `${NS}/usage/export`,
    scope: "read",
    summary: "Export usage",
    note: "A file of any size: CSV, a JSON object on each line, or one JSON document.",
    query: usageExportQuery,
    answers: {
      200: { description: "Oldest first.", type: ["text/csv", "application/x-ndjson", "application/json"] },
    },
    handle: (call) => usageExported(call, call.query, call.request.method === "HEAD"),
  }),
  route({
    method: "get",
    path: `${NS}/refusals`,
    scope: "read",
    summary: "List refusals",
    note: "How many requests were refused, by window.",
    query: refusalsQuery,
    answers: { 200: { description: "Oldest first.", schema: listOf(output.refusalCount) } },
    handle: async ({ limiter, query }) => pageResponse(await limiter.refusals(refusalRequest(query))),
  }),
  route({
    method: "get",
    path: `${NS}/refusals/totals`,
    scope: "read",
    summary: "Sum up refusals",
    note: "By entity, by resource or by limit.",
    query: refusalTotalsQuery,
    answers: { 200: { description: "Most refused first.", schema: listOf(output.refusalTotal) } },
    handle: async ({ limiter, query }) => ({ status: 200, body: { items: await limiter.refusalTotals(given(query)) } }),
  }),
  route({
    method: "get",
    path: `${NS}/audit`,
    scope: "read",
    summary: "Show the audit trail",
    note: "Changes of the configuration.",
    query: auditQuery,
    answers: { 200: { description: "Newest first.", schema: listOf(output.auditEvent) } },
    handle: async ({ limiter, query: { entityId, ...page } }) => {
      const { events, cursor } = await limiter.auditEvents({ ...given({ entityId }), ...pageOf(page) });
      return { status: 200, body: { items: events, ...(cursor === undefined ? {} : { cursor }) } };
    },
  }),
];

/** The library takes the size of a page under both names, too; here it has a default. */
function refusalRequest({ limit, pageSize, ...about }: z.output<typeof refusalsQuery>): RefusalRequest {
  if (typeof limit === "number") return given({ ...about, limit, pageSize });
  return given({ ...about, limit, pageSize: pageSize ?? 100 });
}
