import { Problem } from "./problem.ts";

/** The origin of a request, by its header fields. */
export interface RequestOrigin {
  readonly origin: string | null;
  readonly fetchSite: string | null;
}

export interface GuardOptions {
  /** The name that the service was told to listen on. */
  readonly host: string;
  /** Undefined: another program listens, and its port is not known here. */
  readonly port: number | undefined;
  /** The port that a name without one stands for. */
  readonly defaultPort: number;
  readonly allowHosts: readonly string[];
  readonly allowOrigins: readonly string[];
}

/**
 * Refuses requests that a page of another site may have sent. The name in `Host` is what a rebound DNS name cannot fake, and
 * `Origin` and `Sec-Fetch-Site` are what a page cannot set.
 */
export class OriginGuard {
  readonly #names: ReadonlySet<string>;
  readonly #port: number | undefined;
  readonly #defaultPort: number;
  readonly #allowHosts: ReadonlySet<string>;
  readonly #allowOrigins: ReadonlySet<string>;
  /** The last `Host` that was accepted. */
  #lastHost: string | undefined;

  constructor({ host, port, defaultPort, allowHosts, allowOrigins }: GuardOptions) {
    this.#names = new Set(["localhost", "127.0.0.1", "[::1]", nameInHost(host)]);
    this.#port = port;
    this.#defaultPort = defaultPort;
    this.#allowHosts = new Set(allowHosts.map((name) => name.toLowerCase()));
    this.#allowOrigins = new Set(allowOrigins);
  }

  requireHost(host: string | undefined): void {
    // Nearly every request of a service comes by the same name.
    if (host !== undefined && host === this.#lastHost) return;
    if (host !== undefined && this.#isOurs(host.toLowerCase())) {
      this.#lastHost = host;
      return;
    }
    throw new Problem(
      "host_unknown",
      `The Host of the request is not a name of this service; use localhost and the port, or allow the name with --allow-host.`,
    );
  }

  /** For every route with data. The page itself has none and may be linked to. */
  requireOrigin({ origin, fetchSite }: RequestOrigin): void {
    if (origin !== null) {
      if (this.isAllowed(origin) || this.#isOwnOrigin(origin)) return;
      throw foreign();
    }
    if (fetchSite === "cross-site") throw foreign();
  }

  /** Whether pages of that origin may read answers. */
  isAllowed(origin: string): boolean {
    return this.#allowOrigins.has(origin);
  }

  #isOwnOrigin(origin: string): boolean {
    const [, host] = /^https?:\/\/([^/]+)$/.exec(origin.toLowerCase()) ?? [];
    return host !== undefined && this.#isOurs(host);
  }

  #isOurs(host: string): boolean {
    if (this.#allowHosts.has(host)) return true;
    const [, name = "", port] = /^(\[[0-9a-f:.]+\]|[^:[\]]+)(?::(\d{1,5}))?$/.exec(host) ?? [];
    if (this.#allowHosts.has(name)) return true;
    if (!this.#names.has(name)) return false;
    return this.#port === undefined || Number(port ?? this.#defaultPort) === this.#port;
  }
}

/** An address as it stands in a `Host` field and in a URL. */
export function nameInHost(host: string): string {
  return (host.includes(":") && !host.startsWith("[") ? `[${host}]` : host).toLowerCase();
}

export function isLoopback(host: string): boolean {
  return /^(localhost|127(\.\d{1,3}){3}|::1|\[::1\])$/i.test(host);
}

function foreign(): Problem {
  return new Problem(
    "origin_forbidden",
    "A page of another origin sent this request; use the service's own address, or allow the origin with --allow-origin.",
  );
}

/** Methods and request fields that a page of an allowed origin may use. There are no credentials: tokens are sent as a field. */
const METHODS = "GET, HEAD, POST, PUT, PATCH, DELETE";
const FIELDS = "authorization, content-type, idempotency-key, if-match, if-none-match, last-event-id, x-request-id";
const READABLE =
  "etag, idempotency-replayed, location, ratelimit, ratelimit-policy, retry-after, x-request-id, zael-changed";

/** Header fields that let a page of this origin read an answer. */
export function corsFields(origin: string): Readonly<Record<string, string>> {
  return { "access-control-allow-origin": origin, "access-control-expose-headers": READABLE, vary: "Origin" };
}

/** The answer to a preflight of an allowed origin. */
export function preflightFields(origin: string): Readonly<Record<string, string>> {
  return {
    "access-control-allow-origin": origin,
    "access-control-allow-methods": METHODS,
    "access-control-allow-headers": FIELDS,
    "access-control-max-age": "600",
    vary: "Origin",
  };
}
