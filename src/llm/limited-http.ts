import { LimiterError, RateLimitExceeded, RateLimiterUnavailable } from "../domain/names/errors.ts";
import { endOfUnanswered, type WorkEnd } from "../engine/lease/work-end.ts";
import type { ModelCall } from "./adapter-options.ts";
import { type AnswerPiece, type AnswerReader, bytesOf, eventPieces, wholePieces } from "./answer-pieces.ts";
import type { LimitedCall } from "./limited-call.ts";
import type { LimitedCalls } from "./limited-calls.ts";
import { readAhead } from "./read-ahead.ts";
import { isThrottled, retryAfterMsOf } from "./wire-fields.ts";

/** A call may name its entity in this header, which is removed before the call is sent. */
const ENTITY_HEADER = "zael-entity";

/** A request as clients hand it to `fetch`. */
interface ClientRequest {
  readonly url: string;
  readonly init: RequestInit;
}

/** A metered call in its wire format. */
export interface WireCall extends AnswerReader, Pick<ModelCall, "model" | "params" | "outputMax" | "output"> {
  /** The body to send in place of the caller's. */
  readonly body: string | undefined;
}

export interface Wire {
  /** Undefined: such calls are not metered. `isFixed`: the body is signed, and must be sent as it is. */
  callOf(pathname: string, params: Readonly<Record<string, unknown>>, isFixed: boolean): WireCall | undefined;
  /** The body of an error, in the provider's words. */
  errorBody(problem: Problem): unknown;
}

/** Sends one request of a client, limited. Each try of the client comes through here on its own. */
export async function sendLimited(
  calls: LimitedCalls,
  wire: Wire,
  { url, init }: ClientRequest,
  send: (init: RequestInit) => Promise<Response>,
): Promise<Response> {
  const headers = new Headers(init.headers);
  const named = headers.get(ENTITY_HEADER) ?? undefined;
  // AWS signs all headers: the provider would refuse a request in which any of them is changed.
  const isFixed = headers.get("authorization")?.startsWith("AWS4-HMAC-SHA256") === true;
  if (named !== undefined && !isFixed) headers.delete(ENTITY_HEADER);
  const unmetered = named === undefined || isFixed ? init : { ...init, headers };
  const params = paramsOf(init.body);
  const { pathname } = new URL(url);
  if (params === undefined || wire.callOf(pathname, params, isFixed) === undefined) return send(unmetered);
  return passLimited(calls, wire, {
    ...{ pathname, params, isFixed, entityId: named, signal: init.signal ?? undefined },
    send: (body) => send(body === undefined ? unmetered : { ...unmetered, body }),
    endOf: endOfUnanswered,
    admitted: () => {},
    passOn: (bytes) => readAhead(bytes, ({ length }) => length),
  });
}

/** A metered request, and how it is passed on. */
interface PassedRequest {
  readonly pathname: string;
  readonly params: Readonly<Record<string, unknown>>;
  /** The body is signed, and must be sent as it is. */
  readonly isFixed: boolean;
  /** The entity that the request names; undefined: the options name it. */
  readonly entityId: string | undefined;
  readonly signal: AbortSignal | undefined;
  /** Sends it, with this body in place of its own if there is one. */
  readonly send: (body: string | undefined) => Promise<Response>;
  /** The end of a call of which `send` threw. */
  readonly endOf: (error: unknown) => WorkEnd;
  /** Called with a call that is about to be sent. */
  readonly admitted: (call: LimitedCall) => void;
  /** Makes the stream that the reader of an answer gets. */
  readonly passOn: (bytes: ReadableStream<Uint8Array>) => ReadableStream<Uint8Array>;
}

/** Sends one metered request, limited. Its path is one that the wire format meters. */
export async function passLimited(calls: LimitedCalls, wire: Wire, request: PassedRequest): Promise<Response> {
  const { pathname, params, isFixed, entityId, signal } = request;
  const wireCall = wire.callOf(pathname, params, isFixed) as WireCall;
  const { model, outputMax, output } = wireCall;
  let call: LimitedCall;
  try {
    call = await calls.begin({ model, params: wireCall.params, entityId, outputMax, output, signal });
  } catch (error) {
    if (!(error instanceof LimiterError)) throw error;
    return refusedResponse(error, (problem) => wire.errorBody(problem));
  }
  request.admitted(call);
  return sendAdmitted(call, wireCall, request);
}

async function sendAdmitted(
  call: LimitedCall,
  reader: WireCall,
  { send, endOf, passOn }: PassedRequest,
): Promise<Response> {
  let response: Response;
  try {
    response = await send(reader.body);
  } catch (error) {
    await call.unanswered(endOf(error));
    throw error;
  }
  if (!response.ok) {
    if (isThrottled(response.status)) await call.throttled(retryAfterMsOf((name) => response.headers.get(name)));
    else await call.unanswered("failed");
    return response;
  }
  if (response.body === null) {
    await call.answered(undefined);
    return response;
  }
  const isStream = response.headers.get("content-type")?.includes("text/event-stream") === true;
  const pieces = isStream ? eventPieces(response.body, reader) : wholePieces(response.body, reader);
  const tracked = call.track<AnswerPiece>(pieces, {
    usageOf: ({ usage }) => usage,
    outputOf: ({ text }) => (reader.output === "none" ? undefined : text),
    isEnd: ({ isEnd }) => isEnd,
    isError: ({ isError }) => isError,
    isWhole: !isStream,
  });
  const { status, statusText, headers, url } = response;
  const limited = new Response(passOn(bytesOf(tracked)), { status, statusText, headers });
  // A response that is constructed has no URL, and logs of clients show it.
  return Object.defineProperty(limited, "url", { value: url });
}

function paramsOf(body: unknown): Readonly<Record<string, unknown>> | undefined {
  if (typeof body !== "string") return undefined;
  try {
    const params: unknown = JSON.parse(body);
    return typeof params === "object" && params !== null ? (params as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

/** Refusals by the headers of the response: clients put that object into the errors that they throw. */
const refusals = new WeakMap<object, LimiterError>();

/**
 * Makes the response that a client gets in place of the provider's: it throws its own error of that status and does not retry. An error that
 * `fetch` throws would be retried twice, and end as a broken connection.
 */
function refusedResponse(error: LimiterError, bodyOf: (problem: Problem) => unknown): Response {
  const status = error.httpStatus;
  const { code, detail } = error.toProblem();
  const headers = new Headers({
    ...retryAfter(error),
    "content-type": "application/json",
    "x-should-retry": "false",
  });
  const body = bodyOf({ status, code: String(code), detail: String(detail) });
  const response = new Response(JSON.stringify(body), { status, headers });
  refusals.set(headers, error);
  // A server of Hono replaces the global Response by one whose headers are a new object at each reading.
  return Object.defineProperty(response, "headers", { value: headers });
}

/** The other header fields of a refusal would bring the engine into each bundle, and clients read none of them. */
function retryAfter(error: LimiterError): Readonly<Record<string, string>> {
  if (error instanceof RateLimiterUnavailable) return { "retry-after": "1" };
  if (!(error instanceof RateLimitExceeded) || !Number.isFinite(error.retryAfterMs)) return {};
  return { "retry-after": String(error.retryAfterSeconds) };
}

/** The body of a refusal. It does not name the levels above the entity. */
interface Problem {
  readonly status: number;
  readonly code: string;
  readonly detail: string;
}

/**
 * The error of the limiter behind an error of the client: a `RateLimitExceeded` for a refusal, or another
 * `LimiterError`. Undefined for an error that came from the provider.
 *
 * ```ts
 * const refusal = refusalOf(error);
 * if (refusal instanceof RateLimitExceeded) console.log(refusal.primary.limit, refusal.retryAfterMs);
 * ```
 */
export function refusalOf(error: unknown): LimiterError | undefined {
  if (typeof error !== "object" || error === null) return undefined;
  const { headers } = error as { readonly headers?: unknown };
  return typeof headers === "object" && headers !== null ? refusals.get(headers) : undefined;
}
