import type { FastifyPluginAsync, FastifyReply, FastifyRequest } from "fastify";
import { RateLimitExceeded, ValidationError } from "../domain/names/errors.ts";
import { shown } from "../domain/names/names.ts";
import { withCurrentLease } from "../engine/lease/current-lease.ts";
import type { Lease } from "../engine/lease/lease.ts";
import type { Answer } from "./answer.ts";
import { type Arriving, type Decision, Gate } from "./gate.ts";
import { onceEnded, signalOf } from "./node-response.ts";
import { checkHandler, checkOptions, type RateLimitOptions } from "./options.ts";

declare module "fastify" {
  interface FastifyRequest {
    /** The lease of the request. Absent where it was not limited, and where it passed without one. */
    lease?: Lease;
  }
  interface FastifyContextConfig {
    /** Options of this route, over those of the plugin; `false`: the route is not limited. */
    rateLimit?: Partial<FastifyRouteRateLimitOptions> | false;
  }
}

/** Options of one route. */
export interface FastifyRouteRateLimitOptions extends RateLimitOptions<FastifyRequest> {
  /** Answers a refusal; header fields are set already. What it returns is sent. Default: 429 with a problem. */
  readonly handler?: (request: FastifyRequest, reply: FastifyReply, refusal: RateLimitExceeded) => unknown;
}

/** Options of the plugin. */
export interface FastifyRateLimitOptions extends FastifyRouteRateLimitOptions {
  /** `false`: only routes with `config: { rateLimit: { … } }` are limited. Default: `true`, all routes. */
  readonly global?: boolean;
  /**
   * When a request is decided about. `"preValidation"`: its body is parsed, so that `consume` can read it. A body that
   * does not fit the schema costs too; one that cannot be parsed is answered by Fastify before. `"onRequest"`: before
   * the body is read. `"preHandler"`: after validation. Default: `"preValidation"`.
   */
  readonly hook?: "onRequest" | "preValidation" | "preHandler";
}

/** What limits a route. */
interface RouteLimit {
  readonly gate: Gate<FastifyRequest>;
  readonly handler: FastifyRouteRateLimitOptions["handler"];
}

/**
 * Limits the requests of a Fastify application. The lease is at `request.lease` and closes with the response.
 *
 * ```ts
 * await app.register(rateLimit, { limiter, limits: [Limit.perMinute("rpm", 60)] });
 * app.get("/free", { config: { rateLimit: false } }, () => "free");
 * ```
 */
export const rateLimit: FastifyPluginAsync<FastifyRateLimitOptions> = async (app, options) => {
  // Fastify puts options of its own beside those of the plugin.
  const { global = true, hook = "preValidation", ...given } = options as FastifyRateLimitOptions & RegisterOptions;
  const { prefix: _, logLevel: __, logSerializers: ___, ...ofRoutes } = given;
  if (typeof global !== "boolean") throw invalid("global", global, "true or false");
  if (!HOOKS.has(hook)) throw invalid("hook", hook, '"onRequest", "preValidation" or "preHandler"');
  // What routes add is not known here; all else is checked at once.
  const everywhere = limitOf(global ? ofRoutes : { consume: {}, ...ofRoutes });
  const ofRoute = new WeakMap<object, RouteLimit>();
  const limitFor = (own: unknown): RouteLimit | undefined => {
    if (own === undefined) return global ? everywhere : undefined;
    if (own === false) return undefined;
    if (typeof own !== "object" || own === null) throw invalid("config.rateLimit", own, "an object or false");
    const known = ofRoute.get(own) ?? limitOf({ ...ofRoutes, ...own });
    ofRoute.set(own, known);
    return known;
  };
  if (!app.hasRequestDecorator("lease")) app.decorateRequest("lease", undefined);
  // Options of a route are checked when it is added, not at its first request.
  app.addHook("onRoute", ({ config }) => {
    limitFor(config?.rateLimit);
  });
  const thrown: Thrown = new WeakMap();
  app.addHook("onError", (request, _reply, error, next) => {
    thrown.set(request, { error });
    next();
  });
  const decideAbout = (request: FastifyRequest, reply: FastifyReply, next: (error?: Error) => void) => {
    const limit = limitFor(request.routeOptions?.config?.rateLimit);
    if (limit === undefined) {
      next();
      return;
    }
    limit.gate.whenDecided(request, new RequestInHook(limit, request, reply, next, thrown));
  };
  if (hook === "onRequest") {
    app.addHook("onRequest", decideAbout);
    // The body is read by events of the connection, outside of what was entered before.
    app.addHook("preValidation", ({ lease }, _reply, next) => (lease ? withCurrentLease(lease, () => next()) : next()));
  } else if (hook === "preHandler") app.addHook("preHandler", decideAbout);
  else app.addHook("preValidation", decideAbout);
};

// For the application that registers it and everything below, not for a scope of its own: what `fastify-plugin` does.
Object.assign(rateLimit, {
  [Symbol.for("skip-override")]: true,
  [Symbol.for("fastify.display-name")]: "zae-limiter",
  [Symbol.for("plugin-meta")]: { name: "zae-limiter", fastify: "5.x" },
});

const HOOKS: ReadonlySet<string> = new Set(["onRequest", "preValidation", "preHandler"]);

interface RegisterOptions {
  readonly prefix?: unknown;
  readonly logLevel?: unknown;
  readonly logSerializers?: unknown;
}

function limitOf(options: FastifyRouteRateLimitOptions): RouteLimit {
  return { gate: new Gate(checkOptions(options, ["handler"])), handler: checkHandler(options.handler) };
}

/** What handlers threw, by request. */
type Thrown = WeakMap<FastifyRequest, { readonly error: unknown }>;

/** One request in the hook that decides about it. */
class RequestInHook implements Arriving {
  readonly #limit: RouteLimit;
  readonly #request: FastifyRequest;
  readonly #reply: FastifyReply;
  readonly #next: (error?: Error) => void;
  readonly #thrown: Thrown;

  constructor(
    limit: RouteLimit,
    request: FastifyRequest,
    reply: FastifyReply,
    next: (error?: Error) => void,
    thrown: Thrown,
  ) {
    this.#limit = limit;
    this.#request = request;
    this.#reply = reply;
    this.#next = next;
    this.#thrown = thrown;
  }

  address(): string {
    return this.#request.ip;
  }

  signal(): AbortSignal {
    return signalOf(this.#reply.raw);
  }

  errorOf(): { readonly error: unknown } | undefined {
    return this.#thrown.get(this.#request);
  }

  failed(error: unknown): void {
    this.#next(error as Error);
  }

  proceed(decision: Decision): void {
    const next = this.#next;
    switch (decision.kind) {
      case "skipped":
        next();
        return;
      case "passed":
        this.#reply.headers(decision.headers);
        next();
        return;
      case "granted": {
        const { lease, headers, close } = decision;
        this.#reply.headers(headers);
        this.#request.lease = lease;
        onceEnded(this.#reply.raw, close, this);
        withCurrentLease(lease, next);
        return;
      }
      case "refused":
        refuse(decision.answer, this.#limit, this.#request, this.#reply, next);
        return;
      case "gone":
        // Nobody reads an answer.
        this.#reply.hijack();
        return;
    }
  }
}

function refuse(
  { status, headers, problem, error }: Answer,
  { handler }: RouteLimit,
  request: FastifyRequest,
  reply: FastifyReply,
  next: (error?: Error) => void,
): void {
  reply.code(status);
  if (handler === undefined || !(error instanceof RateLimitExceeded)) {
    reply.headers(headers).send(JSON.stringify(problem));
    return;
  }
  const { "content-type": _, ...fields } = headers;
  reply.headers(fields);
  (async () => handler(request, reply, error))().then((body) => {
    if (!reply.sent) reply.send(body);
  }, next);
}

function invalid(name: string, value: unknown, wanted: string): ValidationError {
  return new ValidationError("option_invalid", `${name} is ${shown(value)}; give ${wanted}.`);
}
