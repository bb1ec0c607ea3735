import { ValidationError } from "../../domain/names/errors.ts";
import type { Acquirer } from "../acquire/acquirer.ts";
import type { Administration } from "./administration.ts";
import type { NamedScope } from "./deferred-scope.ts";
import type { EngineDeps, Settings } from "./settings.ts";

/** What a limiter is made of, for other parts of this package that are given one. */
export interface LimiterParts {
  readonly deps: EngineDeps;
  readonly settings: Settings;
  readonly admin: Administration;
  readonly acquirer: Acquirer;
  /** A `Limiter` on another namespace of the same store, by ports that the caller has. Closing it leaves the store open. */
  readonly on: (name: string, scope: NamedScope) => object;
}

// Not on the limiter itself: its members are the public interface.
const PARTS = new WeakMap<object, LimiterParts>();

export function exposeParts(limiter: object, parts: LimiterParts): void {
  PARTS.set(limiter, parts);
}

/** Undefined for what only behaves like a limiter of this package, such as a client of the service. */
export function partsIfLimiter(limiter: object): LimiterParts | undefined {
  return typeof limiter === "object" && limiter !== null ? PARTS.get(limiter) : undefined;
}

export function partsOf(limiter: object): LimiterParts {
  const parts = partsIfLimiter(limiter);
  if (parts !== undefined) return parts;
  throw new ValidationError(
    "limiter_invalid",
    "The first argument is not a limiter of this package; pass the result of RateLimiter.open.",
  );
}
