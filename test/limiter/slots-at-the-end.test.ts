import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { setImmediate } from "node:timers/promises";
import { Limit, RateLimiter } from "../../src/entry/index.ts";
import { openMemory } from "../../src/entry/memory.ts";
import type { Store } from "../../src/ports/store.ts";
import { FaultStore, overriding } from "../../src/testing/fault-store.ts";
import { SeededRandom } from "../../src/testing/random.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { withBuckets } from "./slot-judge.ts";

// Slots that are given back while something else happens to their lease.

const T0 = Date.UTC(2026, 2, 15, 12);
const ask = { entityId: "key-1", resource: "gpt-4" } as const;

async function open(t: TestContext, limits: readonly Limit[], wrap: (store: Store) => Store) {
  const clock = new SimulatedClock(T0);
  const limiter = await RateLimiter.open({ store: wrap(openMemory()), clock });
  t.after(() => limiter.close());
  await limiter.setResourceDefaults("gpt-4", limits);
  return { limiter, clock };
}

const free = async (limiter: RateLimiter) => (await limiter.available(ask))[0]?.available;

test("slots that are released while one renewal is under way and another waits go back", async (t) => {
  const gates: (() => void)[] = [];
  const gate = () => new Promise<void>((resolve) => gates.push(resolve));
  const held = (store: Store) =>
    withBuckets(store, (buckets) =>
      overriding(buckets, {
        renew: async (...args) => {
          await gate();
          return buckets.renew(...args);
        },
        credit: async (...args) => {
          await gate();
          return buckets.credit(...args);
        },
      }),
    );
  const { limiter, clock } = await open(t, [Limit.concurrent("parallel", 1, { holdMs: 60_000 })], held);
  const lease = await limiter.acquire({ ...ask, consume: { parallel: 1 } });
  await clock.advance(20_000);
  const all = [lease.renew(), lease.release({ parallel: 1 }), lease.renew()];
  await clock.advance(20_000);
  // One after the other, as they were asked for.
  for (let turns = 0; turns < 10; turns++) {
    gates.shift()?.();
    await setImmediate();
  }
  await Promise.all(all);
  assert.equal(await free(limiter), 1);
});

test("slots that a debit takes when a lease is settled go back with the others", async (t) => {
  const faults: FaultStore[] = [];
  const faulty = (store: Store) => {
    faults.push(new FaultStore(store, { random: new SeededRandom(1), rates: {} }));
    return faults[0] as FaultStore;
  };
  const { limiter, clock } = await open(t, [Limit.perMinute("parallel", 10)], faulty);
  const lease = await limiter.acquire({ ...ask, consume: { parallel: 1 } });
  await limiter.setResourceDefaults("gpt-4", [Limit.concurrent("parallel", 3, { holdMs: 60_000 })]);
  await (await limiter.acquire({ ...ask, consume: { parallel: 1 } })).settle();
  // The lease knows it as a rate still; what it is charged is not stored before its end.
  for (let attempts = 0; attempts < 3; attempts++) faults[0]?.failNext("debit", "refused");
  const adjusted = lease.adjust({ parallel: 2 });
  await clock.advance(60_000);
  await adjusted;
  await lease.settle();
  assert.equal(await free(limiter), 3);
});

test("slots that a debit takes which is answered after its lease was settled go back, too", async (t) => {
  const gates: (() => void)[] = [];
  const held = (store: Store) =>
    withBuckets(store, (buckets) =>
      overriding(buckets, {
        debit: async (...args) => {
          await new Promise<void>((resolve) => gates.push(resolve));
          return buckets.debit(...args);
        },
      }),
    );
  const { limiter } = await open(t, [Limit.perMinute("parallel", 10)], held);
  const lease = await limiter.acquire({ ...ask, consume: { parallel: 1 } });
  const other = await limiter.acquire({ ...ask, consume: { parallel: 1 } });
  await limiter.setResourceDefaults("gpt-4", [Limit.concurrent("parallel", 5, { holdMs: 60_000 })]);
  await limiter.acquire({ ...ask, consume: { parallel: 1 } });
  // Both know it as a rate still. One is settled while its adjustment is under way, the other by it.
  const all = [lease.adjust({ parallel: 2 }), lease.settle(), other.settle({ parallel: 2 })];
  await setImmediate();
  assert.equal(gates.length, 2);
  for (const open of gates) open();
  await Promise.all(all);
  assert.equal(await free(limiter), 4);
});
