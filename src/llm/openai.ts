import { ValidationError } from "../domain/names/errors.ts";
import { shown } from "../domain/names/names.ts";
import type { LimitModelOptions } from "./adapter-options.ts";
import { LimitedCalls } from "./limited-calls.ts";
import { sendLimited } from "./limited-http.ts";
import { OPENAI_WIRE } from "./openai-wire.ts";

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

/** What a copy of the client must be given again: Azure's forgets its version and deployment, version 6.0 a key that is a function. */
function keptOptions(client: object): object {
  const { apiVersion, deploymentName, _options } = client as {
    readonly apiVersion?: unknown;
    readonly deploymentName?: unknown;
    readonly _options?: { readonly apiKey?: unknown };
  };
  return {
    ...(apiVersion === undefined ? {} : { apiVersion, deployment: deploymentName }),
    ...(typeof _options?.apiKey === "function" ? { apiKey: _options.apiKey } : {}),
  };
}
