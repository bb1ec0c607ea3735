import type { LambdaResult } from "./lambda-result.ts";
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

/** How a streamed response ended. Its status was written into it, so it is not known here. */
export function whenStreamEnds(stream: ResponseStream): Promise<RequestOutcome> {
  return new Promise((resolve) => {
    stream.once("finish", () => resolve({ kind: "finished", status: 200 }));
    stream.once("error", (error: unknown) => resolve({ kind: "error", error }));
    stream.once("close", () => {
      resolve(stream.writableFinished ? { kind: "finished", status: 200 } : { kind: "disconnected" });
    });
  });
}
