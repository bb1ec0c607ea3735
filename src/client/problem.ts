import {
  ConflictError,
  ExistsError,
  LeaseClosed,
  LimiterError,
  NotFoundError,
  RateLimitExceeded,
  RateLimiterUnavailable,
  ResourceDisabled,
  ValidationError,
} from "../domain/errors.ts";
import type { Status } from "../domain/status.ts";

/** A refusal of the service itself: a missing token or scope, an unknown host, a body that is too large. */
export class ServiceRefusal extends LimiterError {
  readonly #status: number;

  /** @internal */
  constructor(code: string, message: string, status: number) {
    super(code, message);
    this.#status = status;
  }

  override get httpStatus(): number {
    return this.#status;
  }
}

/** What an answer that is no success says, as far as it is a problem body. */
export interface ProblemBody {
  readonly code?: string;
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
export function errorOf(status: number, body: ProblemBody): LimiterError {
  const { code = `http_${status}`, detail = `The service answered with ${status}.` } = body;
  if (status === 429) return exceeded(body, detail);
  if (status === 503) return new RateLimiterUnavailable(detail);
  if (code === "resource_disabled") {
    const { entityId = "", resource = "", level = "" } = body;
    return new ResourceDisabled({ entityId, resource, level });
  }
  if (code === "lease_closed") {
    const { leaseStatus } = body;
    return new LeaseClosed(code, detail, leaseStatus === undefined ? {} : { leaseStatus });
  }
  if (status === 404 && code !== "route_unknown") return new NotFoundError(code, detail);
  if (status === 412) return new ConflictError(code, detail);
  if (status === 409) return code.endsWith("_exists") ? new ExistsError(code, detail) : new ConflictError(code, detail);
  const isInput = status === 400 || code === "amount_above_capacity" || code === "idempotency_key_reused";
  return isInput ? new ValidationError(code, withPointers(detail, body)) : new ServiceRefusal(code, detail, status);
}

/** JSON has no Infinity: where the API says that something never happens, it is `null` there. */
export function revived<Value>(value: Value): Value {
  if (Array.isArray(value)) return value.map(revived) as Value;
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).map(([name, each]) => [
    name,
    each === null && NEVER.has(name) ? Number.POSITIVE_INFINITY : revived(each),
  ]);
  return Object.fromEntries(entries) as Value;
}

const NEVER: ReadonlySet<string> = new Set(["retryAfterMs", "changesAtMs"]);

function exceeded(body: ProblemBody, detail: string): LimiterError {
  const { statuses = [], retryAfterMs } = revived(body);
  const violated = statuses.filter(({ exceeded: is }) => is);
  const primary = violated.toSorted((a, b) => b.retryAfterMs - a.retryAfterMs)[0] ?? statuses[0];
  if (primary === undefined) return new ServiceRefusal("rate_limit_exceeded", detail, 429);
  return new RateLimitExceeded({ statuses, primary, retryAfterMs: retryAfterMs ?? Number.POSITIVE_INFINITY });
}

function withPointers(detail: string, { errors = [] }: ProblemBody): string {
  const named = errors.map(({ pointer, detail: each }) => `${pointer}: ${each}`).join("; ");
  return named === "" || detail.includes(named) ? detail : `${detail} (${named})`;
}
