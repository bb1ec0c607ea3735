import { refusalHeaders } from "../domain/charge/rate-limit-headers.ts";
import { RateLimitExceeded } from "../domain/names/errors.ts";
import { standingsIn } from "../engine/refusal/refused.ts";
import { corsFields, preflightFields } from "./cors.ts";
import type { Inflight } from "./inflight.ts";
import { internalProblem, Problem, problemResponse } from "./problem.ts";
import type { Gate, RequestContext } from "./request-context.ts";
import type { Route } from "./route.ts";
import { allowedMethods, routeFinder } from "./route-finder.ts";
import { type RouteResponse, responseOf } from "./route-response.ts";
import { type RouteRunner, runRoute } from "./run-route.ts";
import { getPath } from "./vendor.ts";
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
  const run = routed(options);
  return async (request, gate, cutOff) => {
    const { headers, method } = request;
    const requestId = safeId(headers.get("x-request-id")) ?? newRequestId();
    const fields: Record<string, string> = { "x-request-id": requestId };
    let isRouted = false;
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
      isRouted = true;
      const answer = await inflight.run(BODY_MS, (underway) => run(request, { gate, requestId, underway, cutOff }));
      return sent(method, responseOf(answer, fields));
    } catch (error) {
      const response = responseOf(failed(options, error, requestId, request), fields);
      return isRouted ? sent(method, response) : response;
    }
  };
}

/** An answer to HEAD is that to GET without its body. */
function sent(method: string, response: Response): Response {
  return method === "HEAD" ? new Response(null, response) : response;
}

function routed(options: AppOptions): (request: Request, context: RequestContext) => Promise<RouteResponse> {
  const { runner, routes, page } = options;
  const findRoute = routeFinder(routes);
  const methodsOf = allowedMethods(routes);
  const notFound = async (request: Request, path: string, { requestId }: RequestContext): Promise<RouteResponse> => {
    const { method } = request;
    const allow = isPage(path) ? "GET, HEAD" : methodsOf(path);
    if (allow === undefined) return unknownRoute(requestId, request);
    if (isPage(path) && (method === "GET" || method === "HEAD")) {
      return (await page(path, request)) ?? unknownRoute(requestId, request);
    }
    throw new Problem("method_not_allowed", `This route accepts ${allow}.`, { headers: { allow } });
  };
  return (request, context) => {
    const path = getPath(request);
    const found = findRoute(request.method, path);
    return found === undefined ? notFound(request, path, context) : runRoute(runner, found, request, context);
  };
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
