import type { ServerResponse } from "node:http";
import {
  type CallHandler,
  type CanActivate,
  type CustomDecorator,
  createParamDecorator,
  type DynamicModule,
  type ExecutionContext,
  HttpException,
  Inject,
  Injectable,
  Module,
  type NestInterceptor,
  type OnModuleInit,
  SetMetadata,
} from "@nestjs/common";
import { APP_INTERCEPTOR, ModulesContainer, Reflector } from "@nestjs/core";
import { Observable } from "rxjs";
import { withCurrentLease } from "../engine/lease/current-lease.ts";
import type { Lease } from "../engine/lease/lease.ts";
import { Gate } from "./gate.ts";
import { onceEnded, signalOf } from "./node-response.ts";
import { checkOptions, type RateLimitOptions } from "./options.ts";

/** The part of a request that Nest has on Express and on Fastify alike. */
export interface NestRequest {
  /** The client's address. */
  readonly ip: string | undefined;
  /** The header fields, by lower-case name. */
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /** The method, such as `GET`. */
  readonly method: string;
  /** The path with its query. */
  readonly url: string;
}

/** Options of a controller or a handler, over those of `RateLimitModule.forRoot`, one by one. */
export type NestRateLimitOptions<In = NestRequest> = Partial<RateLimitOptions<In>>;

/** The names of the decorators' metadata. */
const OPTIONS = "zae-limiter:options";
const SKIP = "zae-limiter:skip";

/**
 * Limits a controller or a handler by other options than `RateLimitModule.forRoot` has. The guard must be bound there:
 * with `@UseGuards(RateLimitGuard)`, or everywhere as `APP_GUARD`. Written beside `@Post("chat")`:
 * `@RateLimit({ resource: "chat", consume: { rpm: 1, tpm: 500 } })`.
 */
export function RateLimit<In = NestRequest>(options: NestRateLimitOptions<In>): CustomDecorator {
  checkPart(options as NestRateLimitOptions<never>);
  return SetMetadata(OPTIONS, options);
}

/**
 * A controller or a handler that is not limited. `@SkipRateLimit(false)`, or `@RateLimit({ … })`, on a handler limits it
 * all the same.
 */
export function SkipRateLimit(skip: boolean = true): CustomDecorator {
  return SetMetadata(SKIP, skip);
}

/** The lease of the request, as an argument of the handler. Undefined where the request was not limited. */
export const CurrentLease: () => ParameterDecorator = createParamDecorator(
  (_: unknown, context: ExecutionContext) => context.switchToHttp().getRequest().lease,
);

type Handler = ReturnType<ExecutionContext["getHandler"]>;
type Controller = ReturnType<ExecutionContext["getClass"]>;

/** Joins the decorators of a handler and its controller; undefined: the handler is not limited. */
function decoratedOptions(
  reflector: Reflector,
  handler: Handler,
  controller: Controller,
): NestRateLimitOptions<unknown> | undefined {
  const own = reflector.get<NestRateLimitOptions<unknown> | undefined>(OPTIONS, handler);
  const ofAll = reflector.get<NestRateLimitOptions<unknown> | undefined>(OPTIONS, controller);
  const isSkipped =
    reflector.get<boolean | undefined>(SKIP, handler) ??
    (own === undefined && reflector.get<boolean | undefined>(SKIP, controller) === true);
  return isSkipped ? undefined : { ...ofAll, ...own };
}

/** Checks options of which some are given elsewhere. */
function checkPart(options: NestRateLimitOptions<never>): void {
  const isObject = typeof options === "object" && options !== null;
  checkOptions(isObject ? { limiter: ELSEWHERE, ...options } : options, []);
}

/** Stands for the limiter that is given elsewhere. */
const ELSEWHERE = { tryAcquire: unused, acquire: unused, withLease: unused, resolveLimits: unused };

function unused(): never {
  throw new Error("This limiter only stands for another one.");
}

/** Options of `RateLimitModule.forRoot`. What a request costs may be left to `@RateLimit({ … })`. */
export type NestModuleOptions<In = NestRequest> = NestRateLimitOptions<In> & Pick<RateLimitOptions<In>, "limiter">;

/** A request as the guard leaves it for the handler. */
interface LimitedRequest extends NestRequest {
  lease?: Lease;
}

/** The response of Express, or the reply of Fastify. */
type NestResponse = ServerResponse | FastifyReply;

interface FastifyReply {
  readonly raw: ServerResponse;
  header(name: string, value: string): unknown;
}

/** The gates of all handlers, for all guards of an application. */
class RateLimitGates {
  readonly #options: NestModuleOptions<unknown>;
  readonly #reflector: Reflector;
  readonly #gates = new WeakMap<Controller, WeakMap<Handler, Gate<unknown> | "none">>();

  constructor(options: NestModuleOptions<unknown>, reflector: Reflector) {
    this.#options = options;
    this.#reflector = reflector;
  }

  /** A handler that several controllers inherit has a gate for each of them. */
  of(controller: Controller, handler: Handler): Gate<unknown> | "none" {
    let ofController = this.#gates.get(controller);
    if (ofController === undefined) {
      ofController = new WeakMap();
      this.#gates.set(controller, ofController);
    }
    const known = ofController.get(handler) ?? this.#made(controller, handler);
    ofController.set(handler, known);
    return known;
  }

  #made(controller: Controller, handler: Handler): Gate<unknown> | "none" {
    const decorated = decoratedOptions(this.#reflector, handler, controller);
    return decorated === undefined ? "none" : new Gate(checkOptions({ ...this.#options, ...decorated }, []));
  }

  /** Makes the gates of a controller that has decorators, so that their options are checked before a request comes. */
  prepare(controller: Controller): void {
    for (const handler of methodsOf(controller)) {
      const decorated = decoratedOptions(this.#reflector, handler, controller);
      if (decorated !== undefined && Object.keys(decorated).length > 0) this.of(controller, handler);
    }
  }
}

/** The methods of a class and of those that it extends. */
function methodsOf(controller: Controller): readonly Handler[] {
  const methods: Handler[] = [];
  let prototype: object | null = controller.prototype as object;
  while (prototype !== null && prototype !== Object.prototype) {
    for (const [name, { value }] of Object.entries(Object.getOwnPropertyDescriptors(prototype))) {
      if (typeof value === "function" && name !== "constructor") methods.push(value);
    }
    prototype = Object.getPrototypeOf(prototype);
  }
  return methods;
}

/**
 * Limits the handlers that it guards: those with `@UseGuards(RateLimitGuard)`, or all of an application that has it as
 * `APP_GUARD`. The lease is at `req.lease` and closes with the response. Requests that are not HTTP pass.
 */
export class RateLimitGuard implements CanActivate {
  readonly #gates: RateLimitGates;

  /** @internal */
  constructor(gates: unknown) {
    this.#gates = gates as RateLimitGates;
  }

  /** Called by Nest. */
  async canActivate(context: ExecutionContext): Promise<boolean> {
    if (context.getType() !== "http") return true;
    const gate = this.#gates.of(context.getClass(), context.getHandler());
    if (gate === "none") return true;
    const http = context.switchToHttp();
    const request = http.getRequest<LimitedRequest>();
    const response = http.getResponse<NestResponse>();
    const raw = "raw" in response ? response.raw : response;
    const decision = await gate.decide(request, {
      address: () => request.ip,
      requestId: () => request.headers["x-request-id"],
      signal: () => signalOf(raw),
    });
    switch (decision.kind) {
      case "skipped":
        return true;
      case "passed":
        setHeaders(response, decision.headers);
        return true;
      case "granted":
        setHeaders(response, decision.headers);
        request.lease = decision.lease;
        onceEnded(raw, decision.close);
        return true;
      case "refused": {
        const { status, headers, problem, error } = decision.answer;
        setHeaders(response, headers);
        throw new HttpException(problem, status, { cause: error });
      }
      case "gone":
        // No answer is read; the handler must not run.
        throw new HttpException("The client has left.", CLIENT_GONE);
    }
  }
}

/** Servers log this status for a client that left. */
const CLIENT_GONE = 499;

function setHeaders(response: NestResponse, headers: Readonly<Record<string, string>>): void {
  const isFastify = "raw" in response;
  if ((isFastify ? response.raw : response).headersSent) return;
  for (const name in headers) {
    const value = headers[name] as string;
    if (isFastify) response.header(name, value);
    else response.setHeader(name, value);
  }
}

/** Runs handlers so that `currentLease()` returns their lease. A guard cannot: a context that it enters ends with its promise. */
class RateLimitInterceptor implements NestInterceptor {
  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    const { lease } = context.getType() === "http" ? context.switchToHttp().getRequest<LimitedRequest>() : {};
    if (lease === undefined) return next.handle();
    // Both run in the context: Nest keeps that in which `handle` was called, and a returned stream keeps that of its subscriber.
    return new Observable((subscriber) => withCurrentLease(lease, () => next.handle().subscribe(subscriber)));
  }
}

/** The module of an application that is limited. */
export class RateLimitModule implements OnModuleInit {
  readonly #gates: RateLimitGates;
  readonly #modules: ModulesContainer;

  /** @internal */
  constructor(gates: unknown, modules: unknown) {
    this.#gates = gates as RateLimitGates;
    this.#modules = modules as ModulesContainer;
  }

  /**
   * The module for `imports` of the application's own. Bind the guard besides: `@UseGuards(RateLimitGuard)`, or
   * `{ provide: APP_GUARD, useClass: RateLimitGuard }` in `providers`.
   *
   * ```ts
   * RateLimitModule.forRoot({ limiter: RateLimiter.open(), limits: [Limit.perMinute("rpm", 60)] });
   * ```
   */
  static forRoot<In = NestRequest>(options: NestModuleOptions<In>): DynamicModule {
    // The name `limiter` is always there, so that a missing limiter is reported: it is given nowhere else.
    checkPart((options && { ...options, limiter: options.limiter }) as NestRateLimitOptions<never>);
    return {
      module: RateLimitModule,
      global: true,
      providers: [
        {
          provide: RateLimitGates,
          useFactory: (reflector: Reflector) => new RateLimitGates(options as NestModuleOptions<unknown>, reflector),
          inject: [Reflector],
        },
        RateLimitGuard,
        { provide: APP_INTERCEPTOR, useClass: RateLimitInterceptor },
      ],
      exports: [RateLimitGates, RateLimitGuard],
    };
  }

  /** Called by Nest: options of decorators that are wrong keep the application from starting. */
  onModuleInit(): void {
    for (const { controllers } of this.#modules.values()) {
      for (const { metatype } of controllers.values()) {
        if (typeof metatype === "function") this.#gates.prepare(metatype as Controller);
      }
    }
  }
}

// Decorators are called, not written as syntax: Node runs these sources as they are, and strips only types.
Injectable()(RateLimitGuard);
Inject(RateLimitGates)(RateLimitGuard, undefined, 0);
Injectable()(RateLimitInterceptor);
Module({})(RateLimitModule);
Inject(RateLimitGates)(RateLimitModule, undefined, 0);
Inject(ModulesContainer)(RateLimitModule, undefined, 1);
