import { NS, type Route, route } from "../route.ts";
import { totalsBody, totalsQuery } from "../schemas/input.ts";
import * as output from "../schemas/output.ts";
import { deleteAt, setAt, storedAt, totalOf } from "./levels.ts";

export const totalRoutes: readonly Route[] = [
  route({
    method: "get",
    path: `${NS}/totals`,
    scope: "read",
    summary: "Read totals",
    note: "The limits over all resources of an entity, of each entity of a plan, or with nothing in the query of every entity.",
    query: totalsQuery,
    answers: {
      200: { description: "What is stored at exactly this level.", schema: output.levelLimits, headers: ["ETag"] },
    },
    handle: ({ limiter, query }) => storedAt(limiter, totalOf(query)),
  }),
  route({
    method: "put",
    path: `${NS}/totals`,
    scope: "admin",
    summary: "Set totals",
    note: "Of an entity, a plan or every entity, as for reading.",
    query: totalsQuery,
    body: totalsBody,
    conditional: true,
    answers: {
      200: {
        description: "The limits after the change, and whether anything changed.",
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
    summary: "Delete totals",
    note: "Of an entity, a plan or every entity, as for reading.",
    query: totalsQuery,
    conditional: true,
    answers: { 204: { description: "They were deleted." } },
    handle: (call) => deleteAt(call, totalOf(call.query)),
  }),
];
