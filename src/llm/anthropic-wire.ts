import type { AnswerEvent } from "./answer-pieces.ts";
import type { TokenUsage } from "./kinds.ts";
import type { Wire, WireCall } from "./limited-http.ts";
import { fieldOf, less, type Params, textOf, wholeOf } from "./wire-fields.ts";

/** Anthropic's messages. */
export const ANTHROPIC_WIRE: Wire = {
  callOf: (pathname, params) => (pathname.endsWith("/messages") ? messagesCall(params) : undefined),
  errorBody: ({ status, detail }) => ({ type: "error", error: { type: errorType(status), message: detail } }),
};

function messagesCall(params: Params): WireCall {
  return {
    model: textOf(params.model) ?? "",
    params,
    output: "text",
    outputMax: wholeOf(params.max_tokens),
    body: undefined,
    usageOf: (body) => messageUsage(fieldOf(body, "usage")),
    eventOf,
  };
}

function eventOf(data: unknown): AnswerEvent {
  switch (fieldOf(data, "type")) {
    case "message_start": {
      // Its output is the first token alone: what comes after it is counted until `message_delta` tells.
      const { output: _, reasoning: __, ...input } = messageUsage(fieldOf(fieldOf(data, "message"), "usage")) ?? {};
      return { usage: input };
    }
    case "content_block_delta": {
      const delta = fieldOf(data, "delta");
      const texts = ["text", "thinking", "partial_json"].map((name) => textOf(fieldOf(delta, name)));
      return { text: texts.join("") };
    }
    // Totals of the whole message, `null` where there is nothing new.
    case "message_delta":
      return { usage: messageUsage(fieldOf(data, "usage")) };
    case "error":
      return { isError: true };
    default:
      return { isEnd: fieldOf(data, "type") === "message_stop" };
  }
}

/** The input is without what was read from a cache or written to it; the output holds the thinking. */
function messageUsage(usage: unknown): TokenUsage | undefined {
  if (typeof usage !== "object" || usage === null) return undefined;
  const input = wholeOf(fieldOf(usage, "input_tokens"));
  const cachedInput = wholeOf(fieldOf(usage, "cache_read_input_tokens"));
  const cacheWrite = wholeOf(fieldOf(usage, "cache_creation_input_tokens"));
  const output = wholeOf(fieldOf(usage, "output_tokens"));
  const reasoning = wholeOf(fieldOf(fieldOf(usage, "output_tokens_details"), "thinking_tokens")) ?? 0;
  return {
    ...(input === undefined ? {} : { input }),
    ...(cachedInput === undefined ? {} : { cachedInput }),
    ...(cacheWrite === undefined ? {} : { cacheWrite }),
    ...(output === undefined ? {} : { output: less(output, reasoning), reasoning }),
  };
}

function errorType(status: number): string {
  const types: Readonly<Record<number, string>> = {
    400: "invalid_request_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
  };
  return types[status] ?? "api_error";
}
