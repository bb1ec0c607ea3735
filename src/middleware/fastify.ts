import type { FastifyPluginAsync, FastifyReply, FastifyRequest } from "fastify";
import { RateLimitExceeded, ValidationError } from "../domain/errors.ts";
import { shown } from "../domain/names.ts";
import { withCurrentLease } from "../engine/current-lease.ts";
import type { Lease } from "../engine/lease.ts";
import { type Decision, Gate } from "./gate.ts";
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
   * When a request is decided about. `"preValidation"`: its body is parsed, so that `consume` can read it, and a body
   * that is not valid costs too. `"onRequest"`: before the body is read. `"preHandler"`: after validation. Default:
   * `"preValidation"`.
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
  const everywhere = limitOf(ofRoutes);
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
  const thrown = new WeakMap<FastifyRequest, { readonly error: unknown }>();
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
    const arrival = { address: () => request.ip, signal: () => signalOf(reply.raw) };
    const errorOf = () => thrown.get(request);
    const inHook = { request, reply, next, errorOf };
    limit.gate.whenDecided(request, arrival, (decision) => proceed(decision, limit, inHook), next as Failed);
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

type Failed = (error: unknown) => void;

interface InHook {
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
  readonly next: (error?: Error) => void;
  readonly errorOf: () => { readonly error: unknown } | undefined;
}

function proceed(decision: Decision, { handler }: RouteLimit, { request, reply, next, errorOf }: InHook): void {
  switch (decision.kind) {
    case "skipped":
      next();
      return;
    case "passed":
      reply.headers(decision.headers);
      next();
      return;
    case "granted": {
      const { lease, headers, close } = decision;
      reply.headers(headers);
      request.lease = lease;
      onceEnded(reply.raw, close, errorOf);
      withCurrentLease(lease, () => next());
      return;
    }
    case "refused": {
      const { status, headers, problem, error } = decision.answer;
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
      return;
    }
    case "gone":
      // Nobody reads an answer.
      reply.hijack();
      return;
  }
}

function invalid(name: string, value: unknown, wanted: string): ValidationError {
  return new ValidationError("option_invalid", `${name} is ${shown(value)}; give ${wanted}.`);
}
