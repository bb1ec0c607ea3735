import { ValidationError } from "../../domain/names/errors.ts";
import type { Acquirer } from "../acquire/acquirer.ts";
import type { GuardedDeps } from "../acquire/guarded-deps.ts";
import type { Administration } from "./administration.ts";
import type { NamedScope, Settings } from "./settings.ts";

/** The parts of a limiter, for other code of this package that gets one. */
export interface LimiterParts {
  readonly deps: GuardedDeps;
  readonly settings: Settings;
  readonly admin: Administration;
  readonly acquirer: Acquirer;
  /** Makes a `Limiter` on another namespace of the same store, with the caller's ports. Closing it leaves the store open. */
  on(name: string, scope: NamedScope): object;
}

// Not on the limiter itself: its members are the public interface.
const PARTS = new WeakMap<object, LimiterParts>();

export function exposeParts(limiter: object, parts: LimiterParts): void {
  PARTS.set(limiter, parts);
}

/** Undefined for an object that only behaves like a limiter, such as a client of the service. */
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
