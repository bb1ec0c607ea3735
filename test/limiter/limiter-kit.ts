import { Limit, type OpenOptions, RateLimiter } from "../../src/entry/index.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";

export const gpt = { entityId: "key-1", resource: "gpt-4" } as const;

/** A limiter in memory on a simulated clock, 60 requests and 6,000 tokens a minute for everybody on gpt-4. */
export async function openLimiter(options: Pick<OpenOptions, "denyMemoryMs"> = {}) {
  const clock = new SimulatedClock(1_800_000_000_000);
  const limiter = await RateLimiter.open({ ...options, store: "memory", clock });
  await limiter.setResourceDefaults("gpt-4", [Limit.perMinute("rpm", 60), Limit.perMinute("tpm", 6_000)]);
  return { limiter, clock };
}

/** What everybody on the chain of an entity holds, as `entity.limit`. */
export async function heldBy(limiter: RateLimiter, entityId: string): Promise<Record<string, number>> {
  const all = await limiter.available({ entityId, resource: "gpt-4" });
  return Object.fromEntries(all.map((one) => [`${one.entityId}.${one.limit}`, one.available]));
}
