import assert from "node:assert/strict";
import { test } from "node:test";
import { Limit, RateLimiter } from "../../src/entry/index.ts";
import { openMemory } from "../../src/entry/memory.ts";
import { FaultStore } from "../../src/testing/fault-store.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { EVERY_STORE } from "./every-store.ts";

const T0 = Date.UTC(2026, 5, 15, 10);
const MINUTE_MS = 60_000;
const on = { entityId: "a", resource: "gpt" };

// Stories of what is charged and given back without a lease that drawn worlds have found.

for (const [name, openStore] of EVERY_STORE) {
  const open = async (t: Parameters<typeof openStore>[1]) => {
    const clock = new SimulatedClock(T0);
    const { store, options } = openStore(clock, t);
    const limiterOn = async (configTtlMs: number) => {
      const limiter = await RateLimiter.open({ store, clock, ...options, configTtlMs });
      t.after(() => limiter.close());
      return limiter;
    };
    return { clock, store, limiterOn };
  };

  test(`${name}: limits that came and went since the last request count from their own instants, also if a give-back meets them`, async (t) => {
    const { clock, limiterOn } = await open(t);
    const limiter = await limiterOn(0);
    await limiter.setLimits("a", [Limit.perMinute("tpm", 30, { burst: 90 }), Limit.perDay("rpd", 2_000)]);
    await limiter.charge({ ...on, amounts: { tpm: 9, rpd: 1_000 } });
    await clock.advance(MINUTE_MS);
    const untilMs = clock.now() + 60 * MINUTE_MS;
    await limiter.setLimits("a", [Limit.perMinute("tpm", 60), Limit.perDay("rpd", 2_000)], { untilMs });
    await clock.advance(100 * MINUTE_MS);
    // It writes in another hour, and there is something to give back to another limit.
    assert.deepEqual((await limiter.giveBack({ ...on, amounts: { rpd: 10 } })).amounts, { rpd: 10 });
    const [tpm] = await limiter.available(on);
    assert.deepEqual([tpm?.limit, tpm?.available], ["tpm", 90], "60 at the end, and 30 a minute for 40 minutes");
  });

  test(`${name}: usage has exactly what was given back, also a part of a token`, async (t) => {
    const { clock, limiterOn } = await open(t);
    const limiter = await limiterOn(0);
    await limiter.setLimits("a", [Limit.perMinute("tpm", 60)]);
    await limiter.charge({ ...on, amounts: { tpm: 10 } });
    await clock.advance(250);
    assert.deepEqual((await limiter.giveBack({ ...on, amounts: { tpm: 10 } })).amounts, { tpm: 9 });
    const counters = [];
    for await (const row of limiter.usage({ window: "hourly" })) counters.push(row.counters.tpm);
    assert.deepEqual(counters, [0.25]);
  });
}

for (const name of ["memory", "SQLite"]) {
  test(`${name}: a total that another limiter has set is charged at once`, async (t) => {
    const [, openStore] = EVERY_STORE.find(([one]) => one === name) as (typeof EVERY_STORE)[number];
    const clock = new SimulatedClock(T0);
    const { store } = openStore(clock, t);
    const [one, other] = await Promise.all(
      [1, 2].map(() => RateLimiter.open({ store, clock, configTtlMs: MINUTE_MS })),
    );
    t.after(() => Promise.all([one, other].map((limiter) => limiter?.close())));
    await one?.setLimits("a", [Limit.perMinute("tpm", 60)]);
    await other?.charge({ ...on, amounts: { tpm: 1 } });
    await one?.setTotals("a", [Limit.quota("month", 100, { counts: "tpm", reset: "monthly" })]);
    await other?.charge({ ...on, amounts: { tpm: 5 } });
    const [total] = (await one?.available({ entityId: "a", resource: "*" })) ?? [];
    assert.equal(total?.available, 95);
  });
}

for (const fault of ["refused", "lostBefore", "lostAfter"] as const) {
  test(`a charge under a key is made once, also if storing its answer fails at first (${fault})`, async (t) => {
    const clock = new SimulatedClock(T0);
    const store = new FaultStore(openMemory(), {});
    const limiter = await RateLimiter.open({ store, clock });
    t.after(() => limiter.close());
    await limiter.setLimits("a", [Limit.perDay("tpm", 100)]);
    const request = { ...on, amounts: { tpm: 5 }, idempotencyKey: "order-7" };
    store.failNext("lease", fault);
    assert.equal((await limiter.charge(request)).repeated, false);
    assert.deepEqual(await limiter.charge(request), { ...on, amounts: { tpm: 5 }, repeated: true });
    assert.equal((await limiter.available(on))[0]?.available, 95);
  });
}
