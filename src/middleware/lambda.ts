import type { RateLimitExceeded } from "../domain/names/errors.ts";
import { given } from "../domain/names/given.ts";
import { enterLease, withCurrentLease } from "../engine/lease/current-lease.ts";
import type { Lease } from "../engine/lease/lease.ts";
import type { MaybePromise } from "../ports/bucket-store.ts";
import { type Arrival, type Decision, gateWithHandler } from "./gate.ts";
import {
  isCutOff,
  isStream,
  type LambdaResult,
  type ResponseStream,
  refusedResult,
  refuseOnStream,
  statusOf,
  whenStreamEnds,
  withFields,
  withPreludeFields,
} from "./lambda-response.ts";
import { checkWrapped, type RateLimitOptions } from "./options.ts";

export type { LambdaResult, ResponseStream } from "./lambda-response.ts";

/** The part of an event of API Gateway (payload 2.0) or a function URL that the middleware uses. */
export interface LambdaHttpEvent {
  /** About the request. */
  readonly requestContext?: {
    /** The request as the gateway got it. */
    readonly http?: {
      /** The client's address. */
      readonly sourceIp?: string;
    };
  };
  /** The header fields, by lower-case name. */
  readonly headers?: Readonly<Record<string, string | undefined>> | null;
  /** The lease of the request. Absent where it passed without one. */
  lease?: Lease;
}

/** The part of a function's context that the middleware uses. */
export interface LambdaContext {
  /** Milliseconds until the function is stopped. */
  getRemainingTimeInMillis?(): number;
}

/** Options of `rateLimit` and `rateLimitMiddy` for Lambda. */
export interface LambdaRateLimitOptions<Event extends LambdaHttpEvent = LambdaHttpEvent>
  extends RateLimitOptions<Event> {
  /** Answers a refusal; the result gets the header fields that it does not have. Default: 429 with a problem. */
  readonly handler?: (event: Event, refusal: RateLimitExceeded) => MaybePromise<LambdaResult>;
}

/** A wait ends this long before the function would be stopped, so that there is time to answer. */
const RESERVE_MS = 500;

/**
 * Limits a function behind API Gateway (payload 2.0) or a function URL. The lease is at `event.lease` and is
 * `currentLease()`; it is closed before the result is returned. A function that streams its response, inside
 * `awslambda.streamifyResponse`, is limited alike; its lease closes with the end of the stream.
 *
 * ```ts
 * export const handler = rateLimit(async (event) => ({ statusCode: 200, body: "hello" }), { limiter, limits });
 * ```
 */
export function rateLimit<Event extends LambdaHttpEvent, Rest extends unknown[], Result>(
  handler: (event: Event, ...rest: Rest) => MaybePromise<Result>,
  options: LambdaRateLimitOptions<Event>,
): (event: Event, ...rest: [...Rest, ...unknown[]]) => Promise<Result | LambdaResult> {
  checkWrapped(handler);
  const { gate, handler: onRefusal } = gateWithHandler(options);
  return async (event, ...rest) => {
    const [first, second] = rest as readonly unknown[];
    const stream = isStream(first) ? first : undefined;
    const context = (stream === undefined ? first : second) as LambdaContext | undefined;
    const decision = await gate.decide(event, arrivalOf(event, context, stream));
    const run = () => handler(event, ...(rest as unknown[] as Rest));
    switch (decision.kind) {
      case "refused":
      case "gone": {
        const result = await refusal(decision, event, onRefusal);
        return stream === undefined ? result : ((await refuseOnStream(stream, result)) as Result);
      }
      case "granted":
        return inLease(decision, event, run, stream);
      case "passed":
        if (stream !== undefined) withPreludeFields(stream, decision.headers);
        return withFields(await run(), decision.headers);
      case "skipped":
        return run();
    }
  };
}

async function inLease<Event extends LambdaHttpEvent, Result>(
  { lease, headers, close }: Granted,
  event: Event,
  run: () => MaybePromise<Result>,
  stream: ResponseStream | undefined,
): Promise<Result | LambdaResult> {
  event.lease = lease;
  const ended = stream && whenStreamEnds(stream, withPreludeFields(stream, headers));
  try {
    const result = await withCurrentLease(lease, run);
    // Lambda freezes the function as soon as it has answered, so the lease is stored before.
    if (ended !== undefined) {
      await close(await ended);
      return result;
    }
    await close({ kind: "finished", status: statusOf(result) });
    return withFields(result, headers);
  } catch (error) {
    await close({ kind: "error", error });
    throw error;
  }
}

/** The part of a request of Middy that the middleware uses. */
export interface MiddyRequest<Event extends LambdaHttpEvent = LambdaHttpEvent> {
  /** The event. */
  event: Event;
  /** The context of the function. Default: none. */
  context?: LambdaContext;
  /** The result of the handler. Default: none yet. */
  response?: unknown;
  /** The error that the handler threw. Default: none. */
  error?: unknown;
}

/** A middleware for Middy. */
export interface RateLimitMiddleware<Event extends LambdaHttpEvent = LambdaHttpEvent> {
  /** Decides; a result that is returned is the answer. */
  before(request: MiddyRequest<Event>): Promise<LambdaResult | undefined>;
  /** Closes the lease and adds the header fields. */
  after(request: MiddyRequest<Event>): Promise<void>;
  /** Closes the lease. */
  onError(request: MiddyRequest<Event>): Promise<void>;
}

/**
 * Makes the middleware of Middy. The lease is at `event.lease` and is `currentLease()` in the handler.
 *
 * ```ts
 * export const handler = middy(hello).use(rateLimitMiddy({ limiter, limits }));
 * ```
 */
export function rateLimitMiddy<Event extends LambdaHttpEvent = LambdaHttpEvent>(
  options: LambdaRateLimitOptions<Event>,
): RateLimitMiddleware<Event> {
  const { gate, handler: onRefusal } = gateWithHandler(options);
  const decisions = new WeakMap<object, Decision>();
  return {
    async before(request) {
      const { event, context } = request;
      const decision = await gate.decide(event, arrivalOf(event, context, undefined));
      if (decision.kind === "refused" || decision.kind === "gone") return refusal(decision, event, onRefusal);
      if (decision.kind === "granted") {
        const bounded = closeInTime(decision, context);
        decisions.set(request, bounded);
        holdLease(request, bounded.lease);
        closeOnEarlyAnswer(request, bounded);
      } else decisions.set(request, decision);
      return undefined;
    },
    async after(request) {
      const decision = decisions.get(request);
      if (decision?.kind === "granted") {
        await decision.close({ kind: "finished", status: statusOf(request.response) });
      }
      if (decision !== undefined && "headers" in decision) {
        request.response = withFields(request.response, decision.headers);
      }
    },
    async onError(request) {
      const decision = decisions.get(request);
      if (decision?.kind === "granted") await decision.close({ kind: "error", error: request.error });
    },
  };
}

/**
 * Makes the lease the current one when Middy reads the event, which it does where it calls the handler. The handler runs outside of the
 * middleware: a context that a middleware enters ends with it.
 */
function holdLease<Event extends LambdaHttpEvent>(request: MiddyRequest<Event>, lease: Lease): void {
  let { event } = request;
  event.lease = lease;
  Object.defineProperty(request, "event", {
    configurable: true,
    enumerable: true,
    get: () => {
      enterLease(lease);
      return event;
    },
    set: (replaced: Event) => {
      event = replaced;
    },
  });
}

type Granted = Extract<Decision, { kind: "granted" }>;

/** Lambda stops every function after this time, in ms. */
const FUNCTION_MAX_MS = 900_000;

/** Closes the lease when the function would be stopped. Middy reports no end after a middleware whose `onError` throws. */
function closeInTime(granted: Granted, context: LambdaContext | undefined): Granted {
  const boundMs = Math.min(context?.getRemainingTimeInMillis?.() ?? FUNCTION_MAX_MS, FUNCTION_MAX_MS);
  const bound = setTimeout(() => granted.close({ kind: "disconnected" }), boundMs).unref();
  const close: Granted["close"] = (outcome) => {
    clearTimeout(bound);
    return granted.close(outcome);
  };
  return { ...granted, close };
}

/**
 * Closes the lease if another middleware answers early. Middy then calls neither `after` nor `onError`: it puts the answer into
 * `earlyResponse`, and then into `response`, which it returns. So the lease is closed there, and the answer waits for it.
 */
function closeOnEarlyAnswer<Event extends LambdaHttpEvent>(
  request: MiddyRequest<Event>,
  { headers, close }: Granted,
): void {
  let { response } = request;
  Object.defineProperty(request, "response", {
    configurable: true,
    enumerable: true,
    get: () => response,
    set: (answer: unknown) => {
      response = answer;
      if (!Object.hasOwn(request, "earlyResponse")) return;
      const { error } = request;
      const closed = close(
        error === undefined ? { kind: "finished", status: statusOf(answer) } : { kind: "error", error },
      );
      response = closed.then(() => withFields(answer, headers));
    },
  });
}

function arrivalOf(
  event: LambdaHttpEvent,
  context: LambdaContext | undefined,
  stream: ResponseStream | undefined,
): Arrival {
  return {
    ...given({ hasLeft: stream && (() => isCutOff(stream)) }),
    address: () => event.requestContext?.http?.sourceIp,
    requestId: () => event.headers?.["x-request-id"],
    waitMaxMs: () => (context?.getRemainingTimeInMillis?.() ?? Number.POSITIVE_INFINITY) - RESERVE_MS,
  };
}

async function refusal<Event extends LambdaHttpEvent>(
  decision: Extract<Decision, { kind: "refused" | "gone" }>,
  event: Event,
  onRefusal: LambdaRateLimitOptions<Event>["handler"],
): Promise<LambdaResult> {
  if (decision.kind === "gone") return { statusCode: 499, headers: {}, body: "" };
  return refusedResult(decision.answer, onRefusal && ((error) => onRefusal(event, error)));
}
