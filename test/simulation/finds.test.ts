import assert from "node:assert/strict";
import { test } from "node:test";
import { openMemory } from "../../src/adapters/memory/store.ts";
import { createCalendar } from "../../src/adapters/system/calendar.ts";
import { MEMORY_RETENTION } from "../../src/domain/config/retention.ts";
import { Limit, RateLimiter } from "../../src/entry/index.ts";
import { NO_TURNS, SimulatedClock } from "../../src/testing/simulated-clock.ts";

// What the simulation found, told once more as a story.

const MINUTE_MS = 60_000;
const on = { entityId: "user-1", resource: "api" };
const daily = (capacity: number) => Limit.quota("calls", capacity, { reset: { cron: "0 0 * * *" } });

async function open() {
  const clock = new SimulatedClock(Date.UTC(2026, 2, 15, 12, 50));
  const store = openMemory(createCalendar(), MEMORY_RETENTION, NO_TURNS);
  const limiter = await RateLimiter.open({ store, clock });
  const take = async (calls: number) => (await limiter.tryAcquire({ ...on, consume: { calls } })).ok;
  return { clock, store, limiter, take };
}

test("a quota that was spent, lowered, taken away and given again is not full again in the same period", async () => {
  const { limiter, take } = await open();
  await limiter.setLimits(on.entityId, [daily(10)]);
  assert.equal(await take(5), true);
  await limiter.setLimits(on.entityId, [daily(6)]);
  assert.equal(await take(2), false);
  assert.equal(await take(0), true);
  await limiter.setLimits(on.entityId, [Limit.perMinute("rpm", 1)]);
  assert.equal((await limiter.tryAcquire({ ...on, consume: { rpm: 0 } })).ok, true);
  await limiter.setLimits(on.entityId, [daily(10)]);
  assert.equal(await take(6), false);
  assert.equal(await take(5), true);
});

test("what was taken before another rule filled the quota is not given back when the first rule returns", async () => {
  const { clock, limiter, take } = await open();
  await limiter.setLimits(on.entityId, [daily(10)]);
  const before = await limiter.acquire({ ...on, consume: { calls: 10 } });
  await limiter.setLimits(on.entityId, [Limit.quota("calls", 10, { reset: { cron: "*/15 * * * *" } })]);
  assert.equal(await take(0), true);
  await clock.advance(20 * MINUTE_MS);
  assert.equal(await take(10), true);
  await limiter.setLimits(on.entityId, [daily(10)]);
  assert.equal(await take(0), true);
  await before.rollback();
  assert.equal(await take(1), false);
});

test("a wait beyond the last date there is, beside a calendar quota, is told and not thrown", async () => {
  const { limiter } = await open();
  const tokens = 9_000_000_000_000;
  const slow = Limit.perSecond("slow", 1, { burst: tokens });
  await limiter.setLimits(on.entityId, [slow, daily(tokens)]);
  const consume = { slow: tokens, calls: tokens };
  await limiter.acquire({ ...on, consume });
  const refused = await limiter.tryAcquire({ ...on, consume });
  assert.ok(!refused.ok && refused.retryAfterMs > 8e15);
});

test("a request that takes nothing is told that its resource was disabled by another process", async () => {
  const { clock, store, limiter } = await open();
  await limiter.setLimits(on.entityId, [daily(10)]);
  assert.equal((await limiter.tryAcquire({ ...on, consume: { calls: 0 } })).ok, true);
  const other = await RateLimiter.open({ store, clock });
  await other.setAccess({ resource: on.resource }, "disabled");
  await assert.rejects(limiter.tryAcquire({ ...on, consume: { calls: 0 } }), { code: "resource_disabled" });
});

test("nobody is told that a soft limit can never hold the amount when it was another's newer limit that refused", async () => {
  const { clock, store, limiter } = await open();
  const reset = { cron: "0 0 * * *" };
  await limiter.setLimits(on.entityId, [Limit.quota("calls", 12, { reset, soft: true })]);
  assert.equal((await limiter.tryAcquire({ ...on, consume: { calls: 1 } })).ok, true);
  await clock.advance(1_000);
  const other = await RateLimiter.open({ store, clock });
  const limits = [Limit.quota("calls", 2, { resetAfterMs: MINUTE_MS })];
  assert.equal((await other.tryAcquire({ ...on, limits, consume: { calls: 2 } })).ok, false, "1 of 2 was used");
  assert.equal((await other.tryAcquire({ ...on, limits, consume: { calls: 1 } })).ok, true);
  assert.equal((await limiter.tryAcquire({ ...on, consume: { calls: 22 } })).ok, false);
});
