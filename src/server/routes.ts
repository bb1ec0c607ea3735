import type { Route } from "./route.ts";
import { aboutRoutes } from "./routes/about.ts";
import { entityRoutes, planRoutes } from "./routes/entities.ts";
import { leaseRoutes } from "./routes/leases.ts";
import { acrossRoutes, limitRoutes, totalRoutes } from "./routes/limits.ts";
import { eventRoutes, lookingRoutes } from "./routes/looking.ts";
import { manifestRoutes } from "./routes/manifests.ts";
import { namespaceRoutes } from "./routes/namespaces.ts";
import { correctionRoutes, operationRoutes, takingRoutes } from "./routes/taking.ts";
import { RegExpRouter, tryDecodeURIComponent } from "./vendor.ts";

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
