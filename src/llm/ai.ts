import { LimiterError } from "../domain/names/errors.ts";
import { endOfUnanswered } from "../engine/lease/work-end.ts";
import type { LimitModelOptions } from "./adapter-options.ts";
import type { LimitedCall } from "./limited-call.ts";
import { LimitedCalls } from "./limited-calls.ts";
import type { TokenUsage } from "./meter.ts";
import { readAhead } from "./read-ahead.ts";
import { fieldOf, isThrottled, less, type Params, retryAfterMsOf, textOf, wholeOf } from "./wire-fields.ts";

/**
 * A middleware for `wrapLanguageModel`. The types of the AI SDK 6 and 7 name different versions of the same shape, so
 * this one names none of theirs.
 */
export interface RateLimitMiddleware {
  /** `"v4"`, which the AI SDK 6 takes, too. */
  // biome-ignore lint/suspicious/noExplicitAny: the types of 6 ask for "v3", those of 7 for "v4"
  readonly specificationVersion: any;
  /** Limits `generateText` and what else asks for a whole answer. */
  // biome-ignore lint/suspicious/noExplicitAny: the types of 6 and of 7 are different, the values alike
  wrapGenerate(options: any): Promise<any>;
  /** Limits `streamText` and what else asks for a stream. */
  // biome-ignore lint/suspicious/noExplicitAny: the types of 6 and of 7 are different, the values alike
  wrapStream(options: any): Promise<any>;
}

/** The part of the AI SDK's options that the middleware uses. */
interface WrapOptions {
  readonly doGenerate: () => PromiseLike<{ readonly usage?: unknown }>;
  readonly doStream: () => PromiseLike<{ readonly stream: ReadableStream<unknown> }>;
  readonly params: Params;
  readonly model: { readonly modelId: string };
}

/**
 * Limits the calls of a language model of the AI SDK. A call that is refused is not sent: `RateLimitExceeded` is thrown,
 * and the SDK does not try again.
 *
 * ```ts
 * const model = wrapLanguageModel({ model: openai("gpt-5-mini"), middleware: rateLimitMiddleware({ limiter, entityId: "key-1" }) });
 * const { text } = await generateText({ model, prompt: "What is a token bucket?" });
 * ```
 */
export function rateLimitMiddleware(options: LimitModelOptions): RateLimitMiddleware {
  const calls = new LimitedCalls(options, "rateLimitMiddleware");
  const begin = ({ params, model }: WrapOptions) =>
    calls.begin({
      model: model.modelId,
      params,
      output: "text",
      entityId: textOf(fieldOf(fieldOf(params.providerOptions, "zaeLimiter"), "entityId")),
      outputMax: wholeOf(params.maxOutputTokens),
      signal: params.abortSignal as AbortSignal | undefined,
    });
  return {
    specificationVersion: "v4",
    async wrapGenerate(wrapped: WrapOptions) {
      const call = await begin(wrapped);
      const result = await send(call, wrapped.doGenerate);
      await call.answered(usageOf(result.usage));
      return result;
    },
    async wrapStream(wrapped: WrapOptions) {
      const call = await begin(wrapped);
      const result = await send(call, wrapped.doStream);
      const stream = call.track(result.stream, {
        usageOf: (part) => (typeOf(part) === "finish" ? usageOf(fieldOf(part, "usage")) : undefined),
        outputOf: (part) => (typeOf(part)?.endsWith("-delta") ? textOf(fieldOf(part, "delta")) : undefined),
        isEnd: (part) => typeOf(part) === "finish",
        // An `Error` is the SDK's own, for a chunk that it could not read. An error of the provider is a plain value.
        isError: (part) => typeOf(part) === "error" && !(fieldOf(part, "error") instanceof Error),
      });
      return { ...result, stream: readAhead(stream, (part) => (textOf(fieldOf(part, "delta"))?.length ?? 0) + 100) };
    },
  };
}

async function send<Result>(call: LimitedCall, request: () => PromiseLike<Result>): Promise<Result> {
  try {
    return await request();
  } catch (error) {
    const status = wholeOf(fieldOf(error, "statusCode"));
    if (isThrottled(status)) {
      const headers = fieldOf(error, "responseHeaders");
      await call.throttled(retryAfterMsOf((name) => textOf(fieldOf(headers, name))));
    } else if (status === undefined) await call.unanswered(isNotSent(error) ? "notBegun" : endOfUnanswered(error));
    else if (status >= 400) await call.unanswered("failed");
    // The provider answered with something that the SDK does not understand.
    else await call.answered(undefined);
    throw error;
  }
}

/** True for errors that the SDK throws before it sends anything, and for refusals of another limiter below this one. */
function isNotSent(error: unknown): boolean {
  if (error instanceof LimiterError) return true;
  return /^AI_(Load|Unsupported|NoSuch|InvalidPrompt|InvalidArgument)/.test(textOf(fieldOf(error, "name")) ?? "");
}

function typeOf(part: unknown): string | undefined {
  return textOf(fieldOf(part, "type"));
}

function usageOf(usage: unknown): TokenUsage | undefined {
  const [inputs, outputs] = [fieldOf(usage, "inputTokens"), fieldOf(usage, "outputTokens")];
  const cachedInput = wholeOf(fieldOf(inputs, "cacheRead"));
  const cacheWrite = wholeOf(fieldOf(inputs, "cacheWrite"));
  const reasoning = wholeOf(fieldOf(outputs, "reasoning"));
  const allInput = wholeOf(fieldOf(inputs, "total"));
  const allOutput = wholeOf(fieldOf(outputs, "total"));
  const input =
    allInput === undefined
      ? wholeOf(fieldOf(inputs, "noCache"))
      : less(allInput, (cachedInput ?? 0) + (cacheWrite ?? 0));
  const output = allOutput === undefined ? wholeOf(fieldOf(outputs, "text")) : less(allOutput, reasoning ?? 0);
  if (input === undefined && output === undefined) return undefined;
  return { input, cachedInput, cacheWrite, output, reasoning };
}
