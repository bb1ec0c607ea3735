import { refusalHeaders } from "../domain/charge/rate-limit-headers.ts";
import { RateLimitExceeded } from "../domain/names/errors.ts";
import { standingsIn } from "../engine/refusal/refused.ts";
import {
  answerForwarded,
  denied,
  denyingStatus,
  type ForwardAuthParts,
  type ForwardedQuestion,
  forwardedQuestion,
} from "./edge/forward-auth.ts";
import type { Inflight } from "./inflight.ts";
import { corsFields, preflightFields } from "./origin-guard.ts";
import { internalProblem, Problem, problemResponse, type RouteResponse, responseOf } from "./problem.ts";
import type { Route } from "./route.ts";
import { allowedMethods, routeFinder } from "./routes.ts";
import { type Gate, type RequestContext, type RouteRunner, runRoute } from "./run-route.ts";
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
  /** Undefined: the service has no edge file. */
  readonly forwardAuth: ForwardAuthParts | undefined;
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
  const forwarded = forwarding(options);
  return async (request, gate, cutOff) => {
    const { headers, method } = request;
    const requestId = safeId(headers.get("x-request-id")) ?? newRequestId();
    const fields: Record<string, string> = { "x-request-id": requestId };
    let isRouted = false;
    try {
      const path = getPath(request);
      const question = gate.onlyPaths === undefined && options.forwardAuth && forwardedQuestion(path);
      if (question) return sent(method, responseOf(await forwarded(question, request, { gate, requestId }), fields));
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
      const answer = await inflight.run(BODY_MS, (underway) =>
        run(request, path, { gate, requestId, underway, cutOff }),
      );
      return sent(method, responseOf(answer, fields));
    } catch (error) {
      const response = responseOf(failed(options, error, requestId, request), fields);
      return isRouted ? sent(method, response) : response;
    }
  };
}

/** Answers questions of proxies. What stands in `Host`, `Origin` and the like is of their users. Never rejects. */
function forwarding(options: AppOptions) {
  const { inflight, forwardAuth } = options;
  return async (
    question: ForwardedQuestion,
    request: Request,
    about: { readonly gate: Gate; readonly requestId: string },
  ): Promise<RouteResponse> => {
    let deny: number | undefined;
    try {
      deny = denyingStatus(question, request.url);
      const parts = forwardAuth as ForwardAuthParts;
      const answer = await inflight.run(BODY_MS, (underway) =>
        answerForwarded(parts, question, request, { ...about, underway }),
      );
      return denied(answer, deny);
    } catch (error) {
      return denied(failed(options, error, about.requestId, request), deny);
    }
  };
}

/** An answer to HEAD is that to GET without its body. */
function sent(method: string, response: Response): Response {
  return method === "HEAD" ? new Response(null, response) : response;
}

type Run = (request: Request, path: string, context: RequestContext) => Promise<RouteResponse>;

function routed(options: AppOptions): Run {
  const { runner, routes, page } = options;
  const findRoute = routeFinder(routes);
  const methodsOf = allowedMethods(routes);
  const notFound: Run = async (request, path, { requestId }) => {
    const { method } = request;
    const allow = isPage(path) ? "GET, HEAD" : methodsOf(path);
    if (allow === undefined) return unknownRoute(requestId, request);
    if (isPage(path) && (method === "GET" || method === "HEAD")) {
      return (await page(path, request)) ?? unknownRoute(requestId, request);
    }
    throw new Problem("method_not_allowed", `This route accepts ${allow}.`, { headers: { allow } });
  };
  return (request, path, context) => {
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
  // The client has left: nobody reads the answer, and the failure is no bug.
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

function safeId(given: string | null): string | undefined {
  return given !== null && /^[A-Za-z0-9._:-]{1,64}$/.test(given) ? given : undefined;
}
