import { LimiterError } from "../domain/names/errors.ts";
import { endOfUnanswered } from "../engine/lease/work-end.ts";
import { type AnswerPiece, type AnswerReader, bytesOf, eventPieces, wholePieces } from "./answer-pieces.ts";
import type { LimitedCall } from "./limited-call.ts";
import type { LimitedCalls } from "./limited-calls.ts";
import type { ModelCall } from "./model-call.ts";
import { readAhead } from "./read-ahead.ts";
import { type Problem, refusedResponse } from "./refused-response.ts";
import { retryAfterMsOf } from "./retry-after.ts";

/** One call may name its entity in this header. It is taken off before the call is sent. */
const ENTITY_HEADER = "zael-entity";

/** A request as clients hand it to `fetch`. */
interface ClientRequest {
  readonly url: string;
  readonly init: RequestInit;
}

/** A call that is metered, as its wire format has it. */
export interface WireCall extends AnswerReader, Pick<ModelCall, "model" | "params" | "outputMax" | "output"> {
  /** The body to send in place of the caller's. */
  readonly body: string | undefined;
}

/** The wire format of a provider. */
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
  // Signed with all its headers (AWS): whatever is changed, the provider would refuse it.
  const isFixed = headers.get("authorization")?.startsWith("AWS4-HMAC-SHA256") === true;
  if (named !== undefined && !isFixed) headers.delete(ENTITY_HEADER);
  const unmetered = named === undefined || isFixed ? init : { ...init, headers };
  const params = paramsOf(init.body);
  const wireCall = params && wire.callOf(new URL(url).pathname, params, isFixed);
  if (wireCall === undefined) return send(unmetered);
  const { model, outputMax, output, body } = wireCall;
  const signal = init.signal ?? undefined;
  let call: LimitedCall;
  try {
    call = await calls.begin({ model, params: wireCall.params, entityId: named, outputMax, output, signal });
  } catch (error) {
    if (!(error instanceof LimiterError)) throw error;
    return refusedResponse(error, (problem) => wire.errorBody(problem));
  }
  return answered(call, wireCall, () => send(body === undefined ? unmetered : { ...unmetered, body }));
}

async function answered(call: LimitedCall, reader: WireCall, send: () => Promise<Response>): Promise<Response> {
  let response: Response;
  try {
    response = await send();
  } catch (error) {
    await call.unanswered(endOfUnanswered(error));
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
  const bytes = readAhead(bytesOf(tracked), ({ length }) => length);
  const limited = new Response(bytes, { status, statusText, headers });
  // A response that is made has none, and logs of clients show it.
  return Object.defineProperty(limited, "url", { value: url });
}

/** A provider that has enough of a caller (429), or of all (529 of Anthropic). */
export function isThrottled(status: number | undefined): boolean {
  return status === 429 || status === 529;
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
