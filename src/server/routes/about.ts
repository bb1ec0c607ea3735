import { given } from "../page.ts";
import { Problem } from "../problem.ts";
import { type Route, route } from "../route.ts";
import type { RouteResponse } from "../route-response.ts";
import * as output from "../schemas/output.ts";
import { z } from "../vendor.ts";

/** What the service says of itself, and to whom it speaks. */
export const aboutRoutes: readonly Route[] = [
  route({
    method: "get",
    path: "/healthz",
    summary: "Check that the process is alive",
    answers: { 200: { description: "The process is alive.", schema: output.health } },
    handle: () => ({ status: 200, body: { status: "ok" } }),
  }),
  route({
    method: "get",
    path: "/readyz",
    summary: "Check that the service accepts requests",
    answers: { 200: { description: "The store is available.", schema: output.readiness } },
    handle: async ({ service }): Promise<RouteResponse> => {
      if (service.isStopping())
        throw new Problem("stopping", "The service is stopping; try another instance, or later.");
      if (await service.isReady()) return { status: 200, body: { status: "ready" } };
      throw new Problem("unavailable", "The store does not respond; check its address and the network.");
    },
  }),
  route({
    method: "get",
    path: "/openapi.json",
    summary: "Get the OpenAPI document",
    answers: { 200: { description: "OpenAPI 3.1.", schema: z.looseObject({ openapi: z.string() }) } },
    handle: ({ service }) => ({ status: 200, body: service.document() }),
  }),
  route({
    method: "get",
    path: "/metrics",
    scope: "read",
    summary: "Get the metrics",
    note: "Counters of this instance, for the namespaces that the token may use.",
    answers: { 200: { description: "Prometheus text format.", type: "text/plain" } },
    handle: ({ service, caller }) => ({
      status: 200,
      bytes: service.metrics.text(caller.namespaces, service.tenants.counts()),
      headers: { "content-type": "text/plain; version=0.0.4; charset=utf-8" },
    }),
  }),
  route({
    method: "get",
    path: "/v1/me",
    scope: "any",
    summary: "Show what the token may do",
    answers: {
      200: { description: "The token's id, namespaces and scopes, without the token itself.", schema: output.me },
    },
    handle: ({ caller: { id, namespaces, scopes, expiresAtMs, leavePercent } }) => ({
      status: 200,
      body: { id, namespaces, scopes, ...given({ expiresAtMs, leavePercent }) },
    }),
  }),
];
