import { LimiterClient } from "../../src/entry/client.ts";
import { RateLimitExceeded } from "../../src/entry/errors.ts";
import { Limit, RateLimiter } from "../../src/entry/index.ts";
import { createService } from "../../src/entry/server.ts";

// A worker on one machine, the limiter on another: a budget of 1,000 tokens a minute, calls that are estimated at 400 each.

const store = await RateLimiter.open({ store: "memory", clock: { now: () => Date.UTC(2026, 0, 1) } });
const service = await createService({ limiter: store });
const { url } = await service.listen({ port: 0 });

const limiter = new LimiterClient({ url, holdMs: 30_000, onExpiry: "refund" });
await limiter.setResourceDefaults("gpt-5", [Limit.perMinute("tpm", 1_000)]);

for (const tokens of [310, 520, 90]) {
  try {
    await limiter.withLease({ entityId: "worker-1", resource: "gpt-5", consume: { tpm: 400 } }, async (lease) => {
      // The call to the model would stand here, with { signal: lease.signal }.
      await lease.adjust({ tpm: tokens - 400 });
    });
    const [tpm] = await limiter.available({ entityId: "worker-1", resource: "gpt-5" });
    console.log(`A call of ${tokens} tokens; ${tpm?.available} are left.`);
  } catch (error) {
    if (!(error instanceof RateLimitExceeded)) throw error;
    console.log(`Refused: ${error.primary.available} are left, 400 fit in ${error.retryAfterSeconds} s.`);
  }
}

await limiter.close();
await service.close();
await store.close();
