import type { TestContext } from "node:test";
import { LimiterClient } from "../../src/entry/client.ts";
import { Limit, RateLimiter } from "../../src/entry/index.ts";
import { createService } from "../../src/entry/server.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";

const LIMITS = [Limit.perMinute("rpm", 2), Limit.perMinute("tpm", 1_000)];

/** A service in this process with two limits on every resource, and a client of it. */
export async function served(t: TestContext) {
  const clock = new SimulatedClock(1_800_000_000_000);
  const store = await RateLimiter.open({ store: "memory", clock });
  await store.setSystemDefaults(LIMITS);
  const service = await createService({ limiter: store });
  const { url } = await service.listen({ port: 0 });
  const limiter = new LimiterClient({ url });
  t.after(async () => {
    await limiter.close();
    await service.close();
    await store.close();
  });
  const left = async (resource: string) =>
    Object.fromEntries(
      (await store.available({ entityId: "key-1", resource })).map((one) => [one.limit, one.available]),
    );
  return { url, limiter, left };
}
