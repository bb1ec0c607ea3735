import assert from "node:assert/strict";
import diagnostics from "node:diagnostics_channel";
import { test } from "node:test";
import { gpt, openLimiter as open } from "../../../test/limiter/limiter-kit.ts";
import { CHANNELS, Limit, RateLimiter } from "../../entry/index.ts";
import { openMemory } from "../../entry/memory.ts";
import { SimulatedClock } from "../../testing/simulated-clock.ts";

test("who waits is served in order: a small request does not overtake a large one", async () => {
  const { limiter, clock } = await open();
  await limiter.acquire({ ...gpt, consume: { rpm: 60 } });
  const served: string[] = [];
  const large = limiter
    .acquire({ ...gpt, consume: { rpm: 10 }, wait: { maxMs: 60_000 } })
    .then(() => served.push("large"));
  await clock.advance(0);
  const small = limiter
    .acquire({ ...gpt, consume: { rpm: 1 }, wait: { maxMs: 60_000 } })
    .then(() => served.push("small"));
  await clock.advance(9_999);
  assert.deepEqual(served, []);
  await clock.advance(1);
  assert.deepEqual(served, ["large"]);
  await clock.advance(1_000);
  assert.deepEqual(served, ["large", "small"]);
  await Promise.all([large, small]);
});

test("a waiter is let in as soon as somebody in the process gives back", async () => {
  const { limiter, clock } = await open();
  const lease = await limiter.acquire({ ...gpt, consume: { rpm: 60 } });
  const waiting = limiter.acquire({ ...gpt, consume: { rpm: 60 }, wait: { maxMs: 1_000 } });
  await clock.advance(10);
  await lease.rollback();
  await clock.advance(0);
  assert.deepEqual((await waiting).consumed, { rpm: 60 });
});

test("waiting ends with a refusal when the time is up, at the head of the queue and behind it", async () => {
  const { limiter, clock } = await open();
  await limiter.acquire({ ...gpt, consume: { rpm: 60 } });
  const head = limiter.tryAcquire({ ...gpt, consume: { rpm: 30 }, wait: { maxMs: 2_000 } });
  await clock.advance(0);
  const behind = limiter.tryAcquire({ ...gpt, consume: { rpm: 1 }, wait: { maxMs: 500 } });
  await clock.advance(500);
  const second = await behind;
  assert.ok(!second.ok);
  assert.equal(second.primary.limit, "rpm");
  await clock.advance(1_500);
  const first = await head;
  assert.ok(!first.ok);
  assert.equal(first.retryAfterMs, 28_000);
});

test("who waited for a resource that another process switched off meanwhile is told so, not refused", async () => {
  const clock = new SimulatedClock(1_800_000_000_000);
  const store = openMemory();
  const [limiter, other] = [await RateLimiter.open({ store, clock }), await RateLimiter.open({ store, clock })];
  await limiter.setResourceDefaults("gpt-4", [Limit.perMinute("rpm", 60)]);
  await limiter.acquire({ ...gpt, consume: { rpm: 60 } });
  const ends = [2_000, 500].map((maxMs) =>
    assert.rejects(limiter.tryAcquire({ ...gpt, consume: { rpm: 30 }, wait: { maxMs } }), {
      code: "resource_disabled",
    }),
  );
  await clock.advance(0);
  await other.setAccess(gpt, "disabled");
  // The second one's turn never comes.
  await clock.advance(500);
  await ends[1];
  await clock.advance(1_500);
  await ends[0];
});

test("an aborted waiter leaves the queue and lets the next one in", async () => {
  const { limiter, clock } = await open();
  await limiter.acquire({ ...gpt, consume: { rpm: 60 } });
  const controller = new AbortController();
  const first = limiter.acquire({ ...gpt, consume: { rpm: 60 }, wait: { maxMs: 90_000 }, signal: controller.signal });
  await clock.advance(0);
  const second = limiter.acquire({ ...gpt, consume: { rpm: 1 }, wait: { maxMs: 90_000 } });
  controller.abort();
  await assert.rejects(first, { name: "AbortError" });
  await clock.advance(1_000);
  assert.deepEqual((await second).consumed, { rpm: 1 });
});

test("a refused caller who hammers is answered from memory, and let in the moment it was told", async () => {
  const { limiter, clock } = await open({ denyMemoryMs: 1_000 });
  const remembered: boolean[] = [];
  const listen = (event: unknown) => remembered.push((event as { remembered: boolean }).remembered);
  diagnostics.subscribe(CHANNELS.refused, listen);
  try {
    await limiter.acquire({ ...gpt, consume: { rpm: 60 } });
    for (let i = 0; i < 3; i++) assert.equal((await limiter.tryAcquire({ ...gpt, consume: { rpm: 1 } })).ok, false);
    assert.deepEqual(remembered, [false, true, true]);
    await clock.advance(1_000);
    assert.equal((await limiter.tryAcquire({ ...gpt, consume: { rpm: 1 } })).ok, true);
  } finally {
    diagnostics.unsubscribe(CHANNELS.refused, listen);
  }
});

test("what is given back in this process is not hidden by the memory of a refusal", async () => {
  const { limiter } = await open({ denyMemoryMs: 1_000 });
  const lease = await limiter.acquire({ ...gpt, consume: { rpm: 60 } });
  assert.equal((await limiter.tryAcquire({ ...gpt, consume: { rpm: 1 } })).ok, false);
  await lease.release({ rpm: 5 });
  assert.equal((await limiter.tryAcquire({ ...gpt, consume: { rpm: 5 } })).ok, true);
});

test("raised limits count at once, also for a caller whose refusal is remembered", async () => {
  const { limiter, clock } = await open({ denyMemoryMs: 1_000 });
  await limiter.acquire({ ...gpt, consume: { rpm: 60 } });
  assert.equal((await limiter.tryAcquire({ ...gpt, consume: { rpm: 1 } })).ok, false);
  await limiter.setResourceDefaults("gpt-4", [Limit.perSecond("rpm", 100)]);
  await clock.advance(10);
  assert.equal((await limiter.tryAcquire({ ...gpt, consume: { rpm: 1 } })).ok, false, "the balance is kept");
  await clock.advance(10);
  assert.equal((await limiter.tryAcquire({ ...gpt, consume: { rpm: 1 } })).ok, true, "and refills at the new rate");
});
