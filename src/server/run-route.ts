import { type Caller, callerOf, LOCAL, requireAllNamespaces, requireNamespace, requireScope } from "./caller.ts";
import type { Inflight } from "./inflight.ts";
import { Problem } from "./problem.ts";
import { readBody, readQuery } from "./read-input.ts";
import type { RequestContext } from "./request-context.ts";
import type { Route } from "./route.ts";
import type { RouteResponse } from "./route-response.ts";
import type { ServiceParts } from "./service-parts.ts";
import { isNamespaceMissing, type Tenant } from "./tenant.ts";
import type { TokenEntry } from "./token-entry.ts";

/** What every route is run with. */
export interface RouteRunner {
  readonly service: ServiceParts;
  readonly inflight: Inflight;
  /** The entry of a token that is good now. */
  findToken(token: string): TokenEntry | undefined;
}

/** How long an answer may take once the body is there. */
const ANSWER_MS = 10_000;

/** Who may, then what: nothing is read of a body, and no namespace is looked up, for somebody who may not. */
export async function runRoute(
  runner: RouteRunner,
  route: Route,
  request: Request,
  params: Readonly<Record<string, string>>,
  context: RequestContext,
): Promise<RouteResponse> {
  const { service, inflight } = runner;
  const { underway, requestId, gate, cutOff } = context;
  if (service.isStopping() && !STOPPING_ROUTES.has(route.path)) {
    throw new Problem("stopping", "The service is stopping; try another instance, or later.", {
      headers: { connection: "close" },
    });
  }
  const caller = route.scope === undefined ? LOCAL : identified(runner, request, context);
  const { namespace = "", id = "" } = params;
  authorize(route, caller, namespace);
  const query = readQuery(request.url, route.query);
  const body =
    route.method === "get"
      ? undefined
      : await readBody(request, route.body, { bytesMax: service.settings.bodyMax, isFetch: gate.isFetch });
  if (!UNCOUNTED_ROUTES.has(route.path)) {
    const holder = { token: caller.token?.id, namespace };
    inflight.begin(underway, holder, route.endsLeases === true ? "ending" : "plain", ANSWER_MS);
  }
  const handled = async (tenant: Tenant | undefined): Promise<RouteResponse> => {
    const found = tenant?.tools();
    const tools = found instanceof Promise ? await found : found;
    return route.handle({
      ...{ service, namespace, id, caller, query, body, requestId, request, cutOff },
      limiter: (tools ?? service.tenants.rootTools).limiter,
      storedLeases: (tools ?? service.tenants.rootTools).storedLeases,
      signal: (waitMs) => {
        if (waitMs > 0) inflight.wait(underway, ANSWER_MS + waitMs);
        underway.controller ??= new AbortController();
        return AbortSignal.any([underway.controller.signal, request.signal]);
      },
      extend: (answerMs) => inflight.extend(underway, ANSWER_MS + answerMs),
    });
  };
  const tenant = namespace === "" ? undefined : service.tenants.get(namespace);
  try {
    return await handled(tenant);
  } catch (error) {
    // The name may have been deleted and registered anew since it was looked up: then it stands for another namespace.
    if (tenant === undefined || !isNamespaceMissing(error) || !service.tenants.lost(tenant)) throw error;
    return await handled(service.tenants.get(namespace));
  }
}

/** Probes: whether the process lives, and takes requests, is told however many are under way. */
const UNCOUNTED_ROUTES: ReadonlySet<string> = new Set(["/healthz", "/readyz"]);

/** What is answered while the service stops. */
const STOPPING_ROUTES: ReadonlySet<string> = new Set(["/healthz", "/readyz"]);

function identified({ findToken }: RouteRunner, request: Request, { gate }: RequestContext): Caller {
  if (gate.openTo !== undefined) return gate.openTo;
  const field = request.headers.get("authorization");
  const headers = { "www-authenticate": "Bearer" };
  const [, token] = /^Bearer ([\x21-\x7e]+)$/i.exec(field ?? "") ?? [];
  if (token === undefined) {
    throw new Problem("token_missing", "A token is needed; send Authorization: Bearer TOKEN.", { headers });
  }
  const entry = findToken(token);
  if (entry !== undefined) return callerOf(entry);
  throw new Problem("token_unknown", "Unknown, revoked or expired token; get a new one.", { headers });
}

function authorize({ scope, everywhere, method, path }: Route, caller: Caller, namespace: string): void {
  if (scope === undefined || scope === "any") return;
  requireScope(caller, scope, `${method.toUpperCase()} ${path}`);
  if (everywhere === true) requireAllNamespaces(caller);
  else if (namespace !== "") requireNamespace(caller, namespace);
}
