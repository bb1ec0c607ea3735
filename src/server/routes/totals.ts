import { NS, type Route, route } from "../route.ts";
import { totalsBody, totalsQuery } from "../schemas/input.ts";
import * as output from "../schemas/output.ts";
import { deleteAt, setAt, storedAt, totalOf } from "./levels.ts";

export const totalRoutes: readonly Route[] = [
  route({
    method: "get",
    path: `${NS}/totals`,
    scope: "read",
    summary: "Show the totals (limits over all resources) of an entity, a plan, or the system",
    query: totalsQuery,
    answers: {
      200: { description: "The totals of exactly that level.", schema: output.levelLimits, headers: ["ETag"] },
    },
    handle: ({ limiter, query }) => storedAt(limiter, totalOf(query)),
  }),
  route({
    method: "put",
    path: `${NS}/totals`,
    scope: "admin",
    summary: "Set the totals of one level",
    query: totalsQuery,
    body: totalsBody,
    conditional: true,
    answers: {
      200: {
        description: "The totals now stored, and whether they changed.",
        schema: output.changedLimits,
        headers: ["ETag"],
      },
    },
    handle: (call) => setAt(call, totalOf(call.query), call.body),
  }),
  route({
    method: "delete",
    path: `${NS}/totals`,
    scope: "admin",
    summary: "Delete the totals of one level",
    query: totalsQuery,
    conditional: true,
    answers: { 204: { description: "The totals were deleted." } },
    handle: (call) => deleteAt(call, totalOf(call.query)),
  }),
];
