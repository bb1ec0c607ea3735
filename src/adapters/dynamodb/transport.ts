import type { Socket } from "node:net";
import type { buildConnector, Pool } from "undici";
import { LimiterError } from "../../domain/names/errors.ts";
import { given } from "../../domain/names/given.ts";
import type { DateListener, DynamoAnswer, DynamoCall, DynamoClient, DynamoOperation } from "./client.ts";
import { type Credentials, CredentialsCache, type CredentialsProvider, defaultProvider } from "./credentials.ts";
import { type Endpoint, resolveEndpoint } from "./endpoint.ts";
import { RETRY } from "./retry-policy.ts";
import { Signer } from "./signer.ts";
import { Exchange, type ExchangeHost } from "./transport-exchange.ts";
import { loadUndici } from "./transport-peer.ts";

export interface TransportOptions {
  readonly region: string;
  /** A custom address, such as `http://localhost:8000`. */
  readonly endpoint?: string | undefined;
  readonly useFips?: boolean | undefined;
  readonly useDualStack?: boolean | undefined;
  /** Keys, or a provider of them. Default: the AWS SDK's chain. */
  readonly credentials?: Credentials | CredentialsProvider | undefined;
  /** The time to sign with, in ms. If it is refused as wrong, it is corrected by the server's `Date`. */
  readonly now: () => number;
  /** The maximum number of connections; a connection has one request at a time. */
  readonly connections?: number | undefined;
  /** The time in ms for which a late answer is still awaited, for `later`. */
  readonly graceMs?: number | undefined;
  /** The time for a connection, including TLS, in ms. */
  readonly connectTimeoutMs?: number | undefined;
  /** Certificates to trust instead of the platform's, in PEM. */
  readonly ca?: string | undefined;
  /** Called when a request is written; its result is passed to `onDate` with the answer. */
  readonly stamp?: (() => unknown) | undefined;
  readonly onDate?: DateListener | undefined;
}

export const TRANSPORT_DEFAULTS = {
  useFips: false,
  useDualStack: false,
  connections: 128,
  graceMs: 10_000,
  connectTimeoutMs: 3_000,
} as const;

/**
 * A way to DynamoDB that costs hardly more than its HTTP: undici's pool, our signature, answers as values. Needs the package
 * undici, and @aws-sdk/credential-providers unless it is given credentials.
 *
 * ```ts
 * const client = await openTransport({ region: "eu-west-1", now });
 * const answer = await client.send("DescribeTable", '{"TableName":"limits"}', { timeoutMs: 500 });
 * await client.close();
 * ```
 */
export async function openTransport(options: TransportOptions): Promise<DynamoClient> {
  const endpoint = resolveEndpoint({
    region: options.region,
    endpoint: options.endpoint,
    useFips: options.useFips ?? TRANSPORT_DEFAULTS.useFips,
    useDualStack: options.useDualStack ?? TRANSPORT_DEFAULTS.useDualStack,
  });
  const undici = await loadUndici();
  const provider = await providerOf(options.credentials, endpoint.signingRegion);
  const sockets = new Set<Socket>();
  const connect = undici.buildConnector({
    timeout: options.connectTimeoutMs ?? TRANSPORT_DEFAULTS.connectTimeoutMs,
    ...given({ ca: options.ca }),
  });
  const pool = new undici.Pool(endpoint.origin, {
    connect: remembering(sockets, connect),
    connections: options.connections ?? TRANSPORT_DEFAULTS.connections,
    keepAliveTimeout: IDLE_MAX_MS,
    // Each exchange has its own timer.
    headersTimeout: 0,
    bodyTimeout: 0,
  });
  return new Transport({ options, endpoint, provider, pool, sockets });
}

/** The service closes idle connections after about a minute. A connection that closes during a request costs a lost answer. */
const IDLE_MAX_MS = 30_000;

/** Codes for a signature whose time is wrong; the request was not processed. */
const SKEW_CODES: ReadonlySet<string> = new Set([
  "InvalidSignatureException",
  "RequestTimeTooSkewed",
  "RequestExpired",
  "RequestInTheFuture",
  "SignatureDoesNotMatch",
]);

const EXPIRED_CODES: ReadonlySet<string> = new Set(["ExpiredTokenException", "ExpiredToken"]);

/** A smaller difference is not the reason: the service tolerates five minutes. */
const SKEW_MIN_MS = 120_000;

interface TransportParts {
  readonly options: TransportOptions;
  readonly endpoint: Endpoint;
  readonly provider: CredentialsProvider;
  readonly pool: Pool;
  readonly sockets: ReadonlySet<Socket>;
}

class Transport implements DynamoClient, ExchangeHost {
  readonly graceMs: number;
  readonly origin: string;
  readonly #pool: Pool;
  readonly #sockets: ReadonlySet<Socket>;
  readonly #path: string;
  readonly #signer: Signer;
  readonly #credentials: CredentialsCache;
  readonly #now: () => number;
  readonly #stamp: (() => unknown) | undefined;
  readonly #onDate: DateListener | undefined;
  /** The server's time minus the local time. */
  #skewMs = 0;
  #dateText = "";
  #dateMs = Number.NaN;
  /** The number of callers waiting for an answer. */
  #waiting = 0;
  #closing: Promise<void> | undefined;
  #drained: (() => void) | undefined;

  constructor({ options, endpoint, provider, pool, sockets }: TransportParts) {
    this.graceMs = options.graceMs ?? TRANSPORT_DEFAULTS.graceMs;
    this.origin = endpoint.origin;
    this.#pool = pool;
    this.#sockets = sockets;
    this.#path = endpoint.path;
    this.#signer = new Signer(endpoint);
    this.#now = options.now;
    this.#credentials = new CredentialsCache({ provider, origin: endpoint.origin, now: () => this.#signingMs() });
    this.#stamp = options.stamp;
    this.#onDate = options.onDate;
  }

  send(operation: DynamoOperation, body: string, { timeoutMs, readItem }: DynamoCall): Promise<DynamoAnswer> {
    return new Promise((resolve) => {
      if (this.#closing !== undefined) {
        resolve({ kind: "unsent", cause: new LimiterError("closed", "The connection to DynamoDB has been closed.") });
        return;
      }
      this.#waiting++;
      this.#attempt(new Exchange(this, { operation, body, timeoutMs, readItem, resolve }));
    });
  }

  /** Waits for pending answers, but not for late ones. */
  close(): Promise<void> {
    this.#closing ??= new Promise<void>((resolve) => {
      this.#drained = resolve;
      if (this.#waiting === 0) resolve();
    }).then(() => this.#destroy());
    return this.#closing;
  }

  stamp(): unknown {
    return this.#stamp?.();
  }

  dated(dateText: string, sent: unknown): number {
    // All answers of a second have the same date.
    if (dateText !== this.#dateText) {
      this.#dateText = dateText;
      this.#dateMs = Date.parse(dateText);
    }
    this.#onDate?.({ dateMs: this.#dateMs, sent });
    return this.#dateMs;
  }

  mayRepeat({ attempts, credentials, signedMs, dateMs }: Exchange, code: string): boolean {
    if (attempts >= RETRY.signaturesMax || credentials === undefined) return false;
    if (EXPIRED_CODES.has(code)) {
      this.#credentials.refuse(credentials);
      return true;
    }
    if (!SKEW_CODES.has(code) || !(Math.abs(dateMs - signedMs) >= SKEW_MIN_MS)) return false;
    this.#skewMs = dateMs - this.#now();
    return true;
  }

  repeat(exchange: Exchange): void {
    this.#attempt(exchange);
  }

  settled(): void {
    this.#waiting--;
    if (this.#waiting === 0) this.#drained?.();
  }

  #attempt(exchange: Exchange): void {
    const credentials = this.#credentials.current();
    if (credentials instanceof Promise) {
      credentials.then(
        (fetched) => this.#dispatch(exchange, fetched),
        (cause) => exchange.unsent(cause),
      );
    } else this.#dispatch(exchange, credentials);
  }

  #dispatch(exchange: Exchange, credentials: Credentials): void {
    if (exchange.isDropped) return; // Its time ended before there were credentials.
    const nowMs = this.#signingMs();
    const { operation, body } = exchange;
    exchange.begin(credentials, nowMs);
    const headers = this.#signer.headers({ operation, body, credentials, nowMs });
    this.#pool.dispatch({ method: "POST", path: this.#path, headers, body }, exchange);
  }

  #signingMs(): number {
    return this.#now() + this.#skewMs;
  }

  async #destroy(): Promise<void> {
    const cause = new LimiterError("closed", "The connection to DynamoDB was closed before the response arrived.");
    await this.#pool.destroy(cause);
    // The pool drops clients whose connection failed, but still lets them connect for queued requests.
    for (const socket of this.#sockets) socket.destroy();
  }
}

async function providerOf(
  credentials: Credentials | CredentialsProvider | undefined,
  region: string,
): Promise<CredentialsProvider> {
  if (credentials === undefined) return defaultProvider(region);
  return typeof credentials === "function" ? credentials : async () => credentials;
}

function remembering(sockets: Set<Socket>, connect: buildConnector.connector): buildConnector.connector {
  return (options, callback) =>
    connect(options, (...[error, socket]) => {
      if (error !== null) return callback(error, null);
      sockets.add(socket);
      socket.once("close", () => sockets.delete(socket));
      callback(null, socket);
    });
}
