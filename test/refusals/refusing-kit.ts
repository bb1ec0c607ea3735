import assert from "node:assert/strict";
import { Limit, type RateLimiter } from "../../src/entry/index.ts";

export const T0 = Date.UTC(2026, 2, 15, 12);

/** Nobody gets more than one in a day. */
export const ONE_A_DAY = [Limit.quota("rpd", 1, { resetAfterMs: 86_400_000 })];

export async function refusedOnce(limiter: RateLimiter): Promise<void> {
  const outcome = await limiter.tryAcquire({ entityId: "key-1", resource: "api", consume: { rpd: 1 } });
  assert.equal(outcome.ok, false);
}

/** How many were refused, whoever reads it. */
export async function refusedOf(limiter: RateLimiter): Promise<number> {
  const [total] = await limiter.refusalTotals({ by: "entity", top: 1 });
  return total?.count ?? 0;
}
