import type { Status } from "./status.ts";

interface ErrorOptions {
  readonly cause?: unknown;
}

/** Base of every error that this package throws on purpose. `code` is stable: programs may branch on it. */
export class LimiterError extends Error {
  /** Stable: programs may branch on it. */
  readonly code: string;

  constructor(code: string, message: string, options: ErrorOptions = {}) {
    super(message, options);
    this.name = new.target.name;
    this.code = code;
  }

  /** For logs. */
  toJSON(): Record<string, unknown> {
    return { error: this.code, message: this.message };
  }
}

/** The input is wrong, whatever is stored: nothing was changed, and asking again will not help. */
export class ValidationError extends LimiterError {}

/** What was named does not exist. */
export class NotFoundError extends LimiterError {}

/** What was to be created exists already. */
export class ExistsError extends LimiterError {}

/** What is stored changed since the caller read it: read again, then decide. */
export class ConflictError extends LimiterError {}

/** A lease was used after it had been settled or rolled back. */
export class LeaseClosed extends LimiterError {}

/** The stored data was written by a version that this one cannot work with. */
export class VersionError extends LimiterError {}

/** The entity or resource is switched off: refused at once, whatever its tokens. */
export class ResourceDisabled extends LimiterError {
  /** Who asked, or the parent that is disabled. */
  readonly entityId: string;
  /** What was asked for. */
  readonly resource: string;
  /** Where it was disabled. */
  readonly level: string;

  constructor(refused: { entityId: string; resource: string; level: string }) {
    super(
      "resource_disabled",
      `${refused.resource} is disabled for ${refused.entityId} (${refused.level}); enable it with setAccess.`,
    );
    this.entityId = refused.entityId;
    this.resource = refused.resource;
    this.level = refused.level;
  }
}

/** The store could not be reached or did not answer in time. `cause` says why; whether to let work through is policy. */
export class RateLimiterUnavailable extends LimiterError {
  constructor(message: string, options: ErrorOptions = {}) {
    super("unavailable", message, options);
  }
}

/** Refused. Carries the status of every limit that was asked for, on every level, so that a caller can say why. */
export class RateLimitExceeded extends LimiterError {
  /** Every limit that was asked for, those that had enough included. */
  readonly statuses: readonly Status[];
  /** The statuses that stood in the way. */
  readonly violations: readonly Status[];
  /** The status that has to be waited for longest. */
  readonly primary: Status;
  /** Milliseconds until all limits of all levels fit together, if no other request takes. */
  readonly retryAfterMs: number;

  constructor(refusal: { statuses: readonly Status[]; primary: Status; retryAfterMs: number }) {
    const violations = refusal.statuses.filter((status) => status.exceeded);
    const { entityId, resource } = refusal.primary;
    const names = violations.map((status) =>
      status.entityId === entityId ? status.limit : `${status.entityId}:${status.limit}`,
    );
    const wait = Number.isFinite(refusal.retryAfterMs)
      ? `retry after ${refusal.retryAfterMs} ms`
      : "it will not fit in the foreseeable future";
    super("rate_limit_exceeded", `Rate limit exceeded for ${entityId} on ${resource}: ${names.join(", ")}; ${wait}.`);
    this.statuses = refusal.statuses;
    this.violations = violations;
    this.primary = refusal.primary;
    this.retryAfterMs = refusal.retryAfterMs;
  }

  /** Whole seconds for a `Retry-After` header, rounded up so that the caller never comes too early. */
  get retryAfterSeconds(): number {
    return Math.ceil(this.retryAfterMs / 1000);
  }

  /** For logs: everything that is known. */
  override toJSON(): Record<string, unknown> {
    return {
      ...super.toJSON(),
      retryAfterMs: finite(this.retryAfterMs),
      retryAfterSeconds: finite(this.retryAfterSeconds),
      primary: statusJson(this.primary),
      statuses: this.statuses.map(statusJson),
    };
  }

  /** A body for `application/problem+json` (RFC 9457), with the problem type of the IETF rate-limit header draft. */
  toProblem(): Record<string, unknown> {
    return {
      type: "https://iana.org/assignments/http-problem-types#quota-exceeded",
      title: "Request cannot be satisfied as assigned quota has been exceeded",
      status: 429,
      detail: this.message,
      "violated-policies": [...new Set(this.violations.map((status) => status.limit))],
      retryAfterMs: finite(this.retryAfterMs),
      statuses: this.statuses.map(statusJson),
    };
  }
}

// JSON has no Infinity; "never" is null there.
function finite(value: number): number | null {
  return Number.isFinite(value) ? value : null;
}

function statusJson(status: Status): Record<string, unknown> {
  return { ...status, retryAfterMs: finite(status.retryAfterMs) };
}
