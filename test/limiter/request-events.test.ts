import assert from "node:assert/strict";
import { test } from "node:test";
import { CHANNELS, Limit, RateLimiter, ValidationError } from "../../src/entry/index.ts";
import { openMemory } from "../../src/entry/memory.ts";
import { FaultStore } from "../../src/testing/fault-store.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { tempFile } from "../sqlite/temp-store.ts";
import { gpt, openLimiter } from "./limiter-kit.ts";
import { heard } from "./listening.ts";

const at = { namespace: "default", ...gpt };

test("each request ends once, with its result and how long it took", async (t) => {
  const { limiter, clock } = await openLimiter();
  t.after(() => limiter.close());
  const ended = heard(t, CHANNELS.acquireEnded);
  await limiter.acquire({ ...gpt, consume: { rpm: 59 }, requestId: "first" });
  const waiting = limiter.tryAcquire({ ...gpt, consume: { rpm: 3 }, wait: { maxMs: 60_000 } });
  await clock.advance(2_000);
  assert.equal((await waiting).ok, true);
  limiter.tryAcquireSync({ ...gpt, consume: { rpm: 1 } });
  await limiter.withLease({ ...gpt, consume: { tpm: 1 } }, () => {});
  assert.deepEqual(ended, [
    { ...at, requestId: "first", result: "acquired", durationMs: 0, store: "memory" },
    { ...at, result: "acquired", durationMs: 2_000, store: "memory" },
    { ...at, result: "refused", durationMs: 0, store: "memory" },
    { ...at, result: "acquired", durationMs: 0, store: "memory" },
  ]);
});

test("without a clock of the caller a request takes fractions of a millisecond, on memory and on SQLite", async (t) => {
  const ended = heard(t, CHANNELS.acquireEnded);
  for (const store of ["memory", `sqlite:${tempFile(t)}`]) {
    await using limiter = await RateLimiter.open({ store });
    await limiter.setSystemDefaults([Limit.perMinute("rpm", 60)]);
    for (let i = 0; i < 5; i++) await limiter.acquire({ ...gpt, consume: { rpm: 1 } });
    const told = ended.splice(0);
    assert.deepEqual([...new Set(told.map((event) => event.store))], [store]);
    assert.ok(told.every(({ durationMs }) => durationMs > 0));
    assert.ok(told.some(({ durationMs }) => !Number.isInteger(durationMs)));
  }
});

test("a resource that is switched off is told, with the scope at which it was", async (t) => {
  const { limiter } = await openLimiter();
  t.after(() => limiter.close());
  await limiter.setAccess({ resource: "gpt-4" }, "disabled");
  const disabled = heard(t, CHANNELS.disabled);
  const ended = heard(t, CHANNELS.acquireEnded);
  const error = await limiter.acquire({ ...gpt, consume: { rpm: 1 }, requestId: "r1" }).catch((thrown) => thrown);
  assert.deepEqual(disabled, [{ ...at, requestId: "r1", level: error.level }]);
  assert.deepEqual(ended, [{ ...at, requestId: "r1", result: "disabled", durationMs: 0, store: "memory", error }]);
});

test("an outage that blocks is told with its error; one that lets through is a lease", async (t) => {
  const clock = new SimulatedClock(1_800_000_000_000);
  const store = new FaultStore(openMemory(), {});
  const blocking = await RateLimiter.open({ store, clock });
  await blocking.setSystemDefaults([Limit.perMinute("rpm", 60)]);
  const allowing = await RateLimiter.open({ store, clock, onUnavailable: "allow" });
  t.after(() => blocking.close());
  const ended = heard(t, CHANNELS.acquireEnded);
  const opened = heard(t, CHANNELS.leaseOpened);
  const closed = heard(t, CHANNELS.leaseEnded);
  await blocking.available(gpt);
  await allowing.available(gpt);
  store.failNext("take", "refused");
  const error = await blocking.acquire({ ...gpt, consume: { rpm: 1 } }).catch((thrown) => thrown);
  store.failNext("take", "refused");
  const lease = await allowing.acquire({ ...gpt, consume: { rpm: 1 } });
  assert.notEqual(lease.degraded, false);
  assert.deepEqual(
    ended.map((event) => [event.result, event.error]),
    [
      ["unavailable", error],
      ["acquired", undefined],
    ],
  );
  await lease.settle();
  assert.deepEqual(opened, [{ ...at, lease }]);
  assert.deepEqual(closed, [{ ...at, lease, status: "settled", heldMs: 0 }]);
});

test("a wait begins and ends, whether it was granted, refused, aborted or cut off by closing", async (t) => {
  const { limiter, clock } = await openLimiter();
  const began = heard(t, CHANNELS.waitBegan);
  const over = heard(t, CHANNELS.waitEnded);
  const ended = heard(t, CHANNELS.acquireEnded);
  await limiter.acquire({ ...gpt, consume: { rpm: 60 }, wait: { maxMs: 60_000 } });
  assert.deepEqual(began, []);
  const granted = limiter.tryAcquire({ ...gpt, consume: { rpm: 1 }, wait: { maxMs: 60_000 }, requestId: "granted" });
  await clock.advance(1_000);
  assert.equal((await granted).ok, true);
  const refused = limiter.tryAcquire({ ...gpt, consume: { rpm: 9 }, wait: { maxMs: 500 }, requestId: "refused" });
  await clock.advance(500);
  assert.equal((await refused).ok, false);
  const controller = new AbortController();
  const { signal } = controller;
  const wait = { maxMs: 60_000 };
  const aborted = limiter.tryAcquire({ ...gpt, consume: { rpm: 9 }, wait, signal, requestId: "aborted" });
  await clock.advance(100);
  controller.abort();
  await assert.rejects(aborted, { name: "AbortError" });
  const cutOff = limiter.tryAcquire({ ...gpt, consume: { rpm: 9 }, wait, requestId: "cut off" });
  await clock.advance(200);
  await Promise.all([assert.rejects(cutOff, { code: "closed" }), limiter.close()]);
  const ids = ["granted", "refused", "aborted", "cut off"];
  assert.deepEqual(
    began.map(({ requestId }) => requestId),
    ids,
  );
  assert.deepEqual(
    over.map(({ requestId, waitedMs }) => [requestId, waitedMs]),
    [
      ["granted", 1_000],
      ["refused", 500],
      ["aborted", 100],
      ["cut off", 200],
    ],
  );
  assert.deepEqual(
    ended.map(({ result }) => result),
    ["acquired", "acquired", "refused", "canceled"],
  );
});

test("a lease is opened once and ended once, however often it is closed", async (t) => {
  const { limiter, clock } = await openLimiter();
  t.after(() => limiter.close());
  const opened = heard(t, CHANNELS.leaseOpened);
  const ended = heard(t, CHANNELS.leaseEnded);
  const kept = await limiter.acquire({ ...gpt, consume: { rpm: 1 } });
  const given = await limiter.acquire({ ...gpt, consume: { rpm: 1 } });
  const settled = await limiter.acquire({ ...gpt, consume: { tpm: 5 } });
  await clock.advance(1_500);
  await kept.settle();
  await kept.settle();
  await given.rollback();
  await given.settle();
  await settled.settle({ tpm: 9 });
  await settled.settle({ tpm: 9 });
  await assert.rejects(
    limiter.withLease({ ...gpt, consume: { rpm: 1 } }, () => Promise.reject(new Error("the work failed"))),
    /the work failed/,
  );
  assert.deepEqual(
    opened.slice(0, 3).map((event) => event.lease === kept || event.lease === given || event.lease === settled),
    [true, true, true],
  );
  assert.deepEqual(
    ended.map(({ lease, status, heldMs }) => [opened.findIndex((event) => event.lease === lease), status, heldMs]),
    [
      [0, "settled", 1_500],
      [1, "rolledBack", 1_500],
      [2, "settled", 1_500],
      [3, "rolledBack", 0],
    ],
  );
});

test("what is not valid is not told: nothing of it can be trusted to be a name", async (t) => {
  const { limiter } = await openLimiter();
  t.after(() => limiter.close());
  const ended = heard(t, CHANNELS.acquireEnded);
  for (const request of [undefined, {}, { ...gpt, consume: { rpn: 1 } }, { ...gpt, consume: { rpm: 61 } }]) {
    await assert.rejects(limiter.acquire(request as never), ValidationError);
    assert.throws(() => limiter.tryAcquireSync(request as never), ValidationError);
  }
  assert.deepEqual(ended, []);
});
