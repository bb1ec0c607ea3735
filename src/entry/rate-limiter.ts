import { Limiter } from "../engine/limiter.ts";
import { type OpenOptions, prepare, type StoreLoaders } from "./open.ts";

export const LOADERS: StoreLoaders = {
  sqlite: () => import("../adapters/sqlite/store.ts"),
  dynamodb: () => import("./dynamodb.ts"),
  postgres: () => import("./postgres.ts"),
};

/**
 * A rate limiter that never over-admits.
 *
 * ```ts
 * const limiter = await RateLimiter.open();
 * await limiter.setResourceDefaults("gpt-4", [Limit.perMinute("rpm", 100)]);
 * await limiter.withLease({ entityId: "key-1", resource: "gpt-4", consume: { rpm: 1 } }, async () => callModel());
 * await limiter.close();
 * ```
 */
export class RateLimiter extends Limiter {
  private constructor(...parts: ConstructorParameters<typeof Limiter>) {
    super(...parts);
  }

  /** Opens the store and a limiter on one of its namespaces. */
  static async open(options: OpenOptions = {}): Promise<RateLimiter> {
    const { deps, settings } = await prepare(options, LOADERS);
    return new RateLimiter(deps, settings, typeof options.store !== "object");
  }
}
