import { Limiter } from "../engine/limiter.ts";
import { type OpenOptions, prepare } from "./open.ts";

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
  /** Opens the store, by default the SQLite file `.zae-limiter/limiter.db`, and a limiter on one of its namespaces. */
  static async open(options: OpenOptions = {}): Promise<RateLimiter> {
    const { deps, settings } = await prepare(options);
    return new RateLimiter(deps, settings, typeof options.store !== "object");
  }
}
