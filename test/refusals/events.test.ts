import assert from "node:assert/strict";
import { test } from "node:test";
import { CHANNELS, Limit, RateLimiter } from "../../src/entry/index.ts";
import { openMemory } from "../../src/entry/memory.ts";
import { FaultStore } from "../../src/testing/fault-store.ts";
import { gpt, openLimiter as open } from "../limiter/limiter-kit.ts";
import { heard } from "../limiter/listening.ts";

test("five requests that waited and were granted are no refusals, and say how long they waited", async (t) => {
  const { limiter, clock } = await open();
  const refused = heard(t, CHANNELS.refused);
  const acquired = heard(t, CHANNELS.acquired);
  await limiter.acquire({ ...gpt, consume: { rpm: 60 } });
  const waiting = [1, 2, 3, 4, 5].map(() => limiter.acquire({ ...gpt, consume: { rpm: 1 }, wait: { maxMs: 60_000 } }));
  await clock.advance(5_000);
  await Promise.all(waiting);
  assert.deepEqual(refused, []);
  assert.deepEqual(
    acquired.map((event) => event.waitedMs),
    [undefined, 1_000, 2_000, 3_000, 4_000, 5_000],
  );
});

test("a request that may wait and need not has no waitedMs", async (t) => {
  const { limiter } = await open();
  const acquired = heard(t, CHANNELS.acquired);
  await limiter.acquire({ ...gpt, consume: { rpm: 1 }, wait: { maxMs: 60_000 } });
  assert.equal(acquired.length, 1);
  assert.equal("waitedMs" in (acquired[0] ?? {}), false);
});

test("a request whose wait is over is refused once, at the head of the line and behind it", async (t) => {
  const { limiter, clock } = await open();
  const refused = heard(t, CHANNELS.refused);
  await limiter.acquire({ ...gpt, consume: { rpm: 60 } });
  const head = limiter.tryAcquire({ ...gpt, consume: { rpm: 30 }, wait: { maxMs: 2_500 }, requestId: "head" });
  await clock.advance(0);
  const behind = limiter.tryAcquire({ ...gpt, consume: { rpm: 1 }, wait: { maxMs: 500 }, requestId: "behind" });
  const atOnce = limiter.tryAcquire({ ...gpt, consume: { rpm: 1 }, wait: { maxMs: 0 }, requestId: "at once" });
  await clock.advance(2_500);
  assert.deepEqual(
    (await Promise.all([head, behind, atOnce])).map(({ ok }) => ok),
    [false, false, false],
  );
  assert.deepEqual(
    refused.map(({ requestId, primary }) => [requestId, primary.limit]),
    [
      ["at once", "rpm"],
      ["behind", "rpm"],
      ["head", "rpm"],
    ],
  );
});

test("a wait that is aborted, or cut off by closing, is no refusal", async (t) => {
  const { limiter, clock } = await open();
  const refused = heard(t, CHANNELS.refused);
  await limiter.acquire({ ...gpt, consume: { rpm: 60 } });
  const controller = new AbortController();
  const { signal } = controller;
  const aborted = limiter.acquire({ ...gpt, consume: { rpm: 30 }, wait: { maxMs: 60_000 }, signal });
  const closed = limiter.acquire({ ...gpt, consume: { rpm: 30 }, wait: { maxMs: 60_000 } });
  const ends = Promise.allSettled([aborted, closed]);
  await clock.advance(1_000);
  controller.abort();
  await clock.advance(0);
  await limiter.close();
  assert.deepEqual(
    (await ends).map((end) => end.status),
    ["rejected", "rejected"],
  );
  assert.deepEqual(refused, []);
});

test("a request that is aborted while the store is asked is no refusal", async (t) => {
  const refused = heard(t, CHANNELS.refused);
  const controller = new AbortController();
  let isAborting = false;
  const store = new FaultStore(openMemory(), {
    pause: async (call, before) => {
      if (isAborting && call === "take" && before === "answering") controller.abort();
    },
  });
  const limiter = await RateLimiter.open({ store, denyMemoryMs: 0 });
  await limiter.setResourceDefaults("gpt-4", [Limit.quota("rpm", 5, { resetAfterMs: 60_000 })]);
  await limiter.acquire({ ...gpt, consume: { rpm: 5 } });
  const { signal } = controller;
  isAborting = true;
  await assert.rejects(limiter.tryAcquire({ ...gpt, consume: { rpm: 1 }, signal }), { name: "AbortError" });
  assert.deepEqual(refused, []);
});
