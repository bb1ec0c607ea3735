import { ValidationError } from "../domain/names/errors.ts";
import { Limiter } from "../engine/limiter/limiter.ts";
import type { Store } from "../ports/store.ts";
import { prepare } from "./open.ts";
import type { RetentionOptions } from "./retention.ts";
import { type OpenOptions, shownStore } from "./store-kinds.ts";

// All that a limiter in memory needs, and nothing that knows of files or networks: for bundles that should be small.

export {
  ConflictError,
  ExistsError,
  HoldLost,
  LeaseClosed,
  LimiterError,
  NotFoundError,
  RateLimitExceeded,
  RateLimiterUnavailable,
  ResourceDisabled,
  ValidationError,
  VersionError,
} from "../domain/names/errors.ts";
export type * from "./index.ts";
export { Limit } from "./limits.ts";
export { openMemory } from "./open-memory.ts";

/** Options of `RateLimiter.open` of this entry point. Every one may be left out. */
export interface MemoryOptions
  extends RetentionOptions,
    Pick<
      OpenOptions,
      | "namespace"
      | "clock"
      | "configTtlMs"
      | "denyMemoryMs"
      | "coalesce"
      | "onUnavailable"
      | "timeoutMs"
      | "unknownEntities"
      | "unnamedLimits"
      | "strict"
    > {
  /** A store in memory that other limiters share, or a store of your own. Default: a new one. */
  readonly store?: "memory" | Store;
}

/**
 * The limiter of `zae-limiter`. A bundler takes in the memory store and no other.
 *
 * ```ts
 * import { Limit, RateLimiter } from "zae-limiter/memory";
 * const limiter = await RateLimiter.open();
 * await limiter.setSystemDefaults([Limit.perMinute("rpm", 60)]);
 * ```
 */
export class RateLimiter extends Limiter {
  private constructor(...parts: ConstructorParameters<typeof Limiter>) {
    super(...parts);
  }

  /** Opens a limiter on a store in memory, by default a new, empty one. */
  static async open(options: MemoryOptions = {}): Promise<RateLimiter> {
    const { store = "memory" } = options;
    if (typeof store === "string" && store !== "memory") {
      throw new ValidationError(
        "store_unknown",
        `zae-limiter/memory has no store ${shownStore(store)}; import RateLimiter from "zae-limiter" instead.`,
      );
    }
    const { deps, settings } = await prepare({ ...options, store }, []);
    return new RateLimiter(deps, settings, typeof options.store !== "object");
  }
}
