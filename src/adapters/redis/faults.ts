import { LimiterError, RateLimiterUnavailable, ValidationError } from "../../domain/names/errors.ts";

/**
 * An error of the server or of the client is one of these faults.
 * - `notApplied`: the server cannot be reached, is busy or has no room; certainly nothing was done.
 * - `unknown`: the connection ended, or time was up, after sending; perhaps it was done.
 * - `replica`: this server only reads; another one is the primary now.
 * - `refused`: the user or the password is wrong. `rights`: a rule of the ACL is missing, or a proxy does not let a command through.
 * - `foreign`: what is kept under our keys is not ours.
 * - `other`: asking again will not help; it is our mistake.
 */
type Fault = "notApplied" | "unknown" | "replica" | "refused" | "rights" | "foreign" | "other";

/** Codes of the system, and the words that errors of the server begin with. */
const CODES: Readonly<Record<Exclude<Fault, "other">, string>> = {
  notApplied:
    "ECONNREFUSED ENOTFOUND EAI_AGAIN EHOSTUNREACH ENETUNREACH ENOENT LOADING CLUSTERDOWN TRYAGAIN MASTERDOWN BUSY OOM MISCONF NOREPLICAS " +
    "MOVED ASK NOSCRIPT",
  unknown: "ECONNRESET EPIPE ETIMEDOUT UNKILLABLE",
  replica: "READONLY",
  refused: "WRONGPASS NOAUTH",
  rights: "NOPERM",
  foreign: "WRONGTYPE CROSSSLOT ZAROW",
};

const FAULTS = new Map(
  Object.entries(CODES).flatMap(([fault, codes]) => codes.split(" ").map((code) => [code, fault as Fault] as const)),
);

/** GLIDE, and what else is made of redis-rs, has words of its own for errors that servers begin with a code. */
const KINDS: Readonly<Record<string, string>> = {
  ...{ NoScriptError: "NOSCRIPT", PermissionDenied: "NOPERM", AuthenticationFailed: "WRONGPASS", ReadOnly: "READONLY" },
  ...{ BusyLoadingError: "LOADING", ClusterDown: "CLUSTERDOWN", TryAgain: "TRYAGAIN", MasterDown: "MASTERDOWN" },
  ...{ Moved: "MOVED", Ask: "ASK", CrossSlot: "CROSSSLOT", ResponseError: "ERR" },
};

/** Time was up before the server had answered. */
export class TimeIsUp extends Error {
  constructor(timeoutMs: number) {
    super(`The server did not answer within ${timeoutMs} ms.`);
  }
}

/** There is no connection: nothing can have been sent on it. */
export class NotConnected extends Error {}

/** What is kept under a key of ours is not what this store writes. */
export class ForeignValue extends Error {}

export function faultOf(error: unknown): Fault {
  if (error instanceof TimeIsUp) return "unknown";
  if (error instanceof ForeignValue) return "foreign";
  if (error instanceof NotConnected) {
    const fault = error.cause === undefined ? "other" : faultOf(error.cause);
    return fault === "unknown" || fault === "other" ? "notApplied" : fault;
  }
  const code = codeOf(error);
  const known = code === undefined ? undefined : FAULTS.get(code);
  if (known !== undefined) return known;
  if (isRightRefused(error)) return "rights";
  return isEndOfConnection(error) ? "unknown" : "other";
}

/** Whether what was sent was done, for whoever sent it; undefined where asking again will not help. */
export function appliedBy(error: unknown): "no" | "unknown" | undefined {
  switch (faultOf(error)) {
    case "notApplied":
    case "replica":
      return "no";
    case "unknown":
      return "unknown";
    default:
      return undefined;
  }
}

/** An error for a caller: of the client's own none gets out as it is, for its text may have parts of an address. */
export function thrownFor(error: unknown, name: string): unknown {
  if (error instanceof LimiterError) return error;
  const why = reasonOf(error);
  const options = { cause: new Error(why) };
  const insecure = tlsFault(error instanceof NotConnected ? error.cause : error);
  if (insecure !== undefined) {
    return new LimiterError("store_refused", `${name} cannot be reached safely: ${insecure}.`, options);
  }
  switch (faultOf(error)) {
    case "refused":
      return new LimiterError(
        "store_refused",
        `The server of ${name} refuses this user (${why}). Check user and password.`,
        options,
      );
    case "rights":
      return new LimiterError(
        "store_refused",
        `A right is missing on ${name} (${why}). The guide "Run on Redis" has the rules of the ACL that the store needs.`,
        options,
      );
    case "foreign":
      return new ValidationError(
        "store_invalid",
        `Keys of ${name} hold what zae-limiter has not written (${why}). Choose another prefix, such as ?prefix=limits.`,
        options,
      );
    case "replica":
      return new RateLimiterUnavailable(
        `The server of ${name} is a replica, which only reads; the address must lead to the primary.`,
        options,
      );
    case "other":
      return isReplyError(error)
        ? new LimiterError("store_refused", `The server of ${name} cannot do this (${why}).`, options)
        : error;
    default:
      return new RateLimiterUnavailable(`The store ${name} does not respond: ${why}.`, options);
  }
}

/** The server does not know the script: nothing of it ran. */
export function isUnknownScript(error: unknown): boolean {
  return codeOf(error) === "NOSCRIPT";
}

/** Why, without anything of an address: of the system's errors only the code, of the server's its message. */
export function reasonOf(error: unknown): string {
  if (error instanceof NotConnected && error.cause !== undefined) return reasonOf(error.cause);
  const code = codeOf(error);
  if (code !== undefined && ((/^(E|ERR_)[A-Z_]+$/.test(code) && code !== "ERR") || code === "WRONGPASS")) return code;
  if (error instanceof AggregateError && error.errors.length > 0) return reasonOf(error.errors[0]);
  // It stands in a sentence of ours.
  return (error instanceof Error ? error.message : String(error)).replace(/\.$/, "");
}

/** The fault in the TLS of a server, and the remedy; undefined: the error is about something else. */
function tlsFault(error: unknown): string | undefined {
  const code = codeOf(error) ?? "";
  if (code === "ERR_TLS_CERT_ALTNAME_INVALID" || code === "HOSTNAME_MISMATCH") {
    return `its certificate is for another host (${code}). Give the host that it is for`;
  }
  if (/^(DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_|CERT_|INVALID_CA|INVALID_PURPOSE)/.test(code)) {
    return `its certificate is not trusted (${code}). Name the file of its CA in NODE_EXTRA_CA_CERTS`;
  }
  if (code === "ERR_SSL_WRONG_VERSION_NUMBER" || code === "ERR_SSL_PACKET_LENGTH_TOO_LONG") {
    return `the server has no TLS on this port (${code}). Turn it on there, or give redis://`;
  }
  return undefined;
}

/** Servers before 7.0 and within scripts say it in words of their own, and so do proxies. */
function isRightRefused(error: unknown): boolean {
  return (
    error instanceof Error &&
    /can't run this command|no permissions? to|unknown (redis )?command|unsupported command|not allowed/i.test(
      error.message,
    )
  );
}

function isEndOfConnection(error: unknown): boolean {
  return (
    error instanceof Error &&
    /connection (is )?(terminated|ended|closed|error|lost)|socket|in recovery|max retries per request|client is closed|fetch failed|timed out/i.test(
      error.message,
    )
  );
}

function isReplyError(error: unknown): boolean {
  return error instanceof Error && (/^[A-Z]{2,} /.test(error.message) || kindOf(error) !== undefined);
}

/** The code of a system's error, or the first word of a server's. */
function codeOf(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined;
  if ("code" in error && typeof error.code === "string" && error.code !== "") return error.code;
  return kindOf(error) ?? /^(-?)([A-Z]{2,})\b/.exec(error.message)?.[2];
}

function kindOf({ message }: Error): string | undefined {
  const kind = /\bsignalled by the server: - (\w+): /.exec(message)?.[1];
  return kind === undefined ? undefined : KINDS[kind];
}
