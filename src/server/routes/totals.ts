import { NS, type Route, route } from "../route.ts";
import { totalsBody, totalsQuery } from "../schemas/input.ts";
import * as output from "../schemas/output.ts";
import { deleteAt, setAt, storedAt, totalOf } from "./levels.ts";

export const totalRoutes: readonly Route[] = [
  route({
    method: "get",
    path: `${NS}/totals`,
    scope: "read",
    summary: "The limits over all resources of an entity, of each entity of a plan, or of everybody",
    query: totalsQuery,
    answers: { 200: { description: "What that very level says.", schema: output.levelLimits, headers: ["ETag"] } },
    handle: ({ limiter, query }) => storedAt(limiter, totalOf(query)),
  }),
  route({
    method: "put",
    path: `${NS}/totals`,
    scope: "admin",
    summary: "Set the limits over all resources",
    query: totalsQuery,
    body: totalsBody,
    conditional: true,
    answers: {
      200: {
        description: "As they are now, and whether they were changed.",
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
    summary: "Delete the limits over all resources",
    query: totalsQuery,
    conditional: true,
    answers: { 204: { description: "They are gone." } },
    handle: (call) => deleteAt(call, totalOf(call.query)),
  }),
];
