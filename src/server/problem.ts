import { LeaseClosed, LimiterError, messageFor, RateLimitExceeded, ResourceDisabled } from "../domain/names/errors.ts";
import { given } from "../domain/names/given.ts";
import type { Ways } from "../domain/names/shown.ts";

/** The answer of a route: JSON, or bytes of another type. */
export interface RouteResponse {
  readonly status: number;
  /** Becomes JSON; absent with `bytes`, `stream`, and where there is none. */
  readonly body?: unknown;
  readonly bytes?: Uint8Array | string;
  readonly stream?: ReadableStream<Uint8Array>;
  readonly headers?: Readonly<Record<string, string>>;
}

const CSP =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; " +
  "form-action 'none'; frame-ancestors 'none'";

/** The answer as a response, with the fields that every one has. `own` are those of this request. */
export function responseOf(answer: RouteResponse, own: Readonly<Record<string, string>>): Response {
  const { status, body, bytes, stream, headers } = answer;
  const all: Record<string, string> = {
    "cache-control": "no-store",
    "content-security-policy": CSP,
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    ...own,
    ...headers,
  };
  if (body !== undefined) {
    all["content-type"] = status >= 400 ? "application/problem+json" : "application/json";
    return new Response(JSON.stringify(body), { status, headers: all });
  }
  return new Response((bytes as string | undefined) ?? stream ?? null, { status, headers: all });
}

/** The statuses with which the service itself refuses, by code. Errors of the library have theirs. */
export const PROBLEM_STATUSES = {
  body_invalid: 400,
  request_invalid: 400,
  hits_invalid: 400,
  token_missing: 401,
  token_unknown: 401,
  insufficient_scope: 403,
  namespace_forbidden: 403,
  origin_forbidden: 403,
  descriptor_unmatched: 403,
  route_unknown: 404,
  domain_unknown: 404,
  lease_not_found: 404,
  limits_not_found: 404,
  override_not_found: 404,
  method_not_allowed: 405,
  idempotency_in_progress: 409,
  lease_closed: 409,
  limits_changed: 412,
  body_too_large: 413,
  content_type_unsupported: 415,
  host_unknown: 421,
  idempotency_key_reused: 422,
  internal: 500,
  overloaded: 503,
  stopping: 503,
  unavailable: 503,
} as const;

type ProblemCode = keyof typeof PROBLEM_STATUSES;

/** The phrases of RFC 9110. */
export const PHRASES: Readonly<Record<number, string>> = {
  400: "Bad Request",
  401: "Unauthorized",
  403: "Forbidden",
  404: "Not Found",
  405: "Method Not Allowed",
  409: "Conflict",
  412: "Precondition Failed",
  413: "Content Too Large",
  415: "Unsupported Media Type",
  421: "Misdirected Request",
  422: "Unprocessable Content",
  500: "Internal Server Error",
  503: "Service Unavailable",
};

interface ProblemExtras {
  readonly headers?: Readonly<Record<string, string>>;
  readonly members?: Readonly<Record<string, unknown>>;
}

/** A request that the service itself refuses. */
export class Problem extends Error {
  readonly code: ProblemCode;
  readonly status: number;
  readonly extras: ProblemExtras;

  constructor(code: ProblemCode, detail: string, extras: ProblemExtras = {}) {
    super(detail);
    this.code = code;
    this.status = PROBLEM_STATUSES[code];
    this.extras = extras;
  }
}

/** The answer that an error becomes: `application/problem+json` (RFC 9457). Undefined: a defect of ours. */
export function problemResponse(error: unknown, requestId: string, ways: Ways): RouteResponse | undefined {
  if (error instanceof Problem) {
    const { code, status, message, extras } = error;
    const body = { ...bodyOf(code, status, message), requestId, ...extras.members };
    return { status, body, headers: { ...retryHeader(status), ...extras.headers } };
  }
  if (error instanceof RateLimitExceeded) {
    return { status: 429, body: { ...error.toProblem({ levels: "all" }), requestId } };
  }
  if (error instanceof LimiterError) return limiterProblem(error, requestId, ways);
  return undefined;
}

export function internalProblem(requestId: string): RouteResponse {
  const detail = `A bug in the service; its log has the cause under the request id ${requestId}.`;
  return { status: 500, body: { ...bodyOf("internal", 500, detail), requestId } };
}

function limiterProblem(error: LimiterError, requestId: string, ways: Ways): RouteResponse {
  const status = error.httpStatus;
  // During shutdown, report `stopping` rather than the library's `closed`.
  const code = error.code === "closed" ? "stopping" : error.code;
  // Details of a fault of the store are for the log, not for the caller.
  const detail = status >= 500 ? error.toProblem({ levels: "own" }).detail : messageFor(error, ways);
  const members =
    error instanceof LeaseClosed
      ? { leaseStatus: error.leaseStatus }
      : error instanceof ResourceDisabled
        ? { entityId: error.entityId, resource: error.resource, level: error.level, ...given({ reason: error.reason }) }
        : "holdMs" in error
          ? { holdMs: error.holdMs }
          : "problems" in error
            ? { problems: error.problems }
            : {};
  return {
    status,
    body: { ...bodyOf(code, status, String(detail)), requestId, ...members },
    headers: code === "idempotency_in_progress" ? RETRY_SOON : retryHeader(status),
  };
}

function bodyOf(code: string, status: number, detail: string) {
  return { type: `urn:zae-limiter:problem:${code}`, title: PHRASES[status] ?? "Error", status, detail, code };
}

const RETRY_SOON = { "retry-after": "1" };

function retryHeader(status: number): Readonly<Record<string, string>> {
  return status === 503 ? RETRY_SOON : {};
}
