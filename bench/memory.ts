import { RateLimiter as TokenBucketLimiter } from "limiter";
import { RateLimiterMemory } from "rate-limiter-flexible";
import { RateLimiter } from "../src/entry/index.ts";
import { type ExpressLimit, expressLimits } from "./express.ts";
import { type BenchOptions, type BenchTable, type Contender, compare } from "./measure.ts";
import { roomyLimit } from "./roomy.ts";

const KEYS = Array.from({ length: 100 }, (_, i) => `key-${i}`);
const keyOf = (i: number): string => KEYS[i % KEYS.length] as string;

/** The memory store, one and two limits, whole engine, against in-process limiters with as many limits. */
export async function benchMemory({ extent }: BenchOptions): Promise<BenchTable[]> {
  const rate = 1_000_000_000;
  const limiter = await RateLimiter.open({ store: "memory" });
  await limiter.setResourceDefaults("one", [roomyLimit("rpm")]);
  await limiter.setResourceDefaults("two", [roomyLimit("rpm"), roomyLimit("tpm")]);
  const points = { points: rate, duration: 60 };
  const requests = new RateLimiterMemory({ ...points, keyPrefix: "requests" });
  const tokens = new RateLimiterMemory({ ...points, keyPrefix: "tokens" });
  const buckets = new Map(
    KEYS.map((key) => [
      key,
      [
        new TokenBucketLimiter({ tokensPerInterval: rate, interval: "minute" }),
        new TokenBucketLimiter({ tokensPerInterval: rate, interval: "minute" }),
      ] as const,
    ]),
  );
  const express = extent === "all" ? await expressLimits() : undefined;
  const settings = { by: ["process CPU"], rounds: 9, extent } as const;
  const one = await compare(
    {
      name: "rate-limiter-flexible",
      owner: "peer",
      run: async (calls) => {
        for (let i = 0; i < calls; i++) await requests.consume(keyOf(i), 1);
      },
    },
    [
      {
        name: "ours",
        owner: "ours",
        run: async (calls) => {
          for (let i = 0; i < calls; i++) {
            await limiter.tryAcquire({ entityId: keyOf(i), resource: "one", consume: { rpm: 1 } });
          }
        },
      },
      {
        name: "ours, tryAcquireSync",
        owner: "ours",
        run: (calls) => {
          for (let i = 0; i < calls; i++) {
            limiter.tryAcquireSync({ entityId: keyOf(i), resource: "one", consume: { rpm: 1 } });
          }
        },
      },
      {
        name: "limiter",
        owner: "peer",
        run: async (calls) => {
          for (let i = 0; i < calls; i++) await buckets.get(keyOf(i))?.[0].removeTokens(1);
        },
      },
      ...middleware(express?.({ windowMs: 60_000, limit: rate })),
    ],
    settings,
  );
  const two = await compare(
    {
      name: "rate-limiter-flexible",
      owner: "peer",
      run: async (calls) => {
        for (let i = 0; i < calls; i++) {
          await requests.consume(keyOf(i), 1);
          await tokens.consume(keyOf(i), 500);
        }
      },
    },
    [
      {
        name: "ours",
        owner: "ours",
        run: async (calls) => {
          for (let i = 0; i < calls; i++) {
            await limiter.tryAcquire({ entityId: keyOf(i), resource: "two", consume: { rpm: 1, tpm: 500 } });
          }
        },
      },
      {
        name: "ours, tryAcquireSync",
        owner: "ours",
        run: (calls) => {
          for (let i = 0; i < calls; i++) {
            limiter.tryAcquireSync({ entityId: keyOf(i), resource: "two", consume: { rpm: 1, tpm: 500 } });
          }
        },
      },
      {
        name: "limiter",
        owner: "peer",
        run: async (calls) => {
          for (let i = 0; i < calls; i++) {
            const [first, second] = buckets.get(keyOf(i)) as readonly [TokenBucketLimiter, TokenBucketLimiter];
            await first.removeTokens(1);
            await second.removeTokens(500);
          }
        },
      },
      ...middleware(express?.({ windowMs: 60_000, limit: rate }), express?.({ windowMs: 3_600_000, limit: rate })),
    ],
    settings,
  );
  await limiter.close();
  return [
    { title: "memory, one limit", ...one },
    { title: "memory, two limits", ...two },
  ];
}

/** express-rate-limit counts requests, and no other amounts: two of its limits are two windows. */
function middleware(...limits: readonly (ExpressLimit | undefined)[]): Contender[] {
  const [first, second] = limits;
  if (first === undefined) return [];
  const run = async (calls: number): Promise<void> => {
    for (let i = 0; i < calls; i++) {
      await first(keyOf(i));
      await second?.(keyOf(i));
    }
  };
  return [{ name: "express-rate-limit", owner: "peer", run }];
}
