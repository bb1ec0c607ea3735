import { RateLimiter } from "../src/entry/index.ts";

// One busy process of the two: takes for so many ms with so many callers, then tells how often and how slow at worst.
const [store, callers, ms] = process.argv.slice(2) as [string, string, string];
const limiter = await RateLimiter.open({ store, timeoutMs: 30_000 });
const until = performance.now() + Number(ms);
const times: number[] = [];
await Promise.all(
  Array.from({ length: Number(callers) }, async (_, caller) => {
    for (let i = caller; performance.now() < until; i++) {
      const start = performance.now();
      await limiter.tryAcquire({ entityId: `key-${i % 100}`, resource: "two", consume: { rpm: 1, tpm: 500 } });
      times.push(performance.now() - start);
    }
  }),
);
await limiter.close();
times.sort((a, b) => a - b);
process.send?.({ calls: times.length, p99Ms: times[Math.floor(times.length * 0.99)] ?? 0 });
process.disconnect?.();
