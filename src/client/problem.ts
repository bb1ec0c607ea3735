import type { Status } from "../domain/charge/status.ts";
import { carryFields } from "../domain/names/carried-fields.ts";
import {
  ConflictError,
  ExistsError,
  HoldLost,
  LeaseClosed,
  LimiterError,
  NotFoundError,
  RateLimitExceeded,
  ResourceDisabled,
  ValidationError,
} from "../domain/names/errors.ts";

/** What an answer that is no success says. */
interface ProblemBody {
  readonly code: string;
  readonly detail: string;
  readonly entityId: string;
  readonly resource: string;
  readonly level: string;
  readonly leaseStatus?: "settled" | "rolledBack" | "expired";
  readonly statuses?: readonly Status[];
  /** The longest that slots are held. */
  readonly holdMs?: number;
}

/** The error that the library would have thrown, of the same class and with the same code. */
export function errorOf(status: number, problem: ProblemBody, headers: Headers, atMs: number): LimiterError {
  const { code, detail, statuses, leaseStatus, holdMs } = problem;
  if (statuses) {
    // The limit that is waited for longest; its wait is that of the whole refusal.
    const primary = statuses.reduce((longest, one) => (one.retryAfterMs > longest.retryAfterMs ? one : longest));
    return carryOver(new RateLimitExceeded({ statuses, primary, retryAfterMs: primary.retryAfterMs }), headers, atMs);
  }
  if (code === "resource_disabled") return new ResourceDisabled(problem);
  if (code === "hold_lost") return new HoldLost(detail);
  if (leaseStatus) return new LeaseClosed(code, detail, { leaseStatus });
  if (status === 400 || code === "amount_above_capacity" || code === "idempotency_key_reused") {
    return Object.assign(new ValidationError(code, detail), holdMs && { holdMs });
  }
  if (status === 404 && code !== "route_unknown") return new NotFoundError(code, detail);
  if (status === 409 || status === 412) {
    return new (code.endsWith("_exists") ? ExistsError : ConflictError)(code, detail);
  }
  // What only the service says: a missing token or scope, an unknown host, a body that is too large.
  return Object.defineProperty(new LimiterError(code, detail), "httpStatus", { value: status });
}

/** Keeps the service's own fields for a middleware, which passes them on. */
export function carryOver<Told extends object>(told: Told, headers: Headers, atMs: number): Told {
  const [policy, state] = [headers.get("ratelimit-policy"), headers.get("ratelimit")];
  if (policy && state) carryFields(told, { policy, state, atMs });
  return told;
}

/** The value in a JSON text; undefined: it is none. JSON has no Infinity: where something never happens, it is `null` there. */
// biome-ignore lint/suspicious/noExplicitAny: what it is depends on what was asked, and whom.
export function parsed(text: string): any {
  try {
    return JSON.parse(text, (name, value) =>
      value === null && /^(retryAfter|changesAt)Ms$/.test(name) ? Number.POSITIVE_INFINITY : value,
    );
  } catch {
    return undefined;
  }
}
