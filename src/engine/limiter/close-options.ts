import { ValidationError } from "../../domain/names/errors.ts";
import { KnownNames } from "../../domain/names/known-names.ts";
import { shown } from "../../domain/names/names.ts";

/** Options of `close`. */
export interface CloseOptions {
  /** How long to wait for open `withLease` functions, in ms. Default: 0. */
  readonly drainMs?: number;
}

const CLOSE_OPTIONS = new KnownNames<CloseOptions>({ drainMs: true });

/** How long bodies are waited for, checked. */
export function drainOf(options: CloseOptions): number {
  const { drainMs = 0 } = CLOSE_OPTIONS.check(options, "The options of close");
  if (typeof drainMs === "number" && drainMs >= 0) return drainMs;
  throw new ValidationError("option_invalid", `drainMs is ${shown(drainMs)}; give milliseconds, 0 or more.`);
}
