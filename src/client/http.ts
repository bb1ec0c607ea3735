import { carryFields } from "../domain/charge/rate-limit-headers.ts";
import type { Status } from "../domain/charge/status.ts";
import {
  ConflictError,
  ExistsError,
  HoldLost,
  LeaseClosed,
  LimiterError,
  NotFoundError,
  RateLimitExceeded,
  RateLimiterUnavailable,
  ResourceDisabled,
  ValidationError,
} from "../domain/names/errors.ts";
import type { Clock } from "../ports/system.ts";
import { checkName, checkQuery, invalid, jsonOf } from "./check.ts";
import type { CheckedOptions } from "./options.ts";

/** Waits without keeping the process alive. */
export function inBackground(clock: Clock, ms: number, signal: AbortSignal): Promise<void> {
  return clock.sleepInBackground === undefined ? clock.sleep(ms, signal) : clock.sleepInBackground(ms, signal);
}

/** A path of the service. `at` and `requestOf` alone make one: nothing that was joined by hand reaches `fetch`. */
export type Path = string & { readonly madeBy: typeof at };

/**
 * A path with names in it, such as at`leases/${id}/settle`; one that begins with `/` is below the address of the service, any
 * other below the namespace. Each name becomes one part of the path, as it is: it is encoded, and refused where it would be left out
 * of an address or lead to another.
 */
export function at({ raw }: TemplateStringsArray, ...names: readonly string[]): Path {
  return String.raw({ raw }, ...names.map(partOf)) as Path;
}

/**
 * The request of an operation with the arguments of its method. Each name in braces becomes a part of the path, and each name after `?` a
 * field of the query: `GET entities/{entityId}/limits`, `GET limits/effective?entityId&resource`. They are the first arguments, in that order.
 */
export function requestOf(http: string, given: readonly unknown[]) {
  const rest = [...given];
  const [method, template, fields] = http.split(/[ ?]/) as [string, string, string?];
  const next = (field: string) => checkName(field as "resource", rest.shift() as string);
  const path = template.replace(/{(\w+)}/g, (_, field) => partOf(next(field))) as Path;
  const query = Object.fromEntries((fields?.split("&") ?? []).map((field) => [field, next(field)]));
  return { method, path, query, rest };
}

function partOf(name: string): string {
  if (/^\.{0,2}$/.test(name)) throw invalid("path", "A part of the path", name, "a name");
  return encodeURIComponent(name);
}

/** The body of an answer that is no success. */
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
  /** Why the namespace is frozen. */
  readonly reason?: string;
  /** The problems of a manifest, each with its path. */
  readonly problems?: readonly unknown[];
}

/** The error that the library would have thrown, of the same class and with the same code. */
function errorOf(status: number, problem: ProblemBody, headers: Headers, atMs: number): LimiterError {
  const { code, detail, statuses, leaseStatus, holdMs, problems } = problem;
  if (statuses) {
    // The limit that is waited for longest; its wait is that of the whole refusal.
    const primary = statuses.reduce((longest, one) => (one.retryAfterMs > longest.retryAfterMs ? one : longest));
    return carryOver(new RateLimitExceeded({ statuses, primary, retryAfterMs: primary.retryAfterMs }), headers, atMs);
  }
  if (code === "resource_disabled") return new ResourceDisabled(problem);
  if (code === "namespace_frozen") return new ResourceDisabled({ ...problem, frozen: { reason: problem.reason } });
  if (code === "hold_lost") return new HoldLost(detail);
  if (leaseStatus) return new LeaseClosed(code, detail, { leaseStatus });
  if (status === 400 || code === "amount_above_capacity" || code === "idempotency_key_reused") {
    return Object.assign(new ValidationError(code, detail), holdMs && { holdMs }, problems && { problems });
  }
  if (status === 404 && code !== "route_unknown") return new NotFoundError(code, detail);
  if (status === 409 || status === 412) {
    return new (code.endsWith("_exists") ? ExistsError : ConflictError)(code, detail);
  }
  // Codes of the service alone: a missing token or scope, an unknown host, a body that is too large.
  return Object.defineProperty(new LimiterError(code, detail), "httpStatus", { value: status });
}

/** The changes that an apply made before it failed go with its error. */
function withMade<Failed extends LimiterError>(error: Failed, body: { readonly made?: unknown } | undefined): Failed {
  return Object.assign(error, body?.made && { made: body.made });
}

/** Keeps the service's own fields for a middleware, which passes them on. */
export function carryOver<Told extends object>(told: Told, headers: Headers, atMs: number): Told {
  const [policy, state] = [headers.get("ratelimit-policy"), headers.get("ratelimit")];
  if (policy && state) carryFields(told, { policy, state, atMs });
  return told;
}

/** The value in a JSON text; undefined: it is none. JSON has no Infinity: where something never happens, it is `null` there. */
// biome-ignore lint/suspicious/noExplicitAny: what it is depends on what was asked, and whom.
function parsed(text: string): any {
  try {
    return JSON.parse(text, (name, value) =>
      value === null && /^(retryAfter|changesAt)Ms$/.test(name) ? Number.POSITIVE_INFINITY : value,
    );
  } catch {
    return undefined;
  }
}

/**
 * When a request is sent again.
 * - absent: when its answer was lost, as reads and everything with an idempotency key of its own can be.
 * - `take`: the same; and it is not sent at all for as long as the service has asked to be left alone.
 * - `lease`: the same; and for as long as the service has asked to be left alone it waits, and then is sent again.
 * - `never`: a repeat of what was done would answer that it exists, is changed or is gone.
 */
type Repeats = "take" | "lease" | "never";

export interface RequestParts {
  /** Undefined fields are left out. */
  readonly query?: object;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  readonly repeats?: Repeats;
  /** Beyond `timeoutMs`: how long the service itself may wait. */
  readonly waitMs?: number;
  readonly signal?: AbortSignal | undefined;
  /** The body of the answer is the response itself, which may take as long as it likes once it has begun. */
  readonly isStream?: true;
}

export interface ServiceAnswer<Body> {
  readonly body: Body;
  readonly headers: Headers;
  /** The number of times that it was sent again. */
  readonly repeats: number;
}

/** `pauseMs`: the answer was lost, and how long to wait at least before the request is sent again. Absent: that is of no use. */
interface Failure {
  readonly error: LimiterError;
  readonly pauseMs?: number;
}

const REPEATS_MAX = 2;
const BACKOFF_MS = 100;
/** The longest that a service is left alone because it has said so. */
const OUTAGE_MAX_SECONDS = 60;

/** An operation of the service: its request, as `requestOf` reads it, and what sends it with the arguments of its method. */
export type Operation = readonly [
  http: string,
  send: (calls: ServiceCalls, http: string, given: readonly never[]) => unknown,
];

/** Sends requests to a service, and again where an answer is lost and the request may be repeated. */
export class ServiceCalls {
  readonly options: CheckedOptions;
  readonly clock: Clock;
  readonly #underWay = new Set<Promise<unknown>>();
  #isClosed = false;
  /** Until then the service has asked to be left alone. */
  #outageUntilMs = 0;

  constructor(options: CheckedOptions, clock: Clock) {
    this.options = options;
    this.clock = clock;
  }

  /** Refuses new calls, but for those that change or end a lease; resolves when those under way are answered. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.allSettled(this.#underWay);
  }

  /** An answer of success, its body as the library would give it. Throws what the library would throw. */
  async answer<Body>(method: string, path: Path, parts: RequestParts = {}): Promise<ServiceAnswer<Body>> {
    if (this.#isClosed && parts.repeats !== "lease") {
      throw new LimiterError("closed", "The client has been closed; make a new LimiterClient.");
    }
    const sending = this.#answer<Body>(method, path, parts);
    this.#underWay.add(sending);
    return sending.finally(() => this.#underWay.delete(sending));
  }

  async #answer<Body>(method: string, path: Path, parts: RequestParts): Promise<ServiceAnswer<Body>> {
    const { clock } = this;
    const { repeats } = parts;
    for (let repeat = 0; ; repeat++) {
      const leftMs = this.#outageUntilMs - clock.now();
      if (leftMs > 0 && repeats === "take") throw this.#unavailable(`asks to be left alone for ${leftMs} ms`);
      if (leftMs > 0 && repeats === "lease") await clock.sleep(leftMs, undefined);
      const got = await this.#attempt<Body>(method, path, parts);
      if ("body" in got) return { ...got, repeats: repeat };
      const { error, pauseMs = -1 } = got;
      const isAgain = pauseMs >= 0 || (repeats === "lease" && error.httpStatus === 503);
      if (!isAgain || repeat === REPEATS_MAX || repeats === "never") throw error;
      if (pauseMs >= 0) await clock.sleep(Math.max(pauseMs, BACKOFF_MS * 4 ** repeat), undefined);
    }
  }

  async #attempt<Body>(
    method: string,
    path: Path,
    { query = {}, body, headers, waitMs = 0, signal, isStream }: RequestParts,
  ): Promise<Failure | Omit<ServiceAnswer<Body>, "repeats">> {
    const { base, token, namespace, timeoutMs } = this.options;
    const [late, done] = [new AbortController(), new AbortController()];
    inBackground(this.clock, timeoutMs + waitMs, done.signal).then(
      () => late.abort(),
      () => {},
    );
    const url = new URL(base + (path.startsWith("/") ? path : `${at`/v1/namespaces/${namespace}`}/${path}`));
    for (const [name, value] of Object.entries(query)) {
      if (value !== undefined) url.searchParams.set(name, checkQuery(name, value));
    }
    const text = body === undefined ? "" : jsonOf(body);
    try {
      const response = await fetch(url, {
        method,
        headers: {
          ...(text && { "content-type": "application/json" }),
          ...(token && { authorization: `Bearer ${token}` }),
          ...headers,
        },
        ...(text && { body: text }),
        redirect: "error",
        signal: AbortSignal.any(signal ? [late.signal, signal] : [late.signal]),
      });
      if (isStream && response.ok) return { body: response as Body, headers: response.headers };
      // Read within the time: an answer that stops in the middle is as good as none.
      return this.#read(response, await response.text());
    } catch (cause) {
      signal?.throwIfAborted();
      const why = late.signal.aborted ? `no answer within ${timeoutMs + waitMs} ms` : reasonOf(cause);
      return { error: this.#unavailable(`cannot be reached: ${why}`, cause), pauseMs: 0 };
    } finally {
      done.abort();
    }
  }

  #read<Body>({ ok, status, headers }: Response, text: string): Failure | Omit<ServiceAnswer<Body>, "repeats"> {
    const body = parsed(text);
    if (ok && (body || !text)) return { body, headers };
    const seconds = Number(headers.get("retry-after") ?? 1);
    const retryAfterMs = (seconds >= 0 ? Math.min(seconds, OUTAGE_MAX_SECONDS) : 1) * 1_000;
    const isInProgress = body?.code === "idempotency_in_progress";
    if (isInProgress || (body?.code && status < 502)) {
      const error = isInProgress ? this.#unavailable(body.detail) : errorOf(status, body, headers, this.clock.now());
      return isInProgress ? { error, pauseMs: retryAfterMs } : { error: withMade(error, body) };
    }
    if (status < 500) {
      const what = `The server at ${this.options.base} is not a zae-limiter service (${status}); correct the address.`;
      return { error: new LimiterError("service_unknown", what) };
    }
    const error = withMade(this.#unavailable(`failed with ${status}: ${body?.detail ?? text.slice(0, 50)}`), body);
    if (status === 503) this.#outageUntilMs = this.clock.now() + retryAfterMs;
    return status === 502 || status === 504 ? { error, pauseMs: 0 } : { error };
  }

  #unavailable(what: string, cause?: unknown): RateLimiterUnavailable {
    return new RateLimiterUnavailable(
      `The service at ${this.options.base} ${what.replace(/\.$/, "")}; try again later.`,
      {
        cause,
      },
    );
  }
}

/** The field by which the service knows a repeat. Not `randomUUID`: pages that were loaded over plain HTTP have none. */
export function keyField(key = crypto.getRandomValues(new Uint32Array(4)).join("-")): Readonly<Record<string, string>> {
  return { "idempotency-key": key };
}

/** The errors of `fetch` say "fetch failed", and why in their cause, which may be one for each address that was tried. */
function reasonOf(error: unknown): string {
  const { cause, message } = error as Error & { readonly cause?: Error & { readonly errors?: readonly Error[] } };
  return cause?.errors?.[0]?.message || cause?.message || message;
}
