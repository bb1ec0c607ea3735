import { carryFields } from "../domain/carried-fields.ts";
import {
  ConflictError,
  ExistsError,
  LeaseClosed,
  LimiterError,
  NotFoundError,
  RateLimitExceeded,
  ResourceDisabled,
  ValidationError,
} from "../domain/errors.ts";
import type { Status } from "../domain/status.ts";

/** What an answer that is no success says. */
interface ProblemBody {
  readonly code: string;
  readonly detail?: string;
  readonly errors?: readonly { readonly pointer: string; readonly detail: string }[];
  readonly entityId?: string;
  readonly resource?: string;
  readonly level?: string;
  readonly leaseStatus?: "settled" | "rolledBack" | "expired";
  readonly statuses?: readonly Status[];
  readonly retryAfterMs?: number | null;
}

/** The error that the library would have thrown, of the same class and with the same code. */
export function errorOf(status: number, problem: ProblemBody, headers: Headers, atMs: number): LimiterError {
  const { code, detail = `The service answered with ${status}.`, statuses = [] } = revived(problem);
  if (status === 429 && statuses.length > 0) {
    const error = new RateLimitExceeded({ statuses, ...longestOf(statuses) });
    carryOver(error, headers, atMs);
    return error;
  }
  if (code === "resource_disabled") {
    const { entityId = "", resource = "", level = "" } = problem;
    return new ResourceDisabled({ entityId, resource, level });
  }
  if (code === "lease_closed") {
    const { leaseStatus } = problem;
    return new LeaseClosed(code, detail, leaseStatus === undefined ? {} : { leaseStatus });
  }
  if (status === 404 && code !== "route_unknown") return new NotFoundError(code, detail);
  if (status === 409 && code.endsWith("_exists")) return new ExistsError(code, detail);
  if (status === 409 || status === 412) return new ConflictError(code, detail);
  if (status === 400 || code === "amount_above_capacity" || code === "idempotency_key_reused") {
    return new ValidationError(code, withPointers(detail, problem));
  }
  // What only the service says: a missing token or scope, an unknown host, a body that is too large.
  return Object.defineProperty(new LimiterError(code, detail), "httpStatus", { value: status });
}

/** Keeps the service's own fields for a middleware, which passes them on. */
export function carryOver(leaseOrRefusal: object, headers: Headers, atMs: number): void {
  const [policy, state] = [headers.get("ratelimit-policy"), headers.get("ratelimit")];
  if (policy !== null && state !== null) carryFields(leaseOrRefusal, { policy, state, atMs });
}

/** JSON has no Infinity: where the API says that something never happens, it is `null` there. */
export function revived<Value>(value: Value): Value {
  if (Array.isArray(value)) return value.map(revived) as Value;
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).map(([name, each]) => [
    name,
    each === null && /^(retryAfter|changesAt)Ms$/.test(name) ? Number.POSITIVE_INFINITY : revived(each),
  ]);
  return Object.fromEntries(entries) as Value;
}

/** The wait of the limit that is waited for longest is that of the whole refusal. */
function longestOf(statuses: readonly Status[]): { readonly primary: Status; readonly retryAfterMs: number } {
  const primary = statuses.reduce((longest, one) => (one.retryAfterMs > longest.retryAfterMs ? one : longest));
  return { primary, retryAfterMs: primary.retryAfterMs };
}

function withPointers(detail: string, { errors = [] }: ProblemBody): string {
  const named = errors.map(({ pointer, detail: each }) => `${pointer}: ${each}`).join("; ");
  return named === "" || detail.includes(named) ? detail : `${detail} (${named})`;
}
