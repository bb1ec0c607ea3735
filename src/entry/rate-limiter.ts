import { Limiter } from "../engine/limiter/limiter.ts";
import type { Store } from "../ports/store.ts";
import { openStore, prepare } from "./open.ts";
import { type OpenOptions, STORE_KINDS } from "./store-kinds.ts";

const KINDS = Object.values(STORE_KINDS);

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
    const { deps, settings } = await prepare(options, KINDS);
    return new RateLimiter(deps, settings, typeof options.store !== "object");
  }
}

/** The store that options name, without a limiter. */
export function openNamed(options: OpenOptions & { readonly store: string }): Promise<Store> {
  return openStore(options.store, options, KINDS);
}
