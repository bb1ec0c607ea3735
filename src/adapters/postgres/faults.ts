import { LimiterError, NotFoundError, RateLimiterUnavailable, VersionError } from "../../domain/names/errors.ts";
import { rolesWith } from "./schema.ts";
import { tlsFault } from "./tls.ts";

/**
 * An error of the server or of the driver is one of these faults.
 * - `rolledBack`: for the sake of another transaction, or for a lock that was not had in time; the same may be sent again.
 * - `notApplied`: the server cannot be reached or has no room; certainly nothing was done.
 * - `unknown`: the connection ended, or time was up, after sending; perhaps it was done.
 * - `standby`: this server only reads; another one is the primary now.
 * - `refused`: the user or the database is wrong. `rights`: a GRANT is missing. `missing`: the schema is not there, or older.
 * - `other`: asking again will not help; it is our mistake.
 */
type Fault = "rolledBack" | "notApplied" | "unknown" | "standby" | "refused" | "rights" | "missing" | "other";

/** SQLSTATEs, and codes that the system or the driver gives. */
const CODES: Readonly<Record<Exclude<Fault, "other">, string>> = {
  rolledBack: "40001 40P01 55P03",
  notApplied:
    "ECONNREFUSED ENOTFOUND EAI_AGAIN EHOSTUNREACH ENETUNREACH 53300 57P03 08001 08004 57014 53100 53200 58030 53400",
  unknown: "57P01 57P02 08006 08003 40003 ECONNRESET EPIPE ETIMEDOUT",
  standby: "25006 57P04",
  refused: "28P01 28000 3D000",
  rights: "42501",
  missing: "42883 42P01 3F000",
};

const FAULTS = new Map(
  Object.entries(CODES).flatMap(([fault, codes]) => codes.split(" ").map((code) => [code, fault as Fault] as const)),
);

/**
 * A disk or a memory that is full or broken. Where the server cannot live with it, it stops at once (PANIC), also in the middle of a commit
 * that may be on the disk by then. The word for that is in the language of the server: any but ERROR counts as such.
 */
const PERHAPS_STOPPED = /^(53[12]|58|XX)/;

/** Time was up before the server had answered. */
export class TimeIsUp extends Error {
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
  return FAULTS.get(code) ?? (code.startsWith("08") ? "unknown" : "other");
}

/** True if the connection that brought this error can be used again. */
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
