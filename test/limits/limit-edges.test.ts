import assert from "node:assert/strict";
import { test } from "node:test";
import { Limit, RateLimiter, ValidationError } from "../../src/entry/index.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";

const HOUR_MS = 3_600_000;
const about = { entityId: "a", resource: "api" } as const;

async function openAt(instant: string, ...limits: Limit[]) {
  const clock = new SimulatedClock(Date.parse(instant));
  const limiter = await RateLimiter.open({ store: "memory", clock });
  await limiter.setResourceDefaults("api", limits);
  return { limiter, clock };
}

test("what a quota was topped up by can be spent in one request, and not a token more", async () => {
  const { limiter, clock } = await openAt(
    "2026-03-10T12:00:00Z",
    Limit.quota("q", 100, { reset: { cron: "0 0 * * *" } }),
  );
  const ask = (q: number) => limiter.tryAcquire({ ...about, consume: { q } });
  const never = { name: "ValidationError", code: "amount_above_capacity", message: /120 of "q".*capacity is 100/ };
  await assert.rejects(ask(120), never);
  await limiter.topUp({ ...about, amounts: { q: 50 } });
  assert.equal((await limiter.explain({ ...about, consume: { q: 151 } })).outcome, "never");
  await assert.rejects(ask(151), ValidationError);
  assert.equal((await ask(120)).ok, true);
  // 30 are left. What was taken may come back until midnight; then what was bought is over, and 120 never fit again.
  const refused = await ask(120);
  assert.ok(!refused.ok);
  assert.equal(refused.retryAfterMs, 12 * 3_600_000);
  assert.equal(await limiter.timeUntilAvailable({ ...about, consume: { q: 120 } }), 12 * 3_600_000);
  assert.equal((await ask(30)).ok, true);
  await clock.advance(refused.retryAfterMs);
  await assert.rejects(ask(120), never);
  assert.equal(await limiter.timeUntilAvailable({ ...about, consume: { q: 120 } }), Number.POSITIVE_INFINITY);
});

test("a parent's quota that was topped up grants more than its capacity, too", async () => {
  const { limiter } = await openAt("2026-03-10T12:00:00Z", Limit.quota("q", 100, { reset: { cron: "0 0 * * *" } }));
  await limiter.createEntity({ id: "team" });
  await limiter.createEntity({ id: "a", parentId: "team", cascade: true });
  await limiter.setLimits("a", [Limit.quota("q", 500, { reset: { cron: "0 0 * * *" } })]);
  await assert.rejects(limiter.acquire({ ...about, consume: { q: 120 } }), /parent team has a capacity of 100/);
  await limiter.topUp({ entityId: "team", resource: "api", amounts: { q: 20 } });
  assert.equal((await limiter.tryAcquire({ ...about, consume: { q: 120 } })).ok, true);
});

test("a bucket nobody has taken from is waited for until a window holds enough, not until it drips in", async () => {
  const schedule = [{ cron: "* 20 * * *", capacity: 900 }];
  const { limiter, clock } = await openAt("2026-03-10T18:00:00Z", Limit.perHour("h", 600, { schedule }));
  const ask = () => limiter.tryAcquire({ ...about, consume: { h: 750 } });
  const refused = await ask();
  assert.ok(!refused.ok);
  assert.equal(refused.retryAfterMs, 2 * HOUR_MS);
  await clock.advance(2 * HOUR_MS - 1);
  assert.equal((await ask()).ok, false);
  await clock.advance(1);
  assert.equal((await ask()).ok, true);
});

test("a bucket that was full before a larger window is not forgotten and full again at the larger capacity", async () => {
  const schedule = [{ cron: "* * 3 * *", capacity: 1_000 }];
  const { limiter, clock } = await openAt("2026-03-01T12:00:00Z", Limit.perDay("d", 100, { schedule }));
  await limiter.acquire({ ...about, consume: { d: 100 } });
  // Full since noon of the second. Others come and go, so that the store looks for buckets to forget.
  await clock.advance(35 * HOUR_MS);
  for (let i = 0; i < 600; i++) await limiter.acquire({ entityId: `v${i}`, resource: "api", consume: { d: 1 } });
  await clock.advance(1.5 * HOUR_MS);
  // Half past midnight: 100, and what dripped in since the window opened.
  assert.deepEqual(
    (await limiter.available(about)).map(({ available, capacity }) => [available, capacity]),
    [[102, 1_000]],
  );
});

test("a top-up and a raised quota together stay within what can be counted exactly", async () => {
  const most = 9_000_000_000_000;
  const reset = { cron: "0 0 1 * *" };
  const { limiter } = await openAt("2026-03-10T12:00:00Z", Limit.quota("q", 10, { reset }));
  await limiter.topUp({ ...about, amounts: { q: most - 10 } });
  await limiter.setResourceDefaults("api", [Limit.quota("q", most, { reset })]);
  assert.equal((await limiter.tryAcquire({ ...about, consume: { q: 1 } })).ok, true);
  const [held] = await limiter.available(about);
  assert.deepEqual([held?.available, held?.capacity], [most - 1, most]);
});
