import { LimiterError, RateLimiterUnavailable } from "../domain/names/errors.ts";
import type { Clock } from "../ports/system.ts";
import { checkQuery, jsonOf } from "./check.ts";
import { inBackground } from "./in-background.ts";
import type { CheckedOptions } from "./options.ts";
import { at, type Path } from "./path.ts";
import { errorOf, parsed } from "./problem.ts";

/**
 * When a request is sent again.
 * - absent: when its answer was lost, as reads and everything with an idempotency key of its own can be.
 * - `take`: the same; and it is not sent at all for as long as the service has asked to be left alone.
 * - `lease`: the same; and for as long as the service has asked to be left alone it waits, and then is sent again.
 * - `never`: a repeat of what was done would answer that it exists, is changed or is gone.
 */
type Repeats = "take" | "lease" | "never";

/** What a request has besides its method and its path. */
export interface RequestParts {
  /** What is undefined is left out. */
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
  /** How often it was sent again. */
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
      return isInProgress ? { error, pauseMs: retryAfterMs } : { error };
    }
    if (status < 500) {
      const what = `The server at ${this.options.base} is not a zae-limiter service (${status}); correct the address.`;
      return { error: new LimiterError("service_unknown", what) };
    }
    const error = this.#unavailable(`failed with ${status}: ${body?.detail ?? text.slice(0, 50)}`);
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
