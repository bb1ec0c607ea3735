import { ValidationError } from "../domain/names/errors.ts";
import { shown } from "../domain/names/names.ts";

/** Throws unless what is to be limited is a function. */
export function checkWrapped(handler: unknown): void {
  if (typeof handler === "function") return;
  throw new ValidationError(
    "handler_invalid",
    `The first argument of rateLimit is ${shown(handler)}; give the function that answers requests, and the options after it.`,
  );
}
