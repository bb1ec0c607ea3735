import { given } from "../../domain/names/given.ts";
import { Problem } from "../problem.ts";
import { type Route, route } from "../route.ts";
import * as output from "../schemas/output.ts";
import { z } from "../vendor.ts";

/** The service itself: probes, its document, its metrics, and the rights of a token. */
export const aboutRoutes: readonly Route[] = [
  route("GET /healthz", "Check that the process is alive", {
    ok: ["The process is alive.", output.health],
    run: () => ({ status: "ok" }),
  }),
  route("GET /readyz", "Check that the service accepts requests", {
    ok: ["The store is available.", output.readiness],
    run: async ({ service }) => {
      if (service.isStopping())
        throw new Problem("stopping", "The service is stopping; try another instance, or later.");
      if (await service.isReady()) return { status: "ready" };
      throw new Problem("unavailable", "The store does not respond; check its address and the network.");
    },
  }),
  route("GET /openapi.json", "Get the OpenAPI document", {
    ok: ["OpenAPI 3.1.", z.looseObject({ openapi: z.string() })],
    run: ({ service }) => service.document(),
  }),
  route("GET /metrics", "Get the metrics", {
    note: "Counters of this instance, for the namespaces that the token may use.",
    scope: "read",
    ok: ["Prometheus text format.", "text/plain"],
    handle: ({ service, caller }) => ({
      status: 200,
      bytes: service.metrics.text(caller.namespaces, service.tenants.counts()),
      headers: { "content-type": "text/plain; version=0.0.4; charset=utf-8" },
    }),
  }),
  route("GET /v1/me", "Show what the token may do", {
    scope: "any",
    ok: ["The token's id, namespaces and scopes, without the token itself.", output.me],
    run: ({ caller: { id, namespaces, scopes, expiresAtMs, leavePercent } }) =>
      given({ id, namespaces, scopes, expiresAtMs, leavePercent }),
  }),
];
