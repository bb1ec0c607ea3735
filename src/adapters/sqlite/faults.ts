import { LimiterError, RateLimiterUnavailable, ValidationError, VersionError } from "../../domain/names/errors.ts";

/**
 * An error of SQLite is one of three faults. `busy`: another process is writing, wait a little. `broken`: the disk is full or
 * failing, transient but not cured by waiting a millisecond. `other`: asking again will not help.
 */
type Fault = "busy" | "broken" | "other";

const PERM = 3;
const BUSY = 5;
const LOCKED = 6;
const READONLY = 8;
const IOERR = 10;
const CORRUPT = 11;
const FULL = 13;
const CANTOPEN = 14;
/** Lost the race for the write-ahead log's locks too often in a row: contention, like BUSY. */
const PROTOCOL = 15;
const AUTH = 23;
const NOTADB = 26;

export function faultOf(error: unknown): Fault {
  switch (primaryCode(error)) {
    case BUSY:
    case LOCKED:
    case PROTOCOL:
      return "busy";
    case IOERR:
    case FULL:
      return "broken";
    default:
      return "other";
  }
}

/** True for errors of SQLite itself: then the transaction is lost, not just the call that met it. */
export function isSqliteError(error: unknown): boolean {
  return primaryCode(error) !== undefined;
}

/** The driver does not hand out a row with a number that JavaScript has not. */
function isOutOfRange(error: unknown): boolean {
  return error instanceof RangeError && (error as { code?: unknown }).code === "ERR_OUT_OF_RANGE";
}

/** An error for a caller that cannot be answered with a value: of SQLite's own none gets out. */
export function thrownFor(error: unknown, file: string): unknown {
  if (isOutOfRange(error)) {
    return new VersionError(
      "item_unreadable",
      `A number in the limiter's file ${file} is beyond 2^53 (${messageOf(error)}): it is damaged, or another program wrote it. ` +
        "Correct or delete the row.",
      { cause: error },
    );
  }
  if (!isSqliteError(error)) return error;
  if (faultOf(error) !== "other") {
    return new RateLimiterUnavailable(
      `The limiter's file ${file} does not respond: ${messageOf(error)}. Try again, or check for a full disk or a stuck process.`,
      { cause: error },
    );
  }
  switch (primaryCode(error)) {
    case READONLY:
    case PERM:
    case AUTH:
      return new LimiterError(
        "store_read_only",
        `This process may not write to the limiter's file ${file} (${messageOf(error)}); nothing was changed. ` +
          "Give it write permission on the file and its folder, or name another file.",
        { cause: error },
      );
    case NOTADB:
    case CORRUPT:
      return damaged(error, file);
    case CANTOPEN:
      return unopened(error, file);
    default:
      return new LimiterError(
        "store_refused",
        `SQLite cannot do this on the limiter's file ${file} (${messageOf(error)}); nothing was changed. ` +
          "If another program has changed the file, move it away to start a new one.",
        { cause: error },
      );
  }
}

/** An error met while opening a file: nearly always the file is not what it should be. */
export function openingError(error: unknown, file: string): unknown {
  if (isFileError(error)) return unopened(error, file);
  const thrown = thrownFor(error, file);
  const isRefused =
    thrown instanceof LimiterError && (thrown.code === "store_read_only" || thrown.code === "store_refused");
  return isRefused ? unopened(error, file) : thrown;
}

function damaged(error: unknown, file: string): ValidationError {
  return new ValidationError(
    "store_invalid",
    `${file} is not a SQLite database, or is damaged (${messageOf(error)}). ` +
      "Name another file, or move this one away to start a new one.",
    { cause: error },
  );
}

function unopened(error: unknown, file: string): ValidationError {
  return new ValidationError(
    "store_invalid",
    `${file} cannot be opened as the limiter's file (${messageOf(error)}). ` +
      "Name a file in a folder that this process may write to.",
    { cause: error },
  );
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

// `errcode` is SQLite's extended result code; its low byte is the primary one.
function primaryCode(error: unknown): number | undefined {
  if (!(error instanceof Error) || !("errcode" in error)) return undefined;
  return typeof error.errcode === "number" ? error.errcode & 0xff : undefined;
}

function isFileError(error: unknown): boolean {
  return error instanceof Error && "syscall" in error;
}
