import { given } from "../domain/names/given.ts";
import { Problem } from "./problem.ts";
import { type Route, route } from "./route.ts";
import { entityRoutes, planRoutes } from "./routes/entities.ts";
import { leaseRoutes } from "./routes/leases.ts";
import { acrossRoutes, limitRoutes, totalRoutes } from "./routes/limits.ts";
import { eventRoutes, lookingRoutes } from "./routes/looking.ts";
import { manifestRoutes } from "./routes/manifests.ts";
import { namespaceRoutes } from "./routes/namespaces.ts";
import { correctionRoutes, operationRoutes, takingRoutes } from "./routes/taking.ts";
import * as output from "./schemas/output.ts";
import { RegExpRouter, tryDecodeURIComponent, z } from "./vendor.ts";

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

/** Every route of the service but the files of the dashboard. */
export const routes: readonly Route[] = [
  ...aboutRoutes,
  ...namespaceRoutes,
  ...takingRoutes,
  ...leaseRoutes,
  ...lookingRoutes,
  ...entityRoutes,
  ...limitRoutes,
  ...acrossRoutes,
  ...totalRoutes,
  ...planRoutes,
  ...manifestRoutes,
  ...correctionRoutes,
  ...operationRoutes,
  ...eventRoutes,
];

/** A route, with what the path has of it. */
export interface FoundRoute {
  readonly route: Route;
  /** Empty on routes without one. */
  readonly namespace: string;
  /** Empty on routes without one. */
  readonly id: string;
}

/** Finds the route of a request: the first one of the table that has its method and its path. */
type FindRoute = (method: string, path: string) => FoundRoute | undefined;

/** Uses the router of the framework alone, which makes nothing else for a request. */
export function routeFinder(routes: readonly Route[]): FindRoute {
  const router = new RegExpRouter<Route>();
  for (const route of routes) {
    router.add(route.method.toUpperCase(), route.path.replaceAll(/\{(\w+)\}/g, ":$1"), route);
  }
  return (method, path) => {
    const [found, captured] = router.match(method === "HEAD" ? "GET" : method, path);
    const [first] = found;
    if (first === undefined) return undefined;
    const [route, { namespace, id }] = first;
    return { route, namespace: partOf(captured, namespace), id: partOf(captured, id) };
  };
}

/** A part of the path, decoded; `index`: where the router has it. */
function partOf(captured: readonly (string | undefined)[] | undefined, index: string | number | undefined): string {
  const part = index === undefined ? undefined : captured?.[index as number];
  if (part === undefined) return "";
  return part.includes("%") ? tryDecodeURIComponent(part) : part;
}

/** The methods of the route that has such a path, as `Allow` lists them. */
export function allowedMethods(routes: readonly Route[]): (path: string) => string | undefined {
  const known = new Map<string, string[]>();
  for (const { method, path } of routes) {
    const methods = known.get(path) ?? [];
    known.set(path, methods);
    methods.push(...(method === "get" ? ["GET", "HEAD"] : [method.toUpperCase()]));
  }
  const patterns = Array.from(known, ([path, methods]) => ({
    pattern: new RegExp(`^${path.replaceAll(/\{\w+\}/g, "[^/]+").replaceAll(".", "\\.")}$`),
    allow: methods.join(", "),
  }));
  return (path) => patterns.find(({ pattern }) => pattern.test(path))?.allow;
}
