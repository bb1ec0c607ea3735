import { LimiterError, RateLimiterUnavailable } from "../domain/errors.ts";
import type { Clock } from "../ports/system.ts";
import { jsonOf } from "./check.ts";
import { inBackground } from "./in-background.ts";
import type { CheckedOptions } from "./options.ts";
import { errorOf, revived } from "./problem.ts";

/**
 * When a request is sent again.
 * - `lost`: when its answer was lost, as reads and everything with an idempotency key of its own can be.
 * - `take`: the same; and it is not sent at all for as long as the service has asked to be left alone.
 * - `lease`: the same; and for as long as the service has asked to be left alone it waits, and then is sent again.
 * - `never`: a repeat of what was done would answer that it exists, is changed or is gone.
 */
type Repeats = "lost" | "take" | "lease" | "never";

/** What a request has besides its method and its path. */
export interface RequestParts {
  /** What is undefined is left out. */
  readonly query?: Readonly<Record<string, string | number | undefined>>;
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

/** `pauseMs`: a lost answer, and how long to wait at least before the request is sent again; absent: sending it again is of no use. */
interface Failure {
  readonly error: LimiterError;
  readonly pauseMs?: number;
}

const REPEATS_MAX = 2;
const BACKOFF_MS = 100;
/** The longest that a service is left alone because it has said so. */
const OUTAGE_MAX_SECONDS = 60;

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
  async answer<Body>(method: string, path: string, parts: RequestParts): Promise<ServiceAnswer<Body>> {
    const { repeats = "lost" } = parts;
    if (this.#isClosed && repeats !== "lease") {
      throw new LimiterError("closed", "The client has been closed; make a new LimiterClient.");
    }
    const sending = this.#answer<Body>(method, path, repeats, parts);
    this.#underWay.add(sending);
    return sending.finally(() => this.#underWay.delete(sending));
  }

  #send(method: string, path: string, { query = {}, body, headers }: RequestParts, signal: AbortSignal): Promise<Response> {
    const { base, token } = this.options;
    const url = new URL(base + path);
    for (const [name, value] of Object.entries(query)) {
      if (value !== undefined) url.searchParams.set(name, String(value));
    }
    return fetch(url, {
      method,
      headers: {
        ...(body === undefined ? {} : { "content-type": "application/json" }),
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: jsonOf(body) }),
      redirect: "error",
      signal,
    });
  }

  async #answer<Body>(
    method: string,
    path: string,
    repeats: Repeats,
    parts: RequestParts,
  ): Promise<ServiceAnswer<Body>> {
    for (let repeat = 0; ; repeat++) {
      const leftMs = this.#outageUntilMs - this.clock.now();
      if (leftMs > 0 && repeats === "take") {
        throw new RateLimiterUnavailable(
          `The service at ${this.options.base} is unavailable and asks to be left alone for ${leftMs} ms; try again then.`,
        );
      }
      if (leftMs > 0 && repeats === "lease") await this.clock.sleep(leftMs, undefined);
      const got = await this.#attempt<Body>(method, path, parts);
      if ("body" in got) return { ...got, repeats: repeat };
      const { error, pauseMs } = got;
      const isOver = repeats === "lease" && error.httpStatus === 503;
      if (repeat === REPEATS_MAX || repeats === "never" || (pauseMs === undefined && !isOver)) throw error;
      if (pauseMs !== undefined) await this.clock.sleep(Math.max(pauseMs, BACKOFF_MS * 4 ** repeat), undefined);
    }
  }

  async #attempt<Body>(
    method: string,
    path: string,
    parts: RequestParts,
  ): Promise<Failure | Omit<ServiceAnswer<Body>, "repeats">> {
    const { waitMs = 0, signal } = parts;
    const patienceMs = this.options.timeoutMs + waitMs;
    const late = new AbortController();
    const done = new AbortController();
    inBackground(this.clock, patienceMs, done.signal).then(
      () => late.abort(),
      () => {},
    );
    try {
      const response = await this.#send(
        method,
        path,
        parts,
        signal === undefined ? late.signal : AbortSignal.any([late.signal, signal]),
      );
      if (parts.isStream && response.ok) return { body: response as Body, headers: response.headers };
      // Read within the time: an answer that stops in the middle is as good as none.
      return this.#read<Body>(response, await response.text());
    } catch (cause) {
      signal?.throwIfAborted();
      if (cause instanceof LimiterError) throw cause;
      const why = late.signal.aborted ? `no answer within ${patienceMs} ms` : reasonOf(cause);
      return {
        error: this.#unavailable(`cannot be reached: ${why}. Correct the address, or start it`, cause),
        pauseMs: 0,
      };
    } finally {
      done.abort();
    }
  }

  #read<Body>({ ok, status, headers }: Response, text: string): Failure | Omit<ServiceAnswer<Body>, "repeats"> {
    const body = parsed(text);
    if (ok && (text === "" || body !== undefined)) return { body: revived(body) as Body, headers };
    const seconds = Number(headers.get("retry-after") ?? 1);
    const retryAfterMs = (seconds >= 0 ? Math.min(seconds, OUTAGE_MAX_SECONDS) : 1) * 1_000;
    const isInProgress = body?.code === "idempotency_in_progress";
    if (isInProgress || [502, 503, 504].includes(status)) {
      if (status === 503) this.#outageUntilMs = this.clock.now() + retryAfterMs;
      const error = this.#unavailable(`did not answer (${status}): ${body?.detail ?? "try again later"}`, undefined);
      return status === 503 ? { error } : { error, pauseMs: isInProgress ? retryAfterMs : 0 };
    }
    if (typeof body?.code === "string") return { error: errorOf(status, body, headers, this.clock.now()) };
    if (status >= 500) return { error: this.#unavailable(`failed (${status}); try again later`, undefined) };
    return {
      error: new LimiterError(
        "service_unknown",
        `The server at ${this.options.base} is not a zae-limiter service (${status}); correct the address.`,
      ),
    };
  }

  #unavailable(what: string, cause: unknown): RateLimiterUnavailable {
    return new RateLimiterUnavailable(
      `The service at ${this.options.base} ${what.replace(/\.$/, "")}.`,
      cause === undefined ? {} : { cause },
    );
  }
}

/** A key by which the service knows a repeat. Not `randomUUID`: pages that were loaded over plain HTTP have none. */
export function newKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Undefined: it is not JSON. */
// biome-ignore lint/suspicious/noExplicitAny: what it is depends on what was asked, and whom.
function parsed(text: string): any {
  try {
    return JSON.parse(text);
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
