import { LimiterError, RateLimiterUnavailable } from "../domain/errors.ts";
import type { CheckedOptions } from "./options.ts";
import { errorOf, type ProblemBody, revived } from "./problem.ts";

/** One request to the service. */
export interface ServiceRequest {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** Below the address of the service, such as `/v1/me`. */
  readonly path: string;
  /** What is undefined is left out. */
  readonly query?: Readonly<Record<string, string | number | undefined>>;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  /** The same however often it is sent; absent: a lost answer is told as an outage. */
  readonly isRepeatable?: boolean;
  /** Beyond `timeoutMs`: how long the service itself may wait. */
  readonly waitMs?: number;
  readonly signal?: AbortSignal;
}

export interface ServiceAnswer<Body> {
  readonly body: Body;
  readonly headers: Headers;
  readonly status: number;
}

const REPEATS_MAX = 2;
const BACKOFF_MS = 100;

/** Sends requests to a service, and again where an answer is lost and the request may be repeated. */
export class ServiceCalls {
  readonly #options: CheckedOptions;

  constructor(options: CheckedOptions) {
    this.#options = options;
  }

  /** The body of an answer of success, as the library would give it. Throws what the library would throw. */
  async json<Body>(request: ServiceRequest): Promise<Body> {
    return (await this.answer<Body>(request)).body;
  }

  async answer<Body>(request: ServiceRequest): Promise<ServiceAnswer<Body>> {
    for (let repeats = 0; ; repeats++) {
      const got = await this.#attempt(request);
      if (got.kind === "answered") {
        const text = await got.response.text().catch(() => "");
        const { status, headers } = got.response;
        if (got.response.ok) {
          return { body: (text === "" ? undefined : revived(parsed(text))) as Body, headers, status };
        }
        const problem = problemIn(text);
        if (!isLost(status, problem) || !mayRepeat(request, repeats)) throw this.#failure(status, problem);
      } else if (!mayRepeat(request, repeats)) {
        throw got.error;
      }
      await new Promise((resolve) => setTimeout(resolve, BACKOFF_MS * 4 ** repeats));
    }
  }

  /** An answer whose body is read as it comes. */
  async stream(request: ServiceRequest): Promise<Response> {
    const got = await this.#attempt({ ...request, waitMs: Number.POSITIVE_INFINITY });
    if (got.kind === "lost") throw got.error;
    const { response } = got;
    if (response.ok) return response;
    throw this.#failure(response.status, problemIn(await response.text().catch(() => "")));
  }

  async #attempt(
    request: ServiceRequest,
  ): Promise<
    { readonly kind: "answered"; readonly response: Response } | { readonly kind: "lost"; readonly error: LimiterError }
  > {
    const { method, path, query = {}, body, headers = {}, waitMs = 0, signal } = request;
    const { base, token, timeoutMs } = this.#options;
    const url = new URL(`${base}${path}`);
    for (const [name, value] of Object.entries(query)) {
      if (value !== undefined) url.searchParams.set(name, String(value));
    }
    // A stream has as long as it likes once it has begun.
    const late = new AbortController();
    const timer = setTimeout(() => late.abort(), timeoutMs + (Number.isFinite(waitMs) ? waitMs : 0));
    const signals = [late.signal, ...(signal === undefined ? [] : [signal])];
    try {
      const response = await fetch(url, {
        method,
        headers: {
          accept: "application/json, text/event-stream;q=0.9, */*;q=0.5",
          ...(body === undefined ? {} : { "content-type": "application/json" }),
          ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
          ...headers,
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        redirect: "error",
        signal: AbortSignal.any(signals),
      });
      if (Number.isFinite(waitMs)) {
        // Read within the time: an answer that stops in the middle is as good as none.
        const bytes = await response.arrayBuffer();
        const { status, statusText, headers: got } = response;
        return {
          kind: "answered",
          response: new Response(empty(status) ? null : bytes, { status, statusText, headers: got }),
        };
      }
      return { kind: "answered", response };
    } catch (cause) {
      signal?.throwIfAborted();
      return { kind: "lost", error: this.#unreachable(cause, late.signal.aborted) };
    } finally {
      clearTimeout(timer);
    }
  }

  #failure(status: number, problem: ProblemBody | undefined): LimiterError {
    if (problem !== undefined) return errorOf(status, problem);
    const { shown } = this.#options;
    if (status >= 500) return new RateLimiterUnavailable(`The server at ${shown} failed (${status}); try again later.`);
    return new LimiterError(
      "service_unknown",
      `The server at ${shown} is not a zae-limiter service (${status}); correct the address.`,
    );
  }

  #unreachable(cause: unknown, isLate: boolean): LimiterError {
    const { shown, timeoutMs } = this.#options;
    const why = isLate ? `no answer within ${timeoutMs} ms` : reasonOf(cause);
    return new RateLimiterUnavailable(
      `The service at ${shown} cannot be reached: ${why}. Correct the address, or start it.`,
      {
        cause,
      },
    );
  }
}

function mayRepeat({ isRepeatable, method }: ServiceRequest, repeats: number): boolean {
  return (isRepeatable ?? method === "GET") && repeats < REPEATS_MAX;
}

function isLost(status: number, problem: ProblemBody | undefined): boolean {
  return status === 502 || status === 504 || problem?.code === "idempotency_in_progress";
}

function empty(status: number): boolean {
  return status === 204 || status === 304;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new LimiterError("service_unknown", "The response is not JSON; the server is not a zae-limiter service.", {
      cause,
    });
  }
}

/** Undefined: the answer is not one of the service's own. */
function problemIn(text: string): ProblemBody | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && "code" in value ? (value as ProblemBody) : undefined;
  } catch {
    return undefined;
  }
}

/** The errors of `fetch` say "fetch failed", and why in their cause. */
function reasonOf(error: unknown): string {
  const { cause, message } = error as Error;
  if (cause instanceof AggregateError && cause.errors.length > 0) return reasonOf({ cause: cause.errors[0] });
  return cause instanceof Error && cause.message !== "" ? cause.message : String(message ?? error);
}
