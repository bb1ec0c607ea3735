import { LimiterError, RateLimiterUnavailable } from "../../domain/names/errors.ts";
import type { DynamoAnswer, DynamoClient, TableAccess } from "./client.ts";
import { unavailable } from "./errors.ts";

/**
 * The retry policy of this adapter. Two things are decided elsewhere: each write of an acquire is sent once, and
 * `protocol/` decides whether to send it again. The bound of a whole call comes from its caller: `timeoutMs` for calls
 * of a request, and the adapter's `adminTimeoutMs` for the rest.
 */
export const RETRY = {
  /**
   * The pause before the next attempt of a read or of a record's write: from half of this up to this, doubled for each
   * failure.
   */
  pauseMs: 10,
  /** The pause doubles up to six times: 640 ms at most. */
  pauseDoublingsMax: 6,
  /** The maximum time of one attempt, so that a lost call can be repeated. */
  attemptMaxMs: 3_000,
  /** The first contact ends after this many consecutive calls that never reach the service, about half a second. */
  unsentMax: 7,
  /** A request is signed again once, after expired credentials or a wrong clock. */
  signaturesMax: 2,
  /** A change is decided anew this often if another process changed the record first. */
  changesMax: 50,
  /** A new item is pinned to its owner, which is read anew this often if it changed meanwhile. */
  ownersMax: 5,
  /** On a shared table: attempts to install limits on a bucket that the original changes meanwhile. */
  installsMax: 10,
  /** An index lags behind its table: a second pass finds what the first missed. */
  indexPasses: 2,
  /** The deletion of a namespace repeats passes until one finds nothing, but not for ever. */
  removalPassesMax: 20,
  /** The pause between two looks at a table that is being created or deleted. */
  tablePollMs: 200,
} as const;

/** A request that never reached the service: the address, the reason and a remedy. `code` is the cause's own. */
export class Unreachable extends Error {
  readonly code: string | undefined;

  constructor(endpoint: string, cause: unknown) {
    const code = codeOf(cause);
    super(`DynamoDB cannot be reached at ${endpoint} (${textOf(cause)}): ${explained(code)}.`, { cause });
    this.name = "Unreachable";
    this.code = code;
  }
}

/** The error of a connection attempt that timed out. */
export function noneInTime(what: string, timeoutMs: number): Error {
  return Object.assign(new Error(`no ${what} within ${timeoutMs} ms`), { code: TIMED_OUT });
}

/** True if an unsent attempt used up its time. */
function hadItsTime(cause: unknown): boolean {
  const code = codeOf(cause);
  return code !== undefined && WAITED.has(code);
}

/**
 * A client for the first calls of a process. A running limiter waits for the end of an outage; a caller that has just
 * named an endpoint, a profile or a host needs the error at once. Throws when a call that never reached the service is
 * hopeless, or after about half a second of failures.
 */
export function failingFast(client: DynamoClient): DynamoClient {
  let unsentInARow = 0;
  return {
    send: async (operation, body, call) => {
      const answer = await client.send(operation, body, call);
      if (answer.kind !== "unsent") {
        unsentInARow = 0;
        return answer;
      }
      unsentInARow++;
      const { cause } = answer;
      if (cause instanceof LimiterError) throw cause;
      // A connection attempt that timed out is not repeated.
      if (unsentInARow >= RETRY.unsentMax || hadItsTime(cause)) {
        throw new RateLimiterUnavailable(textOf(cause), { cause });
      }
      return answer;
    },
    close: () => client.close(),
  };
}

const TIMED_OUT = "ETIMEDOUT";

const WAITED: ReadonlySet<string> = new Set([TIMED_OUT, "UND_ERR_CONNECT_TIMEOUT"]);

function explained(code: string | undefined): string {
  switch (code) {
    case "ECONNREFUSED":
      return "nothing is listening there; start it, or correct `endpoint` (AWS_ENDPOINT_URL_DYNAMODB)";
    case "ENOTFOUND":
    case "EAI_AGAIN":
      return "the host name cannot be resolved; correct `endpoint` (AWS_ENDPOINT_URL_DYNAMODB) or the region";
    case TIMED_OUT:
    case "UND_ERR_CONNECT_TIMEOUT":
      return "no response in time; correct `endpoint` or the region, or check the network";
    case "EPROTO":
    case "ERR_SSL_WRONG_VERSION_NUMBER":
    case "ERR_SSL_PACKET_LENGTH_TOO_LONG":
      return "the server there does not use TLS; use `http://`";
    default:
      return "correct `endpoint` (AWS_ENDPOINT_URL_DYNAMODB) or the region, or check the network";
  }
}

function codeOf(cause: unknown): string | undefined {
  const { code } = (cause ?? {}) as { readonly code?: unknown };
  return typeof code === "string" ? code : undefined;
}

/** An attempt at several addresses fails with one error per address, and its own message is empty. */
function textOf(cause: unknown): string {
  if (cause instanceof AggregateError && cause.message === "") return cause.errors.map(textOf).join("; ");
  return cause instanceof Error ? cause.message : String(cause);
}

/**
 * The time until which a call is retried. It uses the clock and the time spent waiting, because a caller's clock may
 * stand still, and a call must end even then.
 */
export class Deadline {
  readonly #access: TableAccess;
  readonly #untilMs: number;
  /** The time left if the clock stands still. */
  #unspentMs: number;

  /** `timeoutMs`: the time for all attempts and pauses. */
  constructor(access: TableAccess, timeoutMs: number) {
    this.#access = access;
    this.#untilMs = access.clock.now() + timeoutMs;
    this.#unspentMs = timeoutMs;
  }

  /** The time for the next attempt, at least 1 ms. */
  get leftMs(): number {
    return Math.max(1, Math.min(this.#untilMs - this.#access.clock.now(), this.#unspentMs));
  }

  /** Notes the answer to an attempt that was given `timeoutMs`. */
  attempted(answer: DynamoAnswer, timeoutMs: number): void {
    // Only an attempt that used up its time can be answered later.
    const isUsedUp =
      (answer.kind === "lost" && answer.later !== undefined) || (answer.kind === "unsent" && hadItsTime(answer.cause));
    if (isUsedUp) this.#unspentMs -= timeoutMs;
  }

  /** Waits before the next attempt, longer after more failures in a row. Throws when no time is left. */
  async backOff(failures: number, what: string, cause: unknown): Promise<void> {
    const { tableName, clock, random } = this.#access;
    const mostMs = RETRY.pauseMs * 2 ** Math.min(failures, RETRY.pauseDoublingsMax);
    const waitMs = Math.ceil((0.5 + random() / 2) * mostMs);
    this.#unspentMs -= waitMs;
    if (this.#unspentMs <= 0 || clock.now() + waitMs >= this.#untilMs) throw unavailable(what, tableName, cause);
    await clock.sleep(waitMs, undefined);
  }
}
