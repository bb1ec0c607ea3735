import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { Limit, RateLimiter } from "../../src/entry/index.ts";
import { overriding } from "../../src/testing/fault-store.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { openOn, tempFile } from "./temp-store.ts";

const T0 = Date.UTC(2026, 5, 1);

const ask = { entityId: "user-7", resource: "gpt-4", consume: { parallel: 1 } };
const wait = { maxMs: 30_000 };

/** Two limiters on one file, each with a connection of its own, as two processes have them; and one slot. */
async function two(t: TestContext) {
  const file = tempFile(t);
  const clock = new SimulatedClock(T0);
  const [one, other] = [openOn(t, file), openOn(t, file)];
  const here = await RateLimiter.open({ store: one.store, clock });
  const there = await RateLimiter.open({ store: other.store, clock });
  await here.setResourceDefaults("gpt-4", [Limit.concurrent("parallel", 1), Limit.perMinute("rpm", 60)]);
  return { clock, here, there, connection: one.connection };
}

test("a slot that another process gives back wakes who waits for it on SQLite within 20 ms", async (t) => {
  const { clock, here, there } = await two(t);
  const held = await there.acquire(ask);
  const waiting = here.acquire({ ...ask, wait });
  let servedMs: number | undefined;
  void waiting.then(() => {
    servedMs = clock.now() - T0;
  });
  // Past the first times that it asks again by itself: the next one is most of a second away.
  await clock.advance(5_000);
  await held.settle();
  await clock.advance(20);
  assert.ok(servedMs !== undefined && servedMs <= 5_020, `served at ${servedMs}`);
  await (await waiting).settle();
  assert.equal(clock.nextWakeMs, undefined, "nobody waits, and nothing is looked at");
});

test("a slot that comes back between the answer of the store and the sleep is not missed", async (t) => {
  const file = tempFile(t);
  const clock = new SimulatedClock(T0);
  const there = await RateLimiter.open({ store: openOn(t, file).store, clock });
  await there.setResourceDefaults("gpt-4", [Limit.concurrent("parallel", 1)]);
  const held = await there.acquire(ask);
  const { store } = openOn(t, file);
  const scope = (namespaceId: string) => {
    const scoped = store.scope(namespaceId);
    const take: typeof scoped.buckets.take = async (...args) => {
      const reply = await scoped.buckets.take(...args);
      await held.settle();
      return reply;
    };
    return { ...scoped, buckets: overriding(scoped.buckets, { take }) };
  };
  const here = await RateLimiter.open({ store: { ...store, scope }, clock });
  let isServed = false;
  const waiting = here.acquire({ ...ask, wait }).finally(() => {
    isServed = true;
  });
  await clock.advance(20);
  assert.ok(isServed);
  await (await waiting).settle();
});

test("writes of other processes that free no slot do not make who waits ask", async (t) => {
  const { clock, here, there, connection } = await two(t);
  await there.acquire(ask);
  const refused = here.tryAcquire({ ...ask, wait: { maxMs: 10_000 } });
  await clock.advance(1_000);
  const before = connection.commits;
  for (let written = 0; written < 100; written++) {
    await there.acquire({ ...ask, entityId: "somebody", consume: { rpm: 0 } });
    await clock.advance(10);
  }
  const asked = connection.commits - before;
  assert.ok(asked <= 2, `it asked ${asked} times in a second`);
  await clock.advance(10_000);
  assert.equal((await refused).ok, false);
});

test("who waits for a rate alone looks at nothing before its time", async (t) => {
  const { clock, here } = await two(t);
  await here.acquire({ ...ask, consume: { rpm: 60 } });
  const waiting = here.acquire({ ...ask, consume: { rpm: 2 }, wait });
  await clock.advance(0);
  assert.equal(clock.nextWakeMs, T0 + 2_000);
  await clock.advance(2_000);
  await (await waiting).settle();
});

test("of several that wait for a slot, the first that came is woken, and the others stay asleep", async (t) => {
  const { clock, here, there, connection } = await two(t);
  const held = await there.acquire(ask);
  const served: number[] = [];
  for (const place of [1, 2, 3]) {
    void here.acquire({ ...ask, wait }).then(
      () => served.push(place),
      () => {},
    );
    await clock.advance(0);
  }
  await clock.advance(1_000);
  const before = connection.commits;
  await held.settle();
  await clock.advance(100);
  assert.deepEqual(served, [1]);
  assert.ok(connection.commits - before <= 2, "the first, and the one that is the first now");
  await here.close();
});

test("looking does not keep a process alive: only the wait itself does", async (t) => {
  const file = tempFile(t);
  const kept: string[] = [];
  const base = new SimulatedClock(T0);
  const clock = {
    now: () => base.now(),
    sleep: (ms: number, signal: AbortSignal | undefined) => {
      kept.push("alive");
      return base.sleep(ms, signal);
    },
    sleepInBackground: (ms: number, signal: AbortSignal | undefined) => {
      kept.push("background");
      return base.sleep(ms, signal);
    },
  };
  const limiter = await RateLimiter.open({ store: openOn(t, file).store, clock });
  await limiter.setResourceDefaults("gpt-4", [Limit.concurrent("parallel", 1)]);
  await limiter.acquire(ask);
  const waiting = limiter.tryAcquire({ ...ask, wait: { maxMs: 150 } });
  await base.advance(150);
  assert.equal((await waiting).ok, false);
  assert.equal(kept.filter((how) => how === "alive").length, 1);
  assert.ok(kept.filter((how) => how === "background").length >= 7);
});
