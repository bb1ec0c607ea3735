import { type LimiterError, RateLimitExceeded, RateLimiterUnavailable } from "../domain/names/errors.ts";

/** By the headers of the answer that tells of it: clients put the object that they find at the answer into their errors. */
const refusals = new WeakMap<object, LimiterError>();

/**
 * The answer that a client gets in place of the provider's, so that it throws its own error of that status and does not try
 * again. An error that was thrown in `fetch` would be tried twice more, and end as a broken connection.
 */
export function refusedResponse(error: LimiterError, bodyOf: (problem: Problem) => unknown): Response {
  const status = error.httpStatus;
  const { code, detail } = error.toProblem();
  const headers = new Headers({
    ...retryAfter(error),
    "content-type": "application/json",
    "x-should-retry": "false",
  });
  const body = bodyOf({ status, code: String(code), detail: String(detail) });
  const response = new Response(JSON.stringify(body), { status, headers });
  refusals.set(headers, error);
  // A server of Hono puts another Response in place of the global one, whose headers are another object with each reading.
  return Object.defineProperty(response, "headers", { value: headers });
}

/** Not with all header fields of a refusal: they would bring the engine into each bundle, and clients read none of them. */
function retryAfter(error: LimiterError): Readonly<Record<string, string>> {
  if (error instanceof RateLimiterUnavailable) return { "retry-after": "1" };
  if (!(error instanceof RateLimitExceeded) || !Number.isFinite(error.retryAfterMs)) return {};
  return { "retry-after": String(error.retryAfterSeconds) };
}

/** What a refusal says to a client. It does not name the levels above the entity. */
export interface Problem {
  readonly status: number;
  readonly code: string;
  readonly detail: string;
}

/**
 * The error of the limiter behind an error of the client: a `RateLimitExceeded` for a refusal, or another
 * `LimiterError`. Undefined for an error that came from the provider.
 *
 * ```ts
 * const refusal = refusalOf(error);
 * if (refusal instanceof RateLimitExceeded) console.log(refusal.primary.limit, refusal.retryAfterMs);
 * ```
 */
export function refusalOf(error: unknown): LimiterError | undefined {
  if (typeof error !== "object" || error === null) return undefined;
  const { headers } = error as { readonly headers?: unknown };
  return typeof headers === "object" && headers !== null ? refusals.get(headers) : undefined;
}
