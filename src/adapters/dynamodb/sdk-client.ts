import type { DynamoDBClient } from "@aws-sdk/client-dynamodb";
import { LimiterError } from "../../domain/names/errors.ts";
import type { DateListener, DynamoAnswer, DynamoCall, DynamoClient, DynamoOperation } from "./client.ts";
import { noCredentials } from "./credentials.ts";
import { resolveEndpoint } from "./endpoint.ts";
import { Unreachable } from "./retry-policy.ts";
import { TRANSPORT_DEFAULTS } from "./transport.ts";
import { loadSdk } from "./transport-peer.ts";

/** Converts DynamoDB's JSON to the input of the AWS SDK's commands: binary values are base64 on the wire and bytes there. */
function fromWire(value: unknown): unknown {
  return mapped(value, (object) => {
    // Other objects have no member of that name: attribute names are one level above, placeholders begin with # or :.
    const [[key, inner] = ["", undefined], ...others] = Object.entries(object);
    if (others.length > 0) return undefined;
    if (key === "B" && typeof inner === "string") return { B: Buffer.from(inner, "base64") };
    if (key === "BS" && Array.isArray(inner)) return { BS: inner.map((item) => Buffer.from(String(item), "base64")) };
    return undefined;
  });
}

/** The inverse of `fromWire`. Dates are seconds on the wire; undefined members are left out. */
function toWire(value: unknown): unknown {
  return mapped(value, (object) => {
    if (object instanceof Uint8Array) return Buffer.from(object).toString("base64");
    if (object instanceof Date) return object.getTime() / 1000;
    return undefined;
  });
}

/** `leaf` converts a whole object; undefined: its parts are converted. */
function mapped(value: unknown, leaf: (object: object) => unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map((item) => mapped(item, leaf));
  const whole = leaf(value);
  if (whole !== undefined) return whole;
  const parts = Object.entries(value).filter(([, part]) => part !== undefined);
  return Object.fromEntries(parts.map(([key, part]) => [key, mapped(part, leaf)]));
}

/** The parts of a `DynamoDBClient` of @aws-sdk/client-dynamodb that can be typed without that package. */
export interface SdkClient {
  readonly config: object;
  readonly middlewareStack: { clone(): unknown };
}

export interface SdkClientOptions {
  /** The time in ms for which a late answer is still awaited, for `later`. */
  readonly graceMs?: number | undefined;
  readonly stamp?: (() => unknown) | undefined;
  readonly onDate?: DateListener | undefined;
}

/**
 * The same as a transport, over the AWS SDK's client of somebody who has one: with its handler, its middleware, its endpoint,
 * at several times the CPU. Its retries are passed by, whatever `maxAttempts` says, since a take that the SDK repeats would
 * be counted twice; the client itself is left as it is, and is not destroyed on `close`. It checks no x-amz-crc32, and gives a
 * transaction without a ClientRequestToken one.
 *
 * ```ts
 * const client = await openSdkClient(new DynamoDBClient({ region: "eu-west-1" }), {});
 * ```
 */
export async function openSdkClient(client: SdkClient, options: SdkClientOptions): Promise<DynamoClient> {
  const sdk = await loadSdk();
  const given = client as DynamoDBClient;
  const stack = given.middlewareStack.clone();
  if (!stack.identify().some((line) => line.startsWith(RETRY.name))) {
    throw new LimiterError(
      "client_unsupported",
      "The retries of this DynamoDBClient cannot be turned off: it has no middleware named retryMiddleware. " +
        "Use a client of @aws-sdk/client-dynamodb 3, or leave `client` out.",
    );
  }
  // The middleware is replaced, not removed: the signing middleware is placed relative to it.
  stack.add((next) => (args) => next(args), RETRY);
  // Placed next to the wire, so that it sees refusals too, and the moment of sending.
  stack.add(dateMiddleware(options), { name: "zaeLimiterDate", step: "deserialize", priority: "low" });
  const graceMs = options.graceMs ?? TRANSPORT_DEFAULTS.graceMs;
  const origin = await originOf(given);
  return new SdkBackedClient({ graceMs, origin }, async (operation, body, abortSignal) => {
    const command = commandOf(sdk, operation, fromWire(JSON.parse(body)));
    const { output } = await command.resolveMiddleware(stack, given.config, { abortSignal })(command);
    return output;
  });
}

const RETRY = { name: "retryMiddleware", step: "finalizeRequest", priority: "high", override: true } as const;

type SendCommand = (operation: DynamoOperation, body: string, abortSignal: AbortSignal) => Promise<object>;

class SdkBackedClient implements DynamoClient {
  readonly #graceMs: number;
  /** The endpoint, for messages. */
  readonly #origin: string;
  readonly #run: SendCommand;
  readonly #waiting = new Set<Promise<unknown>>();
  readonly #late = new Set<AbortController>();
  #isClosed = false;

  constructor({ graceMs, origin }: { readonly graceMs: number; readonly origin: string }, run: SendCommand) {
    this.#graceMs = graceMs;
    this.#origin = origin;
    this.#run = run;
  }

  async send(operation: DynamoOperation, body: string, { timeoutMs }: DynamoCall): Promise<DynamoAnswer> {
    if (this.#isClosed) {
      return { kind: "unsent", cause: new LimiterError("closed", "The connection to DynamoDB has been closed.") };
    }
    const abort = new AbortController();
    const answer = this.#run(operation, body, abort.signal).then(answered, (cause) => failed(cause, this.#origin));
    const inTime = Promise.race([answer, this.#timeout(timeoutMs, { answer, abort })]);
    this.#waiting.add(inTime);
    return inTime.finally(() => this.#waiting.delete(inTime));
  }

  /** Waits for pending answers, but not for late ones. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.all(this.#waiting);
    for (const abort of this.#late) abort.abort();
  }

  #timeout(
    timeoutMs: number,
    { answer, abort }: { answer: Promise<DynamoAnswer>; abort: AbortController },
  ): Promise<DynamoAnswer> {
    return new Promise((resolve) => {
      let timer = setTimeout(() => {
        this.#late.add(abort);
        timer = setTimeout(() => abort.abort(), this.#graceMs);
        const cause = new Error(`No response from DynamoDB at ${this.#origin} within ${timeoutMs} ms.`);
        resolve({ kind: "lost", cause, later: answer });
      }, timeoutMs);
      answer.finally(() => {
        clearTimeout(timer);
        this.#late.delete(abort);
      });
    });
  }
}

function answered(output: object): DynamoAnswer {
  const { $metadata: _, ...body } = output as Record<string, unknown>;
  return { kind: "answered", body: toWire(body) as Record<string, unknown> };
}

function failed(cause: unknown, origin: string): DynamoAnswer {
  if (!(cause instanceof Error)) return { kind: "lost", cause };
  const {
    name,
    message,
    $metadata,
    $fault: _f,
    $response: _r,
    $service: _s,
    $retryable: _t,
    stack: _k,
    ...fields
  } = {
    ...cause,
    name: cause.name,
    message: cause.message,
  } as Record<string, unknown> & { name: string; message: string; $metadata?: { httpStatusCode?: number } };
  const status = $metadata?.httpStatusCode;
  // An unreadable answer has a status as well, but no exception's name.
  if (status !== undefined && status >= 300 && /^[A-Z]\w+$/.test(name) && !NO_EXCEPTION.has(name)) {
    const body = { ...(toWire(fields) as object), __type: name, message };
    return { kind: "failed", status, code: name, message, body };
  }
  if (isCredentialsError(cause)) return { kind: "unsent", cause: noCredentials(origin, cause) };
  return isUnsent(cause) ? { kind: "unsent", cause: new Unreachable(origin, cause) } : { kind: "lost", cause };
}

const NO_EXCEPTION: ReadonlySet<string> = new Set(["Error", "SyntaxError", "TypeError", "Unknown", "UnknownError"]);

async function originOf({ config }: DynamoDBClient): Promise<string> {
  try {
    const own = await config.endpoint?.();
    if (own !== undefined) {
      return `${own.protocol}//${own.hostname}${own.port === undefined ? "" : `:${own.port}`}`;
    }
    const region = await config.region();
    return resolveEndpoint({ region, endpoint: undefined, useFips: false, useDualStack: false }).origin;
  } catch {
    return "the endpoint of the client";
  }
}

function isCredentialsError({ name }: Error): boolean {
  return name === "CredentialsProviderError";
}

/** True if it failed before or while connecting. With this client, anything else may have been sent. */
function isUnsent(cause: Error): boolean {
  if (cause instanceof AggregateError) return cause.errors.length > 0 && cause.errors.every(isUnsent);
  const { code = "", syscall = "" } = cause as { code?: string; syscall?: string };
  return (
    syscall === "connect" ||
    syscall === "getaddrinfo" ||
    /^(CERT_|ERR_TLS_|ERR_SSL_|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_)/.test(code)
  );
}

type Middleware = Parameters<DynamoDBClient["middlewareStack"]["add"]>[0];

function dateMiddleware({ stamp, onDate }: SdkClientOptions): Middleware {
  return ((next: (args: unknown) => Promise<{ response: unknown }>) => async (args: unknown) => {
    const sent = stamp?.();
    const result = await next(args);
    const { headers } = result.response as { headers?: Record<string, string> };
    if (headers?.date !== undefined) onDate?.({ dateMs: Date.parse(headers.date), sent });
    return result;
  }) as Middleware;
}

type Sdk = typeof import("@aws-sdk/client-dynamodb");

/** The common shape of all commands, which their types hide. */
interface AnyCommand {
  resolveMiddleware(
    stack: unknown,
    config: unknown,
    options: { abortSignal: AbortSignal },
  ): (command: AnyCommand) => Promise<{ output: object }>;
}

function commandOf(sdk: Sdk, operation: DynamoOperation, input: unknown): AnyCommand {
  const Command = sdk[`${operation}Command`] as unknown as new (input: unknown) => AnyCommand;
  return new Command(input);
}
