import { ValidationError } from "../domain/names/errors.ts";
import { shown } from "../domain/names/names.ts";

/** The least serious level that is logged. */
export type LogLevel = "debug" | "info" | "warn" | "error";

const LEVELS: readonly LogLevel[] = ["debug", "info", "warn", "error"];

type Fields = Readonly<Record<string, unknown>>;

/** Structured logs: one JSON object a line. Entities are named at level `debug` only: their ids may be keys of customers. */
export interface Log {
  debug(message: string, fields: Fields): void;
  info(message: string, fields: Fields): void;
  warn(message: string, fields: Fields): void;
  error(message: string, fields: Fields): void;
}

interface LogOptions {
  readonly level: LogLevel;
  /** Receives one line, without its end. */
  readonly write: (line: string) => void;
  readonly now: () => number;
}

export function createLog({ level, write, now }: LogOptions): Log {
  const least = LEVELS.indexOf(level);
  const at = (own: LogLevel) => (message: string, fields: Fields) => {
    if (LEVELS.indexOf(own) < least) return;
    write(JSON.stringify({ timestamp: new Date(now()).toISOString(), level: own, message, ...fields }));
  };
  return { debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") };
}

export function checkLogLevel(level: string): LogLevel {
  const known = LEVELS.find((each) => each === level.toLowerCase());
  if (known !== undefined) return known;
  throw new ValidationError("log_level_invalid", `The log level is ${shown(level)}; give ${LEVELS.join(", ")}.`);
}

/** The parts of a fault for any log level. The message is left out, because it might name an entity. */
export function faultFields(cause: unknown): Fields {
  if (!(cause instanceof Error)) return { error: typeof cause };
  return { error: cause.name, ...("code" in cause ? { code: cause.code } : {}) };
}

/** All parts of a fault that cannot name an entity. */
export function wholeFault(cause: unknown): Fields {
  return { ...faultFields(cause), reason: cause instanceof Error ? cause.message : String(cause) };
}
