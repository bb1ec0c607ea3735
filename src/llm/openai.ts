import { ValidationError } from "../domain/names/errors.ts";
import { shown } from "../domain/names/names.ts";
import type { LimitModelOptions } from "./adapter-options.ts";
import type { AnswerEvent } from "./answer-pieces.ts";
import { LimitedCalls } from "./limited-calls.ts";
import { sendLimited, type Wire, type WireCall } from "./limited-http.ts";
import type { TokenUsage } from "./meter.ts";
import { choicesOf, fieldOf, less, type Params, textOf, wholeOf } from "./wire-fields.ts";

type Fetch = (url: string | URL | Request, init?: RequestInit) => Promise<Response>;

/**
 * Limits the calls of an OpenAI client: completions, responses and embeddings. Answers a client of the same class;
 * the given one stays as it is. A call that is refused is not sent, and throws the client's own `RateLimitError`;
 * `refusalOf(error)` has the reason. Every other call passes.
 *
 * ```ts
 * const client = limitOpenAI(new OpenAI(), { limiter, entityId: "key-1" });
 * const reply = await client.responses.create({ model: "gpt-5-mini", input: "What is a token bucket?" });
 * ```
 */
export function limitOpenAI<Client extends object>(client: Client, options: LimitModelOptions): Client {
  const calls = new LimitedCalls(options, "limitOpenAI");
  const { withOptions, fetch: given } = client as { withOptions?: unknown; fetch?: Fetch };
  if (typeof withOptions !== "function") {
    throw new ValidationError(
      "client_invalid",
      `The client is ${shown(client)}; give one of \`openai\`, version 6 or 7.`,
    );
  }
  const send: Fetch = given ?? ((url, init) => fetch(url, init));
  const limited: Fetch = (input, init = {}) => {
    const url = typeof input === "string" ? input : input instanceof URL ? input.href : input.url;
    return sendLimited(calls, OPENAI_WIRE, { url, init }, (changed) => send.call(undefined, input, changed));
  };
  try {
    return withOptions.call(client, { ...keptOptions(client), fetch: limited }) as Client;
  } catch (error) {
    throw new ValidationError(
      "fetch_unsupported",
      `The client does not take another fetch, so its calls cannot be limited: ${error instanceof Error ? error.message : error}`,
      { cause: error },
    );
  }
}

/** Options that a copy of the client would lose: Azure's version and deployment, and in version 6.0 a key that is a function. */
function keptOptions(client: object): object {
  const apiVersion = fieldOf(client, "apiVersion");
  const apiKey = fieldOf(fieldOf(client, "_options"), "apiKey");
  return {
    ...(apiVersion === undefined ? {} : { apiVersion, deployment: fieldOf(client, "deploymentName") }),
    ...(typeof apiKey === "function" ? { apiKey } : {}),
  };
}

/** OpenAI's completions, responses and embeddings, and servers that speak like it. */
export const OPENAI_WIRE: Wire = {
  callOf(pathname, params, isFixed) {
    const model = textOf(params.model) ?? /\/deployments\/([^/]+)\//.exec(pathname)?.[1] ?? "";
    // Completions of the older API differ only in the text of their chunks.
    if (pathname.endsWith("/completions")) return chatCall(model, params, isFixed);
    if (/\/responses(\/compact)?$/.test(pathname)) return responsesCall(model, params);
    return pathname.endsWith("/embeddings") ? embeddingsCall(model, params) : undefined;
  },
  errorBody: ({ status, code, detail }) => ({
    error: { message: detail, type: status === 429 ? "rate_limit_error" : "zae_limiter_error", param: null, code },
  }),
};

function chatCall(model: string, params: Params, isFixed: boolean): WireCall {
  const isUsageAsked = fieldOf(params.stream_options, "include_usage") === true;
  const isAdded = params.stream === true && !isUsageAsked && !isFixed;
  const streamOptions = { ...(params.stream_options as object | undefined), include_usage: true };
  const most = wholeOf(params.max_completion_tokens) ?? wholeOf(params.max_tokens);
  return {
    model,
    params,
    output: "text",
    outputMax: most === undefined ? undefined : most * (wholeOf(params.n) ?? 1),
    body: isAdded ? JSON.stringify({ ...params, stream_options: streamOptions }) : undefined,
    usageOf: (body) => chatUsage(fieldOf(body, "usage")),
    eventOf(data): AnswerEvent {
      if (data === "[DONE]") return { isEnd: true };
      const usage = chatUsage(fieldOf(data, "usage"));
      const choices = choicesOf(data);
      const error = fieldOf(data, "error") ?? undefined;
      return {
        usage,
        isError: error !== undefined,
        text: choices.map(deltaText).join(""),
        isHidden: isAdded && usage !== undefined && choices.length === 0,
      };
    },
  };
}

/** Joins all output of a chunk: text, refusals, reasoning that a server shows, and the arguments of tools. */
function deltaText(choice: unknown): string {
  const delta = fieldOf(choice, "delta");
  const texts = ["content", "refusal", "reasoning_content", "reasoning"].map((name) => textOf(fieldOf(delta, name)));
  const calls = fieldOf(delta, "tool_calls");
  const args = Array.isArray(calls) ? calls.map((call) => textOf(fieldOf(fieldOf(call, "function"), "arguments"))) : [];
  return [textOf(fieldOf(choice, "text")), ...texts, ...args].join("");
}

function chatUsage(usage: unknown): TokenUsage | undefined {
  return usageOf(usage, { input: "prompt_tokens", output: "completion_tokens" });
}

function responsesCall(model: string, params: Params): WireCall {
  return {
    model,
    params,
    output: "text",
    outputMax: wholeOf(params.max_output_tokens),
    body: undefined,
    usageOf: responsesUsage,
    eventOf(data): AnswerEvent {
      const type = textOf(fieldOf(data, "type")) ?? "";
      if (type.endsWith(".delta")) return { text: textOf(fieldOf(data, "delta")) };
      const isError = type === "error" || type === "response.failed";
      const isEnd = isError || type === "response.completed" || type === "response.incomplete";
      return isEnd ? { usage: responsesUsage(fieldOf(data, "response")), isEnd, isError } : {};
    },
  };
}

function responsesUsage(response: unknown): TokenUsage | undefined {
  return usageOf(fieldOf(response, "usage"), { input: "input_tokens", output: "output_tokens" });
}

function embeddingsCall(model: string, params: Params): WireCall {
  return {
    model,
    params,
    output: "none",
    outputMax: undefined,
    body: undefined,
    usageOf(body) {
      const input = wholeOf(fieldOf(fieldOf(body, "usage"), "prompt_tokens"));
      return input === undefined ? undefined : { input, output: 0 };
    },
    eventOf: () => ({}),
  };
}

/** Reads a usage whose totals include what their details name. */
function usageOf(usage: unknown, names: { readonly input: string; readonly output: string }): TokenUsage | undefined {
  const input = wholeOf(fieldOf(usage, names.input));
  const output = wholeOf(fieldOf(usage, names.output));
  if (input === undefined && output === undefined) return undefined;
  const inputDetails = fieldOf(usage, `${names.input}_details`);
  const cachedInput = wholeOf(fieldOf(inputDetails, "cached_tokens")) ?? 0;
  const cacheWrite = wholeOf(fieldOf(inputDetails, "cache_write_tokens")) ?? 0;
  const reasoning = wholeOf(fieldOf(fieldOf(usage, `${names.output}_details`), "reasoning_tokens")) ?? 0;
  return {
    ...(input === undefined ? {} : { input: less(input, cachedInput + cacheWrite), cachedInput, cacheWrite }),
    ...(output === undefined ? {} : { output: less(output, reasoning), reasoning }),
  };
}
