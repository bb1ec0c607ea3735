import { RateLimitExceeded } from "../domain/errors.ts";
import { refusalHeaders } from "../domain/rate-limit-headers.ts";
import { standingsIn } from "../engine/refused.ts";
import { corsFields, preflightFields } from "./cors.ts";
import type { Inflight } from "./inflight.ts";
import { internalProblem, Problem, problemResponse } from "./problem.ts";
import type { Gate, RequestContext } from "./request-context.ts";
import type { Route } from "./route.ts";
import { type RouteResponse, responseOf } from "./route-response.ts";
import { type RouteRunner, runRoute } from "./run-route.ts";
import { Hono } from "./vendor.ts";
import { waysFor } from "./ways.ts";

/** Answers a request that came through a gate. Never rejects. */
export type Respond = (request: Request, gate: Gate, cutOff: (() => void) | undefined) => Promise<Response>;

export interface AppOptions {
  readonly runner: RouteRunner;
  readonly inflight: Inflight;
  readonly routes: readonly Route[];
  /** A file of the dashboard; undefined where there is no such file. */
  readonly page: (path: string, request: Request) => Promise<RouteResponse | undefined>;
  readonly newRequestId: () => string;
  readonly log: (line: string) => void;
  /** Units of limits in `RateLimit-Policy`. */
  readonly units: ReadonlyMap<string, string>;
}

const PROBES: ReadonlySet<string> = new Set(["/healthz", "/readyz"]);

/** How long a body may take to arrive; the listener ends such a request a little earlier. */
const BODY_MS = 21_000;

/** The whole service as one function from request to response. */
export function makeApp(options: AppOptions): Respond {
  const { inflight, newRequestId } = options;
  const app = routed(options);
  return async (request, gate, cutOff) => {
    const { headers, method } = request;
    const requestId = safeId(headers.get("x-request-id")) ?? newRequestId();
    const fields: Record<string, string> = { "x-request-id": requestId };
    try {
      const path = pathOf(request.url);
      // Probes of clusters and load balancers send the address of their target; a page that does learns nothing.
      if (!PROBES.has(path) && gate.anyHost !== true) {
        gate.guard.requireHost(headers.get("host") ?? (gate.isFetch ? new URL(request.url).host : undefined));
      }
      if (gate.onlyPaths?.has(path) === false) return responseOf(unknownRoute(requestId, request), fields);
      const origin = headers.get("origin");
      if (!isPage(path)) gate.guard.requireOrigin({ origin, fetchSite: headers.get("sec-fetch-site") });
      if (origin !== null && gate.guard.isAllowed(origin)) {
        Object.assign(fields, corsFields(origin));
        if (method === "OPTIONS" && headers.has("access-control-request-method")) {
          return responseOf({ status: 204, headers: preflightFields(origin) }, fields);
        }
      }
      return await inflight.run(BODY_MS, async (underway) =>
        app.fetch(request, { gate, requestId, fields, underway, cutOff }),
      );
    } catch (error) {
      return responseOf(failed(options, error, requestId, request), fields);
    }
  };
}

function routed(options: AppOptions) {
  const { runner, routes, page } = options;
  const app = new Hono<{ Bindings: RequestContext }>();
  for (const route of routes) {
    app.on(route.method.toUpperCase(), route.path.replaceAll(/\{(\w+)\}/g, ":$1"), async (c) =>
      responseOf(await runRoute(runner, route, c.req.raw, c.req.param(), c.env), c.env.fields),
    );
  }
  const methodsOf = allowedMethods(routes);
  app.notFound(async (c) => {
    const { method } = c.req;
    const allow = isPage(c.req.path) ? "GET, HEAD" : methodsOf(c.req.path);
    if (allow === undefined) return responseOf(unknownRoute(c.env.requestId, c.req.raw), c.env.fields);
    if (isPage(c.req.path) && (method === "GET" || method === "HEAD")) {
      return responseOf((await page(c.req.path, c.req.raw)) ?? unknownRoute(c.env.requestId, c.req.raw), c.env.fields);
    }
    const problem = new Problem("method_not_allowed", `This route accepts ${allow}.`, { headers: { allow } });
    return responseOf(failed(options, problem, c.env.requestId, c.req.raw), c.env.fields);
  });
  app.onError((error, c) => responseOf(failed(options, error, c.env.requestId, c.req.raw), c.env.fields));
  return app;
}

function failed({ log, units }: AppOptions, error: unknown, requestId: string, request: Request): RouteResponse {
  const answer = problemResponse(error, requestId, waysFor(request));
  if (answer !== undefined && error instanceof RateLimitExceeded) {
    return { ...answer, headers: refusalHeaders(error, standingsIn(error), units) };
  }
  if (answer !== undefined) return answer;
  // Whoever left reads no answer, and what was cut off by that is no defect.
  if (request.signal.aborted) return { status: 503 };
  log(
    `Request ${requestId} failed because of a bug in the service: ${error instanceof Error ? error.stack : String(error)}`,
  );
  return internalProblem(requestId);
}

function unknownRoute(requestId: string, request: Request): RouteResponse {
  const problem = new Problem("route_unknown", "No such route; see /openapi.json.");
  return problemResponse(problem, requestId, waysFor(request)) as RouteResponse;
}

/** The methods of the route that has such a path, as `Allow` lists them. */
function allowedMethods(routes: readonly Route[]): (path: string) => string | undefined {
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

function isPage(path: string): boolean {
  return path === "/" || path.startsWith("/assets/");
}

function pathOf(url: string): string {
  const start = url.indexOf("/", url.indexOf("://") + 3);
  if (start < 0) return "/";
  const end = url.slice(start).search(/[?#]/);
  return end < 0 ? url.slice(start) : url.slice(start, start + end);
}

function safeId(given: string | null): string | undefined {
  return given !== null && /^[A-Za-z0-9._:-]{1,64}$/.test(given) ? given : undefined;
}
