import type { FastifyPluginAsync, FastifyReply, FastifyRequest } from "fastify";
import type { RateLimitExceeded } from "../domain/names/errors.ts";
import { requireOption } from "../domain/names/known-names.ts";
import { withCurrentLease } from "../engine/lease/current-lease.ts";
import type { Lease } from "../engine/lease/lease.ts";
import type { Answer } from "./answer.ts";
import { type Arriving, type Decision, type Gate, gateWithHandler } from "./gate.ts";
import { onceEnded, signalOf } from "./node-response.ts";
import type { RateLimitOptions } from "./options.ts";

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

/** The gate of a route, and the function that answers its refusals. */
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
  requireOption("global", global, typeof global === "boolean", "true or false");
  requireOption("hook", hook, HOOKS.includes(hook), '"onRequest", "preValidation" or "preHandler"');
  // Options that routes add are not known yet; all others are checked at once.
  const everywhere: RouteLimit = gateWithHandler(global ? ofRoutes : { consume: {}, ...ofRoutes });
  const ofRoute = new WeakMap<object, RouteLimit>();
  const limitFor = (own: unknown): RouteLimit | undefined => {
    if (own === undefined) return global ? everywhere : undefined;
    if (own === false) return undefined;
    requireOption("config.rateLimit", own, typeof own === "object" && own !== null, "an object or false");
    const options = own as Partial<FastifyRouteRateLimitOptions>;
    const known = ofRoute.get(options) ?? gateWithHandler({ ...ofRoutes, ...options });
    ofRoute.set(options, known);
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
    // Events of the connection read the body, outside of the context that was entered before.
    app.addHook("preValidation", ({ lease }, _reply, next) => (lease ? withCurrentLease(lease, () => next()) : next()));
  } else if (hook === "preHandler") app.addHook("preHandler", decideAbout);
  else app.addHook("preValidation", decideAbout);
};

// The hooks, as with `fastify-plugin`, are for the application that registers the plugin, not for a scope of its own.
Object.assign(rateLimit, {
  [Symbol.for("skip-override")]: true,
  [Symbol.for("fastify.display-name")]: "zae-limiter",
  [Symbol.for("plugin-meta")]: { name: "zae-limiter", fastify: "5.x" },
});

const HOOKS: readonly string[] = ["onRequest", "preValidation", "preHandler"];

interface RegisterOptions {
  readonly prefix?: unknown;
  readonly logLevel?: unknown;
  readonly logSerializers?: unknown;
}

/** The errors that handlers threw, by request. */
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

  requestId() {
    return this.#request.headers["x-request-id"];
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
        this.#refuse(decision.answer);
        return;
      case "gone":
        // No answer is read.
        this.#reply.hijack();
        return;
    }
  }

  #refuse({ status, headers, fields, problem, refusal }: Answer): void {
    const reply = this.#reply.code(status);
    const { handler } = this.#limit;
    if (handler === undefined || refusal === undefined) {
      reply.headers(headers).send(JSON.stringify(problem));
      return;
    }
    reply.headers(fields);
    (async () => handler(this.#request, reply, refusal))().then((body) => {
      if (!reply.sent) reply.send(body);
    }, this.#next);
  }
}
