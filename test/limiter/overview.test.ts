import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { Limit, RateLimiter } from "../../src/entry/index.ts";
import { openMemory } from "../../src/entry/memory.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { EVERY_STORE, type OpenedStore } from "./every-store.ts";

const HOUR_MS = 3_600_000;
/** A Tuesday at 12:30 UTC. */
const START_MS = Date.UTC(2026, 2, 10, 12, 30);

async function limiterOn(t: TestContext, open: (clock: SimulatedClock, t: TestContext) => OpenedStore) {
  const clock = new SimulatedClock(START_MS);
  const { store, options } = open(clock, t);
  const limiter = await RateLimiter.open({ store, clock, ...options, configTtlMs: 0, unnamedLimits: "allow" });
  t.after(() => limiter.close());
  const take = async (entityId: string, resource: string, consume: Readonly<Record<string, number>>) => {
    const outcome = await limiter.tryAcquire({ entityId, resource, consume });
    if (outcome.ok) await outcome.lease.settle();
    return outcome.ok;
  };
  return { limiter, clock, take };
}

for (const [name, open] of EVERY_STORE) {
  test(`${name}: an overview has what is refused, nearest to its end, in use, told and passed by shadows`, async (t) => {
    const { limiter, clock, take } = await limiterOn(t, open);
    await limiter.setSystemDefaults([
      Limit.perMinute("rpm", 2),
      Limit.quota("tokens", 1_000, { reset: "monthly", notifyAt: [50, 80] }),
      Limit.quota("usd", 1_000_000, { reset: "daily" }),
      Limit.perMinute("tight", 1, { shadow: true }),
      Limit.concurrent("parallel", 4, { holdMs: 600_000 }),
    ]);
    const lease = await limiter.acquire({ entityId: "ada", resource: "api", consume: { parallel: 3 } });
    assert.ok(await take("ada", "api", { rpm: 1, tokens: 850, usd: 100_000, tight: 1 }));
    assert.ok(await take("ada", "api", { rpm: 1, tight: 1 }));
    assert.ok(await take("bob", "api", { tokens: 290, tight: 1 }));
    assert.ok(await take("bob", "api", { tight: 1 }));
    for (let i = 0; i < 3; i++) assert.equal(await take("ada", "api", { rpm: 1 }), false);
    assert.equal(await take("bob", "api", { rpm: 5 }).catch(() => false), false);
    assert.equal(await take("bob", "api", { parallel: 4, rpm: 1 }), true);
    const seen = await limiter.overview();
    assert.equal(seen.atMs, START_MS);
    assert.equal(seen.hours.length, 24);
    assert.deepEqual(
      [seen.hours[0]?.windowStartMs, seen.hours[23]?.windowStartMs],
      [Date.UTC(2026, 2, 9, 13), Date.UTC(2026, 2, 10, 12)],
    );
    assert.deepEqual([seen.hours[22]?.refused, seen.hours[23]?.refused], [0, 3]);
    const by = { entityId: "ada", resource: "api", limit: "rpm", level: "ada", total: false };
    assert.deepEqual(seen.refusedMost, [{ ...by, count: 3 }]);
    assert.deepEqual(
      seen.nearest.map(({ entityId, limit, usedPercent }) => [entityId, limit, usedPercent]),
      [
        ["ada", "usd", 10],
        ["bob", "usd", 0],
        ["ada", "tokens", 85],
        ["bob", "tokens", 29],
      ],
    );
    assert.deepEqual(seen.nearest[2], {
      ...{ entityId: "ada", resource: "api", limit: "tokens", counts: "tokens", kind: "calendar" },
      ...{ available: 150, capacity: 1_000, usedPercent: 85, resetsAtMs: Date.UTC(2026, 3, 1) },
      // 850 in the 23.5 hours since the hour 23 hours ago: 150 last for less than five.
      usedUpAtMs: START_MS + Math.floor((150 * 23.5 * HOUR_MS) / 850),
    });
    // 290 of the month in that time: it lasts beyond the day, and not beyond the month.
    assert.equal(seen.nearest[3]?.usedUpAtMs, START_MS + Math.floor((710 * 23.5 * HOUR_MS) / 290));
    // Of the day's dollars a tenth is used after half of it: they last beyond midnight.
    assert.equal(seen.nearest[0]?.usedUpAtMs, undefined);
    assert.deepEqual(seen.slots, [
      { entityId: "ada", resource: "api", limit: "parallel", held: 3, capacity: 4 },
      { entityId: "bob", resource: "api", limit: "parallel", held: 0, capacity: 4 },
    ]);
    assert.deepEqual(seen.thresholds, [
      { entityId: "ada", resource: "api", limit: "tokens", percent: 80 },
      { entityId: "ada", resource: "api", limit: "tokens", percent: 50 },
    ]);
    assert.deepEqual(seen.shadows, [{ limit: "tight", wouldRefuse: 2, entities: 2 }]);
    assert.deepEqual(["degraded" in seen, "partial" in seen], [false, false]);
    await lease.settle();
    // Until it is worked out anew, the answer is the same.
    assert.equal((await limiter.overview()).slots[0]?.held, 3);
    await clock.advance(60_000);
    assert.equal((await limiter.overview()).slots[0]?.held, 0);
  });
}

test("the pace of a quota is told once an hour of its period has passed, and not where it lasts until the reset", async (t) => {
  const { limiter, clock, take } = await limiterOn(t, () => ({ store: openMemory(), options: {} }));
  await limiter.setLimits("ada", [
    Limit.quota("day", 100, { reset: "daily" }),
    Limit.quota("session", 100, { resetAfterMs: 5 * HOUR_MS }),
    Limit.perDay("usd", 1_000),
  ]);
  const ends = async () => {
    await clock.advance(10_000);
    const { nearest } = await limiter.overview();
    return Object.fromEntries(nearest.map(({ limit, usedUpAtMs }) => [limit, usedUpAtMs]));
  };
  // It is half past twelve: so long the day goes on.
  assert.ok(await take("ada", "api", { day: 60, session: 60, usd: 900 }));
  const first = await ends();
  assert.deepEqual([first.session, first.usd], [undefined, undefined]);
  const nowMs = clock.now();
  const sinceMs = nowMs - Date.UTC(2026, 2, 10);
  assert.equal(first.day, nowMs + Math.floor((40 * sinceMs) / 60));
  // The session's first hour began at 12:00.
  await clock.advance(40 * 60_000);
  const later = await ends();
  assert.equal(later.session, clock.now() + Math.floor((40 * (clock.now() - Date.UTC(2026, 2, 10, 12))) / 60));
  // Used up: now, whatever is owed.
  const lease = await limiter.acquire({ entityId: "ada", resource: "api", consume: { day: 40 } });
  await lease.adjust({ day: 15 });
  assert.equal((await ends()).day, clock.now());
  const { nearest } = await limiter.overview();
  assert.equal(nearest.find(({ limit }) => limit === "day")?.usedPercent, 115);
  // A day later the period is a new one.
  clock.set(Date.UTC(2026, 2, 11, 0, 30));
  assert.ok(await take("ada", "api", { day: 90 }));
  assert.equal((await ends()).day, undefined);
});

test("changed limits are shown as they are in force, without a request since", async (t) => {
  const { limiter, clock, take } = await limiterOn(t, () => ({ store: openMemory(), options: {} }));
  await limiter.setSystemDefaults([Limit.quota("month", 100, { reset: "monthly" })]);
  assert.ok(await take("ada", "api", { month: 50 }));
  assert.ok(await take("bob", "api", { month: 40 }));
  await limiter.setLimits("ada", [Limit.quota("month", 1_000, { reset: "monthly" })]);
  const percents = async () =>
    (await limiter.overview()).nearest.map(({ entityId, usedPercent }) => [entityId, usedPercent]);
  assert.deepEqual(await percents(), [
    ["bob", 40],
    ["ada", 5],
  ]);
  await limiter.deleteSystemDefaults();
  await clock.advance(9_999);
  assert.equal((await percents()).length, 2);
  await clock.advance(1);
  assert.deepEqual(await percents(), [["ada", 5]]);
});

test("of more than 2,000 buckets the first are looked at, and the answer says so", async (t) => {
  const { limiter, clock, take } = await limiterOn(t, () => ({ store: openMemory(), options: {} }));
  await limiter.setSystemDefaults([Limit.quota("month", 100, { reset: "monthly" })]);
  for (let i = 0; i < 2_000; i++) await take(`key-${String(i).padStart(4, "0")}`, "api", { month: 1 });
  assert.equal((await limiter.overview()).partial, undefined);
  await take("zoe", "api", { month: 99 });
  await clock.advance(10_000);
  const { partial, nearest } = await limiter.overview();
  assert.deepEqual(partial, ["nearest", "slots", "thresholds"]);
  assert.ok(nearest.length === 10 && nearest.every(({ entityId }) => entityId !== "zoe"));
});

test("without usage and counts of refusals the rest is answered", async (t) => {
  const clock = new SimulatedClock(START_MS);
  const store = openMemory({ usage: false });
  const limiter = await RateLimiter.open({ store, clock });
  t.after(() => limiter.close());
  await limiter.setSystemDefaults([Limit.quota("month", 100, { reset: "monthly" })]);
  await limiter.acquire({ entityId: "ada", resource: "api", consume: { month: 80 } });
  const { hours, nearest, shadows, refusedMost } = await limiter.overview();
  assert.deepEqual(hours[0], { windowStartMs: Date.UTC(2026, 2, 9, 13) });
  assert.deepEqual([nearest[0]?.usedPercent, nearest[0]?.usedUpAtMs, shadows, refusedMost], [80, undefined, [], []]);
});
