import { LimiterError, NotFoundError, RateLimiterUnavailable, VersionError } from "../../domain/names/errors.ts";
import { rolesWith } from "./rights.ts";
import { tlsFault } from "./tls.ts";

/**
 * What an error of the server or of the driver means to us.
 * - `rolledBack`: for the sake of another transaction, or for a lock that was not had in time; the same may be sent again.
 * - `notApplied`: the server cannot be reached or has no room; certainly nothing was done.
 * - `unknown`: the connection ended, or time was up, after sending; perhaps it was done.
 * - `standby`: this server only reads; another one is the primary now.
 * - `refused`: the user or the database is wrong. `rights`: a GRANT is missing. `missing`: the schema is not there, or older.
 * - `other`: asking again will not help; it is our mistake.
 */
type Fault = "rolledBack" | "notApplied" | "unknown" | "standby" | "refused" | "rights" | "missing" | "other";

/** By SQLSTATE, or by the code that the system or the driver gives. */
const FAULTS: Readonly<Record<string, Fault>> = {
  ...{ "40001": "rolledBack", "40P01": "rolledBack", "55P03": "rolledBack" },
  ...{ ECONNREFUSED: "notApplied", ENOTFOUND: "notApplied", EAI_AGAIN: "notApplied", EHOSTUNREACH: "notApplied" },
  ...{ ENETUNREACH: "notApplied", "53300": "notApplied", "57P03": "notApplied", "08001": "notApplied" },
  ...{ "08004": "notApplied", "57014": "notApplied", "53100": "notApplied", "53200": "notApplied" },
  ...{ "58030": "notApplied", "53400": "notApplied" },
  ...{ "57P01": "unknown", "57P02": "unknown", "08006": "unknown", "08003": "unknown", "40003": "unknown" },
  ...{ ECONNRESET: "unknown", EPIPE: "unknown", ETIMEDOUT: "unknown" },
  ...{ "25006": "standby", "57P04": "standby" },
  ...{ "28P01": "refused", "28000": "refused", "3D000": "refused" },
  "42501": "rights",
  ...{ "42883": "missing", "42P01": "missing", "3F000": "missing" },
};

/**
 * A disk or a memory that is full or broken. Where the server cannot live with it, it stops at once (PANIC), also in the middle of a commit
 * that may be on the disk by then. The word for that is in the language of the server: any but ERROR counts as such.
 */
const PERHAPS_STOPPED = /^(53[12]|58|XX)/;

/** Time was up before the server had answered. */
export class TimeIsUp extends Error {
  /** Whether the statement had been sent. */
  readonly isSent: boolean;

  constructor(timeoutMs: number, isSent: boolean) {
    super(
      isSent
        ? `The server did not answer within ${timeoutMs} ms.`
        : `No connection to the server could be had within ${timeoutMs} ms.`,
    );
    this.isSent = isSent;
  }
}

/** The connection could not be made: nothing can have been sent on it. */
export class NotConnected extends Error {}

export function faultOf(error: unknown): Fault {
  if (error instanceof TimeIsUp) return error.isSent ? "unknown" : "notApplied";
  if (error instanceof NotConnected) {
    const fault = faultOf(error.cause);
    return fault === "unknown" || fault === "other" ? "notApplied" : fault;
  }
  const code = codeOf(error);
  if (code === undefined) return isEndOfConnection(error) ? "unknown" : "other";
  if (PERHAPS_STOPPED.test(code) && !isPlainError(error)) return "unknown";
  return FAULTS[code] ?? (code.startsWith("08") ? "unknown" : "other");
}

/** Whether the connection that brought this error can be used again. */
export function leavesConnection(error: unknown): boolean {
  const code = codeOf(error);
  return code !== undefined && /^[0-9A-Z]{5}$/.test(code) && !/^(08|57P|25006)/.test(code) && isPlainError(error);
}

/** The narrow roles do not all have each right: who was granted one of them needs another. */
function rightsRemedy(roles: readonly string[]): string {
  const which =
    roles.length === 0 ? "" : `; of its roles, ${roles.join(" and ")} ${roles.length === 1 ? "has" : "have"} it`;
  return `Grant it as \`zae-limiter init --grants\` prints${which}.`;
}

/** An error for a caller: of the driver's own none gets out as it is, for its text may have parts of an address. */
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
        `The server of ${name} refuses this user (${why}). Check user, password, database and sslmode.`,
        options,
      );
    case "rights":
      return new LimiterError(
        "access_denied",
        `A right is missing on ${name} (${why}). ${rightsRemedy(rolesWith(why))}`,
        options,
      );
    case "missing":
      return isMissingTable(error)
        ? new NotFoundError(
            "store_not_found",
            `${name} has no tables of zae-limiter (${why}). Make them with \`zae-limiter init\`, or open the store without \`create: false\`.`,
            options,
          )
        : new VersionError(
            "schema_older",
            `The tables of ${name} are of an older version (${why}). Upgrade them with \`zae-limiter init\`.`,
            options,
          );
    case "other":
      return error instanceof Error && codeOf(error) === undefined
        ? error
        : new LimiterError(
            "store_refused",
            `The server of ${name} cannot do this (${why}); nothing was changed.`,
            options,
          );
    default:
      return new RateLimiterUnavailable(`The store ${name} does not respond: ${why}.`, options);
  }
}

/** Why, without anything of an address: of the system's errors only the code, of the server's its message. */
function reasonOf(error: unknown): string {
  if (error instanceof NotConnected && error.cause !== undefined) return reasonOf(error.cause);
  const code = codeOf(error);
  // The server names the user that it refuses.
  if (code !== undefined && (!/^[0-9A-Z]{5}$/.test(code) || /^(28|3D)/.test(code))) return code;
  // It stands in a sentence of ours.
  const message = (error instanceof Error ? error.message : String(error)).replace(/\.$/, "");
  return code === undefined ? message : `${code}: ${message}`;
}

function isMissingTable(error: unknown): boolean {
  const code = codeOf(error);
  return code === "42P01" || code === "3F000";
}

function isEndOfConnection(error: unknown): boolean {
  return (
    error instanceof Error && /connection (terminated|ended|closed|error)|not queryable|socket/i.test(error.message)
  );
}

/** One that ended a statement, not the connection. Clients that do not tell are taken at their code's word. */
function isPlainError(error: unknown): boolean {
  const { severity } = error as { readonly severity?: unknown };
  return severity === undefined || severity === "ERROR";
}

function codeOf(error: unknown): string | undefined {
  if (!(error instanceof Error) || !("code" in error)) return undefined;
  return typeof error.code === "string" ? error.code : undefined;
}
