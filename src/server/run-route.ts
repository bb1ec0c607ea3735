import type { Limiter } from "../engine/limiter/limiter.ts";
import type { StoredLeases } from "../leases/stored-leases.ts";
import type { MaybePromise } from "../ports/bucket-store.ts";
import { type Caller, callerOf, LOCAL, requireAllNamespaces, requireNamespace, requireScope } from "./caller.ts";
import type { Inflight, Underway } from "./inflight.ts";
import type { OriginGuard } from "./origin-guard.ts";
import { Problem, type RouteResponse } from "./problem.ts";
import { parseBody, readBody, readQuery } from "./read-input.ts";
import type { Call, Route, ServiceParts } from "./route.ts";
import type { FoundRoute } from "./routes.ts";
import { isNamespaceMissing, type Tenant, type TenantTools } from "./tenants.ts";
import type { TokenEntry } from "./tokens.ts";

/** The way that a request came in: by a listener, or by a call of `fetch`. */
export interface Gate {
  readonly guard: OriginGuard;
  /** The caller of a service without tokens. Undefined: a token is needed. */
  readonly openTo: Caller | undefined;
  /** Called by a program, not by our listener: fields that a server sets are not there. */
  readonly isFetch: boolean;
  /** Whatever name it is asked by: for a listener that pages cannot use, as it wants tokens. */
  readonly anyHost?: boolean;
  /** The addresses that there are here; absent: all. */
  readonly onlyPaths?: ReadonlySet<string>;
}

export interface RequestContext {
  readonly gate: Gate;
  readonly requestId: string;
  readonly underway: Underway;
  readonly cutOff: (() => void) | undefined;
}

export interface RouteRunner {
  readonly service: ServiceParts;
  readonly inflight: Inflight;
  /** The entry of a token that is good now. */
  findToken(token: string): TokenEntry | undefined;
}

/** How long an answer may take once the body is there. */
const ANSWER_MS = 10_000;

/** Checks the caller first: without the right, no body is read and no namespace is looked up. */
export async function runRoute(
  runner: RouteRunner,
  { route, namespace, id }: FoundRoute,
  request: Request,
  context: RequestContext,
): Promise<RouteResponse> {
  const { service, inflight } = runner;
  if (service.isStopping() && !STOPPING_ROUTES.has(route.path)) {
    throw new Problem("stopping", "The service is stopping; try another instance, or later.", {
      headers: { connection: "close" },
    });
  }
  const caller = route.scope === undefined ? LOCAL : identified(runner, request, context);
  authorize(route, caller, namespace);
  const query = readQuery(request.url, route.query);
  const bodyMax = Math.max(service.settings.bodyMax, route.bodyMax ?? 0);
  const text = route.method === "get" ? undefined : readBody(request, route.body, bodyMax, context.gate.isFetch);
  const body = text === undefined ? undefined : parseBody(await text, route.body);
  if (!UNCOUNTED_ROUTES.has(route.path)) {
    const holder = { token: caller.token?.id, namespace };
    inflight.begin(context.underway, holder, route.endsLeases === true ? "ending" : "plain", ANSWER_MS);
  }
  const call = new RouteCall(runner, context, request, { namespace, id, caller, query, body });
  const tenant = namespace === "" ? undefined : service.tenants.get(namespace);
  try {
    return await handled(route, call, tenant);
  } catch (error) {
    // The name may have been deleted and registered anew since it was looked up: then it stands for another namespace.
    if (tenant === undefined || !isNamespaceMissing(error) || !service.tenants.lost(tenant)) throw error;
    return await handled(route, call, service.tenants.get(namespace));
  }
}

function handled(route: Route, call: RouteCall, tenant: Tenant | undefined): MaybePromise<RouteResponse> {
  const tools = tenant === undefined ? call.service.tenants.rootTools : tenant.tools();
  if (tools instanceof Promise) return tools.then((found) => route.handle(call.on(found)));
  return route.handle(call.on(tools));
}

/** The argument of a handler. It is a class with few fields, because every request makes one. */
class RouteCall implements Call<unknown, unknown> {
  readonly namespace: string;
  readonly id: string;
  readonly caller: Caller;
  readonly query: unknown;
  readonly body: unknown;
  readonly request: Request;
  readonly #runner: RouteRunner;
  readonly #context: RequestContext;
  #tools: TenantTools;

  constructor(
    runner: RouteRunner,
    context: RequestContext,
    request: Request,
    {
      namespace,
      id,
      caller,
      query,
      body,
    }: Pick<Call<unknown, unknown>, "namespace" | "id" | "caller" | "query" | "body">,
  ) {
    this.namespace = namespace;
    this.id = id;
    this.caller = caller;
    this.query = query;
    this.body = body;
    this.request = request;
    this.#runner = runner;
    this.#context = context;
    this.#tools = runner.service.tenants.rootTools;
  }

  /** The same call on the tools of its tenant. */
  on(tools: TenantTools): this {
    this.#tools = tools;
    return this;
  }

  get service(): ServiceParts {
    return this.#runner.service;
  }

  get limiter(): Limiter {
    return this.#tools.limiter;
  }

  get storedLeases(): StoredLeases {
    return this.#tools.storedLeases;
  }

  get requestId(): string {
    return this.#context.requestId;
  }

  get cutOff(): (() => void) | undefined {
    return this.#context.cutOff;
  }

  signal(waitMs: number): AbortSignal {
    const { underway } = this.#context;
    if (waitMs > 0) this.#runner.inflight.wait(underway, ANSWER_MS + waitMs);
    underway.controller ??= new AbortController();
    return AbortSignal.any([underway.controller.signal, this.request.signal]);
  }

  outlive(): () => void {
    return this.#runner.inflight.outlive(this.#context.underway);
  }

  extend(answerMs: number): void {
    this.#runner.inflight.extend(this.#context.underway, ANSWER_MS + answerMs);
  }
}

/** Probes: whether the process lives, and takes requests, is told however many are under way. */
const UNCOUNTED_ROUTES: ReadonlySet<string> = new Set(["/healthz", "/readyz"]);

/** Routes that are answered while the service stops. */
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
  requireScope(caller, scope, () => `${method.toUpperCase()} ${path}`);
  if (everywhere === true) requireAllNamespaces(caller);
  else if (namespace !== "") requireNamespace(caller, namespace);
}
