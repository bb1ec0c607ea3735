import { TOTAL_RESOURCE } from "../bucket/bucket-key.ts";
import { levelName, type Status } from "../charge/status.ts";
import { waitWords } from "../limits/durations.ts";
import { CUSTOMER_KINDS } from "../limits/limit-kind.ts";
import { given } from "./given.ts";
import { type Message, plainText, WAYS_IN_CODE, type Ways } from "./shown.ts";

interface ErrorOptions {
  readonly cause?: unknown;
  /** The detail for the maker of the request, where the message tells more than he may read. */
  readonly publicDetail?: string;
  /** The failures, where there were several. */
  readonly errors?: readonly unknown[];
}

/** How much a problem body tells. */
export interface ProblemOptions {
  /**
   * `"own"`: only limits of the entity that asked; ids and balances of its parents are hidden. `"all"`: everything,
   * for readers who may know the budget of the whole organisation. Default: `"own"`.
   */
  readonly levels?: "own" | "all";
}

/** The message of an error for a surface. It is no member, for those are the public interface. */
export let messageFor: (error: LimiterError, ways: Ways) => string;

/** The base of every error that this package throws on purpose. */
export class LimiterError extends Error {
  /** The code. It does not change between versions: programs may branch on it. */
  readonly code: string;
  /** Each failure, where several things failed at once; the first of them is the `cause`. Otherwise absent. */
  declare readonly errors?: readonly unknown[];
  readonly #publicDetail: string | undefined;
  readonly #message: Message;

  static {
    messageFor = (error, ways) => (typeof error.#message === "string" ? error.message : error.#message(ways));
  }

  constructor(code: string, message: Message, options: ErrorOptions = {}) {
    const { publicDetail, errors, ...rest } = options;
    super(typeof message === "string" ? message : message(WAYS_IN_CODE), rest);
    this.#message = message;
    this.name = new.target.name;
    this.code = code;
    // An `AggregateError` has it so. It is not there at all on errors of one thing.
    if (errors !== undefined) Object.defineProperty(this, "errors", { value: errors, enumerable: false });
    this.#publicDetail = publicDetail;
  }

  /** The status for an HTTP answer: 400, 403, 404, 409, 413, 422 or 429, or 503 if the caller's request was not at fault. */
  get httpStatus(): number {
    return 503;
  }

  /** Everything about the error, for logs. */
  toJSON(): Record<string, unknown> {
    return { error: this.code, message: this.message };
  }

  /** A body for `application/problem+json` (RFC 9457). It does not tell callers what is wrong with the service itself. */
  toProblem(options: ProblemOptions = {}): Record<string, unknown> {
    const showsAll = levelsOf(options) === "all";
    const status = this.httpStatus;
    const detail =
      this.#publicDetail ?? (status >= 500 ? "The rate limiter cannot answer; try again later." : this.message);
    return {
      type: "about:blank",
      title: TITLES[status],
      status,
      code: this.code,
      detail: showsAll ? this.message : detail,
    };
  }
}

/** The phrases of RFC 9110, as RFC 9457 wants them beside `about:blank`. */
const TITLES: Readonly<Record<number, string>> = {
  400: "Bad Request",
  403: "Forbidden",
  404: "Not Found",
  409: "Conflict",
  413: "Content Too Large",
  422: "Unprocessable Content",
  503: "Service Unavailable",
};

/** The call is wrong. Nothing was changed, and the same call will fail again. */
export class ValidationError extends LimiterError {
  override get httpStatus(): number {
    if (this.code === "amount_above_capacity") return 413;
    if (this.code === "idempotency_key_reused") return 422;
    // A caller of a service that shuts down has done nothing wrong.
    return this.code === "closed" ? 503 : 400;
  }
}

/** A thing that the call names does not exist. */
export class NotFoundError extends LimiterError {
  override get httpStatus(): number {
    return OF_THE_SERVICE.has(this.code) ? 503 : 404;
  }
}

/** Codes of things that the service names, and not its caller. */
const OF_THE_SERVICE: ReadonlySet<string> = new Set(["table_not_found", "version_missing", "usage_not_aggregated"]);

/** The thing to be created exists already. */
export class ExistsError extends LimiterError {
  override get httpStatus(): number {
    return 409;
  }
}

/** The stored data changed since the caller read it, or does not allow the change. Read again, then decide. */
export class ConflictError extends LimiterError {
  override get httpStatus(): number {
    return 409;
  }
}

/** A lease was used after it was settled or rolled back, or had expired. */
export class LeaseClosed extends LimiterError {
  /** How it was closed. */
  readonly leaseStatus: "settled" | "rolledBack" | "expired" | undefined;

  constructor(
    code: string,
    message: Message,
    options: ErrorOptions & { readonly leaseStatus?: "settled" | "rolledBack" | "expired" } = {},
  ) {
    const { leaseStatus, ...rest } = options;
    super(code, message, rest);
    this.leaseStatus = leaseStatus;
  }

  override get httpStatus(): number {
    return 409;
  }

  override toProblem(options: ProblemOptions = {}): Record<string, unknown> {
    return { ...super.toProblem(options), ...given({ leaseStatus: this.leaseStatus }) };
  }
}

/**
 * Slots of a lease are, or may soon be, another's: they could not be renewed in time, or were forgotten by a reset. `lease.signal` is
 * aborted with it.
 */
export class HoldLost extends LimiterError {
  constructor(message: string, options: ErrorOptions = {}) {
    super("hold_lost", message, options);
  }

  override get httpStatus(): number {
    return 409;
  }
}

/** Another version of the package wrote the stored data, or it is damaged; this version cannot use it. */
export class VersionError extends LimiterError {}

/**
 * The entity, the resource or a parent is switched off (`setAccess`), or the namespace is frozen (`freezeNamespace`). The
 * request is refused, however many tokens there are.
 */
export class ResourceDisabled extends LimiterError {
  /** The entity that asked, or the parent that is disabled. */
  readonly entityId: string;
  /** The resource that was asked for. */
  readonly resource: string;
  /** The scope at which it was disabled; of a frozen namespace `system`. */
  readonly level: string;
  /** Why the namespace is frozen. Absent: no reason was given, or it is not frozen. */
  readonly reason: string | undefined;

  constructor(refused: {
    readonly entityId: string;
    readonly resource: string;
    readonly level: string;
    /** The namespace is frozen. */
    readonly frozen?: { readonly reason?: string | undefined } | undefined;
  }) {
    const { entityId, resource, level, frozen } = refused;
    const { code, message, publicDetail } = frozen === undefined ? disabled(refused) : frozenBy(frozen.reason);
    super(code, message, { publicDetail });
    this.entityId = entityId;
    this.resource = resource;
    this.level = level;
    this.reason = frozen?.reason;
  }

  override get httpStatus(): number {
    return 403;
  }
}

function disabled({ entityId, resource, level }: Pick<ResourceDisabled, "entityId" | "resource" | "level">) {
  const message: Message = (ways) =>
    `${resource} is disabled for ${entityId} (${ways.accessAt(level)}); enable it with ${ways.setAccess}.`;
  // A parent may be switched off: it is not named.
  return { code: "resource_disabled", message, publicDetail: `${plainText(resource)} is disabled.` };
}

function frozenBy(reason: string | undefined) {
  const why = reason === undefined ? "" : ` (${reason})`;
  const message: Message = (ways) =>
    `The namespace is frozen${why}: nothing is taken, topped up or reset in it; unfreeze it with ${ways.unfreezeNamespace}.`;
  return { code: "namespace_frozen", message, publicDetail: "No requests are granted at the moment." };
}

/** The store did not answer in time. `cause` says why. `onUnavailable: "allow"` lets requests through meanwhile. */
export class RateLimiterUnavailable extends LimiterError {
  constructor(message: string, options: ErrorOptions = {}) {
    super("unavailable", message, options);
  }
}

/** The request was refused: at least one limit holds too little. Nothing was taken. */
export class RateLimitExceeded extends LimiterError {
  /** Every limit that the request asked for, at every level, also those that hold enough. */
  readonly statuses: readonly Status[];
  /** The limits that refused. */
  readonly violations: readonly Status[];
  /** The limit with the longest wait. */
  readonly primary: Status;
  /** Milliseconds until all limits of all levels fit together, if no other request takes tokens. */
  readonly retryAfterMs: number;
  readonly #levels: readonly string[];

  /** `levels`: the ids that were asked, from the one that made the request upwards; absent: as the statuses have them. */
  constructor(refusal: {
    readonly statuses: readonly Status[];
    readonly primary: Status;
    readonly retryAfterMs: number;
    readonly levels?: readonly string[];
  }) {
    const violations = refusal.statuses.filter((status) => status.exceeded);
    const { entityId, resource } = refusal.primary;
    const names = violations.map((status) =>
      status.entityId === entityId ? status.limit : `${status.entityId}:${status.limit}`,
    );
    super("rate_limit_exceeded", sentence({ entityId, resource, names, retryAfterMs: refusal.retryAfterMs }, String));
    this.statuses = refusal.statuses;
    this.violations = violations;
    this.primary = refusal.primary;
    this.retryAfterMs = refusal.retryAfterMs;
    this.#levels = refusal.levels ?? [...new Set(refusal.statuses.map((status) => status.entityId))];
  }

  override get httpStatus(): number {
    return 429;
  }

  /** Whole seconds for a `Retry-After` header, rounded up so that no caller comes too early. */
  get retryAfterSeconds(): number {
    return Math.ceil(this.retryAfterMs / 1000);
  }

  /** Everything about the refusal, for logs. */
  override toJSON(): Record<string, unknown> {
    return {
      ...super.toJSON(),
      retryAfterMs: finite(this.retryAfterMs),
      retryAfterSeconds: finite(this.retryAfterSeconds),
      primary: statusJson(this.primary),
      statuses: this.statuses.map(statusJson),
    };
  }

  /**
   * A body for `application/problem+json` (RFC 9457), with the problem type of the IETF draft on rate-limit headers. A
   * limit of a parent is called `name^1`, one of the next level `name^2`, so that the holder of a key does not read the
   * budget of the organisation; levels count from the first one with a limit that counts the request. `violations` tells
   * a budget that is used up (`quota`, `session`) from a slow-down (`rate`). The detail has names as they were before `entityIdOf` and `resourceOf`, and times in words.
   */
  override toProblem(options: ProblemOptions = {}): Record<string, unknown> {
    const showsAll = levelsOf(options) === "all";
    const nearest = showsAll ? 0 : this.#nearestLevel();
    const policyOf = (status: Status) => this.#policyOf(status, nearest);
    const violated = [...new Set(this.violations.map(policyOf))];
    const own = { entityId: this.#levels[0] ?? this.primary.entityId, resource: this.primary.resource };
    const kinds = new Map(this.violations.map((status) => [policyOf(status), CUSTOMER_KINDS[status.kind]]));
    return {
      ...super.toProblem(options),
      type: "https://iana.org/assignments/http-problem-types#quota-exceeded",
      title: "Request cannot be satisfied as assigned quota has been exceeded",
      detail: showsAll
        ? this.message
        : sentence(
            { ...own, names: [...new Set(violated.map(withoutTotal))], retryAfterMs: this.retryAfterMs },
            plainText,
          ),
      "violated-policies": violated,
      violations: violated.map((limit) => ({ limit, kind: kinds.get(limit) })),
      retryAfterMs: finite(this.retryAfterMs),
      statuses: showsAll ? this.statuses.map(statusJson) : this.#ownStatuses(policyOf),
    };
  }

  /** The first level with a limit that counts the request: its limits are called by their names, as header fields call them. */
  #nearestLevel(): number {
    const levels = this.statuses.map(({ entityId }) => this.#levels.indexOf(entityId)).filter((level) => level >= 0);
    return levels.length === 0 ? 0 : Math.min(...levels);
  }

  #ownStatuses(policyOf: (status: Status) => string): Record<string, unknown>[] {
    return this.statuses.flatMap((status): Record<string, unknown>[] => {
      const resource = plainText(status.resource);
      if (status.entityId === this.#levels[0]) {
        return [{ ...statusJson(status), entityId: plainText(status.entityId), resource }];
      }
      return status.exceeded ? [{ resource, limit: policyOf(status), exceeded: true }] : [];
    });
  }

  #policyOf({ entityId, resource, limit }: Status, nearest: number): string {
    // The first status that is of no total is of the resource that was asked for.
    const isAsked = resource === this.statuses.find((status) => status.resource !== TOTAL_RESOURCE)?.resource;
    const level = this.#levels.indexOf(entityId);
    // Limits of other entities that the request names have no level.
    return level < 0
      ? levelName(limit, 0, resource)
      : levelName(limit, level - nearest, isAsked ? undefined : resource);
  }
}

interface Refused {
  readonly entityId: string;
  readonly resource: string;
  readonly names: readonly string[];
  readonly retryAfterMs: number;
}

/** A total by its name alone: customers do not know what stands before it. */
function withoutTotal(policy: string): string {
  return policy.startsWith(`${TOTAL_RESOURCE}/`) ? policy.slice(TOTAL_RESOURCE.length + 1) : policy;
}

/** `textOf`: for customers, names as they were before they were encoded; for logs, as they are stored. */
function sentence({ entityId, resource, names, retryAfterMs }: Refused, textOf: (name: string) => string): string {
  const when = Number.isFinite(retryAfterMs)
    ? `retry in ${waitWords(retryAfterMs)}`
    : "it will not fit in the foreseeable future";
  const where = resource === TOTAL_RESOURCE ? "over all resources" : `on ${textOf(resource)}`;
  return `Rate limit exceeded for ${textOf(entityId)} ${where}: ${names.join(", ")}; ${when}.`;
}

function levelsOf({ levels = "own" }: ProblemOptions): "own" | "all" {
  if (levels === "own" || levels === "all") return levels;
  throw new ValidationError("option_invalid", `levels is ${JSON.stringify(levels)}; give "own" or "all".`);
}

// JSON has no Infinity; "never" is null there.
function finite(value: number): number | null {
  return Number.isFinite(value) ? value : null;
}

function statusJson(status: Status): Record<string, unknown> {
  return { ...status, retryAfterMs: finite(status.retryAfterMs) };
}
