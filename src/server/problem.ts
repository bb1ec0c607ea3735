import { LeaseClosed, LimiterError, messageFor, RateLimitExceeded, ResourceDisabled } from "../domain/names/errors.ts";
import type { Ways } from "../domain/names/ways.ts";
import type { RouteResponse } from "./route-response.ts";

/** The statuses with which the service itself refuses, by code. Errors of the library have theirs. */
export const PROBLEM_STATUSES = {
  body_invalid: 400,
  request_invalid: 400,
  token_missing: 401,
  token_unknown: 401,
  insufficient_scope: 403,
  namespace_forbidden: 403,
  origin_forbidden: 403,
  route_unknown: 404,
  lease_not_found: 404,
  limits_not_found: 404,
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
  /** Further members of the body. */
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
  // Whoever asks while the service stops was asked rightly; it is not the limiter that they know.
  const code = error.code === "closed" ? "stopping" : error.code;
  // What is wrong with the store is for the log, not for whoever asks.
  const detail = status >= 500 ? error.toProblem({ levels: "own" }).detail : messageFor(error, ways);
  const members =
    error instanceof LeaseClosed
      ? { leaseStatus: error.leaseStatus }
      : error instanceof ResourceDisabled
        ? { entityId: error.entityId, resource: error.resource, level: error.level }
        : "holdMs" in error
          ? { holdMs: error.holdMs }
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
