import { systemClock } from "../adapters/system/clock.ts";
import { ClientLimiter } from "../client/client.ts";
import type { ClientOptions } from "../client/options.ts";

export type { ClientOptions, ClientRequest } from "../client/options.ts";

/**
 * The limiter of a running service, over HTTP. It has the methods, the leases and the errors of a `RateLimiter`, and
 * needs `fetch` alone.
 *
 * ```ts
 * const limiter = new LimiterClient({ url: "https://limits.internal", token: process.env.ZAEL_TOKEN });
 * await limiter.withLease({ entityId: "key-1", resource: "gpt-5", consume: { rpm: 1 } }, async () => callModel());
 * ```
 */
export class LimiterClient extends ClientLimiter {
  /** Checks the options; nothing is sent. */
  constructor(options: ClientOptions) {
    super(options, systemClock);
  }
}
