import type { RateLimitExceeded } from "../domain/names/errors.ts";
import type { MaybePromise } from "../ports/bucket-store.ts";
import type { Answer } from "./answer.ts";
import type { RequestOutcome } from "./options.ts";

/** A result for API Gateway (payload 2.0) and function URLs. */
export interface LambdaResult {
  /** The status of the answer. */
  readonly statusCode: number;
  /** Header fields by name. */
  readonly headers: Record<string, string>;
  /** The body as text. */
  readonly body: string;
}

/** Makes the result of a request that did not get through; `onRefusal` answers refusals in its place. */
export async function refusedResult(
  { status, headers, fields, problem, refusal }: Answer,
  onRefusal: ((refusal: RateLimitExceeded) => MaybePromise<LambdaResult>) | undefined,
): Promise<LambdaResult> {
  if (onRefusal !== undefined && refusal !== undefined) {
    return withFields(await onRefusal(refusal), fields) as LambdaResult;
  }
  return { statusCode: status, headers: { ...headers }, body: JSON.stringify(problem) };
}

/** The status that the gateway gives to the result of a handler. */
export function statusOf(result: unknown): number {
  const { statusCode } = isStructured(result) ? result : { statusCode: 200 };
  return Number(statusCode);
}

/** Adds the header fields that a result lacks. A result without a status becomes the response that the gateway would make of it. */
export function withFields<Result>(result: Result, fields: Readonly<Record<string, string>>): Result | LambdaResult {
  if (result === undefined || result === null || Object.keys(fields).length === 0) return result;
  if (!isStructured(result)) {
    const body = typeof result === "string" ? result : JSON.stringify(result);
    return { statusCode: 200, headers: { "content-type": "application/json", ...fields }, body };
  }
  const { headers = {} } = result;
  const has = new Set(Object.keys(headers).map((name) => name.toLowerCase()));
  const missing = Object.entries(fields).filter(([name]) => !has.has(name));
  return { ...result, headers: { ...headers, ...Object.fromEntries(missing) } };
}

interface Structured {
  readonly statusCode: number | string;
  readonly headers?: Readonly<Record<string, string>>;
}

function isStructured<Result>(result: Result): result is Result & Structured {
  return typeof result === "object" && result !== null && "statusCode" in result;
}

/** The part of `awslambda.streamifyResponse`'s stream that the middleware uses. */
export interface ResponseStream {
  /** Writes a chunk. */
  write(chunk: string | Uint8Array): unknown;
  /** Ends the response, with a last chunk. */
  end(chunk?: string | Uint8Array): unknown;
  /** Calls back once. */
  once(event: string, listener: (...given: never[]) => void): unknown;
  /** True if all of it was handed over. */
  readonly writableFinished?: boolean;
  /** True if it was ended early. */
  readonly destroyed?: boolean;
  /** The error that it was ended by. */
  readonly errored?: unknown;
}

/** The part of Lambda's runtime that makes streamed responses. */
interface LambdaRuntime {
  readonly awslambda?: {
    readonly HttpResponseStream?: {
      from(stream: ResponseStream, metadata: { statusCode: number; headers: Record<string, string> }): ResponseStream;
    };
  };
}

export function isStream(value: unknown): value is ResponseStream {
  const given = value as Partial<ResponseStream> | null | undefined;
  return typeof given?.write === "function" && typeof given.end === "function" && typeof given.once === "function";
}

export async function refuseOnStream(
  stream: ResponseStream,
  { statusCode, headers, body }: LambdaResult,
): Promise<void> {
  const { awslambda } = globalThis as LambdaRuntime;
  const ended = whenStreamEnds(stream);
  const answer = awslambda?.HttpResponseStream?.from(stream, { statusCode, headers }) ?? stream;
  answer.end(body);
  await ended;
}

/** Writes what comes before the first chunk of a response: its status and fields as JSON, then a gap. */
type BeforeFirstWrite = (write: (chunk: string | Uint8Array) => void) => void;

/** The status and fields that a function gave to `HttpResponseStream.from`. */
interface Prelude {
  /** The status is 200 until the function gives another. */
  status(): number;
}

/**
 * Adds header fields to those that the function gives to `HttpResponseStream.from`, unless it has them. A function that gives none
 * sends bytes alone, which have no fields.
 */
export function withPreludeFields(stream: ResponseStream, fields: Readonly<Record<string, string>>): Prelude {
  let status = 200;
  const added = (chunk: string | Uint8Array) => {
    const said = typeof chunk === "string" ? preludeIn(chunk) : undefined;
    if (said === undefined) return chunk;
    status = statusOf(said);
    return JSON.stringify(withFields(said, fields));
  };
  const around = (before: unknown): unknown =>
    typeof before === "function"
      ? (write: (chunk: string | Uint8Array) => void) => (before as BeforeFirstWrite)((chunk) => write(added(chunk)))
      : before;
  const hook = "_onBeforeFirstWrite";
  let before = around((stream as unknown as Record<string, unknown>)[hook]);
  // The runtime keeps the function at this name; on one that keeps it elsewhere, nothing is added.
  Object.defineProperty(stream, hook, {
    configurable: true,
    get: () => before,
    set: (given: unknown) => {
      before = around(given);
    },
  });
  return { status: () => status };
}

function preludeIn(text: string): object | undefined {
  try {
    const said: unknown = JSON.parse(text);
    return typeof said === "object" && said !== null && !Array.isArray(said) ? { statusCode: 200, ...said } : undefined;
  } catch {
    return undefined;
  }
}

/**
 * True if the stream was closed while the function wrote to it: without an error, or by an error of the connection. If the function
 * fails, `pipeline` ends the stream with the function's own error.
 */
export function isCutOff({ destroyed = false, writableFinished = false, errored }: ResponseStream): boolean {
  if (!destroyed || writableFinished) return false;
  const { code } = (errored ?? { code: "EPIPE" }) as { readonly code?: unknown };
  return typeof code === "string" && /^(EPIPE|ECONNRESET|ERR_STREAM_)/.test(code);
}

/** Waits for the end of a streamed response. */
export function whenStreamEnds(stream: ResponseStream, prelude?: Prelude): Promise<RequestOutcome> {
  return new Promise((resolve) => {
    const finished = () => resolve({ kind: "finished", status: prelude?.status() ?? 200 });
    stream.once("finish", finished);
    stream.once("error", (error: unknown) => resolve({ kind: "error", error }));
    stream.once("close", () => (stream.writableFinished ? finished() : resolve({ kind: "disconnected" })));
  });
}
