import { ValidationError } from "../domain/names/errors.ts";
import { given } from "../domain/names/given.ts";
import { shown } from "../domain/names/names.ts";
import type { LimitModelOptions } from "./adapter-options.ts";
import type { AnswerEvent } from "./answer-pieces.ts";
import { LimitedCalls } from "./limited-calls.ts";
import { sendLimited, type Wire, type WireCall } from "./limited-http.ts";
import type { TokenUsage } from "./meter.ts";
import { fieldOf, less, type Params, textOf, wholeOf } from "./wire-fields.ts";

/** The request of a middleware of the client: what `fetch` takes, with its URL. */
interface MiddlewareRequest extends RequestInit {
  readonly url: string;
}

/**
 * Limits the calls of an Anthropic client: messages, whole and streamed. Answers a client of the same class; the given
 * one stays as it is. A call that is refused is not sent, and throws the client's own `RateLimitError`;
 * `refusalOf(error)` has the reason. Every other call passes.
 *
 * ```ts
 * const client = limitAnthropic(new Anthropic(), { limiter, entityId: "key-1" });
 * const reply = await client.messages.create({ model, max_tokens: 500, messages });
 * ```
 */
export function limitAnthropic<Client extends object>(client: Client, options: LimitModelOptions): Client {
  const calls = new LimitedCalls(options, "limitAnthropic");
  const { withOptions, middleware } = client as { withOptions?: unknown; middleware?: readonly unknown[] };
  if (typeof withOptions !== "function" || !Array.isArray(middleware)) {
    throw new ValidationError(
      "client_invalid",
      `The client is ${shown(client)}; give one of \`@anthropic-ai/sdk\`, version 1.`,
    );
  }
  // A middleware, not a fetch: Bedrock and Vertex rewrite and sign requests after it, and their answers reach it in Anthropic's own form.
  const limited = ({ url, ...init }: MiddlewareRequest, next: (request: MiddlewareRequest) => Promise<Response>) =>
    sendLimited(calls, ANTHROPIC_WIRE, { url, init }, (changed) =>
      next({ ...changed, headers: new Headers(changed.headers), url }),
    );
  return withOptions.call(client, { middleware: [...middleware, limited] }) as Client;
}

export const ANTHROPIC_WIRE: Wire = {
  callOf: (pathname, params) => (pathname.endsWith("/messages") ? messagesCall(params) : undefined),
  errorBody: ({ status, code, detail }) => ({
    type: "error",
    error: { type: errorType(status), message: detail, code },
  }),
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
      // Its output is the first token alone. The text of later events is counted until `message_delta` has the total.
      const { output: _, reasoning: __, ...input } = messageUsage(fieldOf(fieldOf(data, "message"), "usage")) ?? {};
      return { usage: input };
    }
    case "content_block_delta": {
      const delta = fieldOf(data, "delta");
      const texts = ["text", "thinking", "partial_json"].map((name) => textOf(fieldOf(delta, name)));
      return { text: texts.join("") };
    }
    // It has totals of the whole message, and `null` for a number that has not changed.
    case "message_delta":
      return { usage: messageUsage(fieldOf(data, "usage")) };
    case "error":
      return { isError: true };
    default:
      return { isEnd: fieldOf(data, "type") === "message_stop" };
  }
}

/** Anthropic's input excludes cached tokens; its output includes the thinking. */
function messageUsage(usage: unknown): TokenUsage | undefined {
  if (typeof usage !== "object" || usage === null) return undefined;
  const input = wholeOf(fieldOf(usage, "input_tokens"));
  const cachedInput = wholeOf(fieldOf(usage, "cache_read_input_tokens"));
  const cacheWrite = wholeOf(fieldOf(usage, "cache_creation_input_tokens"));
  const output = wholeOf(fieldOf(usage, "output_tokens"));
  const reasoning = wholeOf(fieldOf(fieldOf(usage, "output_tokens_details"), "thinking_tokens")) ?? 0;
  const told = given({ input, cachedInput, cacheWrite });
  return output === undefined ? told : { ...told, output: less(output, reasoning), reasoning };
}

function errorType(status: number): string {
  const types: Readonly<Record<number, string>> = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
  };
  return types[status] ?? "api_error";
}
