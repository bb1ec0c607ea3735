import { ValidationError } from "../domain/names/errors.ts";
import { shown } from "../domain/names/names.ts";
import type { LimitModelOptions } from "./adapter-options.ts";
import { ANTHROPIC_WIRE } from "./anthropic-wire.ts";
import { LimitedCalls } from "./limited-calls.ts";
import { sendLimited } from "./limited-http.ts";

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
  // As a middleware, not as a fetch: on Bedrock and Vertex, requests are rewritten and signed after it, and answers are in
  // Anthropic's own form again.
  const limited = ({ url, ...init }: MiddlewareRequest, next: (request: MiddlewareRequest) => Promise<Response>) =>
    sendLimited(calls, ANTHROPIC_WIRE, { url, init }, (changed) =>
      next({ ...changed, headers: new Headers(changed.headers), url }),
    );
  return withOptions.call(client, { middleware: [...middleware, limited] }) as Client;
}
