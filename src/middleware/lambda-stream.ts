import { type LambdaResult, statusOf, withFields } from "./lambda-result.ts";
import type { RequestOutcome } from "./options.ts";

/** What is used of the stream that `awslambda.streamifyResponse` hands to a function. */
export interface ResponseStream {
  /** Writes a chunk. */
  write(chunk: string | Uint8Array): unknown;
  /** Ends the response, with a last chunk. */
  end(chunk?: string | Uint8Array): unknown;
  /** Calls back once. */
  once(event: string, listener: (...given: never[]) => void): unknown;
  /** Whether all of it was handed over. */
  readonly writableFinished?: boolean;
  /** Whether it was ended early. */
  readonly destroyed?: boolean;
  /** The error that it was ended by. */
  readonly errored?: unknown;
}

/** What the runtime of Lambda has for streamed responses. */
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

/** Answers on the stream. */
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

/** What the runtime writes before the first chunk of a response: its status and fields as JSON, then a gap. */
type BeforeFirstWrite = (write: (chunk: string | Uint8Array) => void) => void;

/** What a function has said of its response by `HttpResponseStream.from`. */
interface Prelude {
  /** 200 until it has said another. */
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
  // Where the runtime keeps it; on one that keeps it elsewhere, nothing is added.
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
 * Whether the stream was closed under the function that writes to it: without an error, or by one of the connection. Where the function
 * fails, `pipeline` ends the stream by the function's own error.
 */
export function isCutOff({ destroyed = false, writableFinished = false, errored }: ResponseStream): boolean {
  if (!destroyed || writableFinished) return false;
  const { code } = (errored ?? { code: "EPIPE" }) as { readonly code?: unknown };
  return typeof code === "string" && /^(EPIPE|ECONNRESET|ERR_STREAM_)/.test(code);
}

/** How a streamed response ended. */
export function whenStreamEnds(stream: ResponseStream, prelude?: Prelude): Promise<RequestOutcome> {
  return new Promise((resolve) => {
    const finished = () => resolve({ kind: "finished", status: prelude?.status() ?? 200 });
    stream.once("finish", finished);
    stream.once("error", (error: unknown) => resolve({ kind: "error", error }));
    stream.once("close", () => (stream.writableFinished ? finished() : resolve({ kind: "disconnected" })));
  });
}
