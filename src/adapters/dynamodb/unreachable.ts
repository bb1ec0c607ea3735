import { LimiterError, RateLimiterUnavailable } from "../../domain/names/errors.ts";
import type { DynamoClient } from "./client.ts";
import { RETRY } from "./retry-policy.ts";

/** Why a request never got as far as the service, with the address and what to do. `code` is the cause's own. */
export class Unreachable extends Error {
  readonly code: string | undefined;

  constructor(endpoint: string, cause: unknown) {
    const code = codeOf(cause);
    super(`DynamoDB cannot be reached at ${endpoint} (${textOf(cause)}): ${explained(code)}.`, { cause });
    this.name = "Unreachable";
    this.code = code;
  }
}

/** The error that a timer of ours ends a connection attempt with. */
export function noneInTime(what: string, timeoutMs: number): Error {
  return Object.assign(new Error(`no ${what} within ${timeoutMs} ms`), { code: TIMED_OUT });
}

/** Whether an attempt that was not sent has used up all the time it was given. */
export function hadItsTime(cause: unknown): boolean {
  const code = codeOf(cause);
  return code !== undefined && WAITED.has(code);
}

/**
 * A client for the first calls of a process. A running limiter sits an outage out; who has just named an endpoint, a profile
 * or a host wants to hear at once that nothing is there. Throws what a call that never reached the service ended with, when
 * asking again is hopeless or has been in vain for about half a second.
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
      // A connection attempt that has had its time is not made a second time.
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

/** An attempt at several addresses fails with one error for each, and a message of its own that is empty. */
function textOf(cause: unknown): string {
  if (cause instanceof AggregateError && cause.message === "") return cause.errors.map(textOf).join("; ");
  return cause instanceof Error ? cause.message : String(cause);
}
