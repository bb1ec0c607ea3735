import { type CustomDecorator, createParamDecorator, type ExecutionContext, SetMetadata } from "@nestjs/common";
import type { Reflector } from "@nestjs/core";
import { checkOptions, type RateLimitOptions } from "./options.ts";

/** What Nest has of a request on Express and on Fastify alike. */
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

/** Where the decorators leave what they say. */
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

/** What the decorators of a handler and its controller say together; undefined: it is not limited. */
export function decoratedOptions(
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

/** Options of which some are given elsewhere. */
export function checkPart(options: NestRateLimitOptions<never>): void {
  const isObject = typeof options === "object" && options !== null;
  checkOptions(isObject ? { limiter: ELSEWHERE, ...options } : options, []);
}

/** Stands for the limiter that is given elsewhere. */
const ELSEWHERE = { tryAcquire: unused, acquire: unused, withLease: unused, resolveLimits: unused };

function unused(): never {
  throw new Error("This limiter only stands for another one.");
}
