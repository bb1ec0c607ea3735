import assert from "node:assert/strict";
import { test } from "node:test";
import { timeLeft } from "../../src/engine/acquire/plan.ts";
import { Limit, type OpenOptions, RateLimiter, RateLimiterUnavailable } from "../../src/entry/index.ts";
import { openMemory } from "../../src/entry/memory.ts";
import type { BucketStore } from "../../src/ports/bucket-store.ts";
import type { Store } from "../../src/ports/store.ts";
import { FaultStore, overriding } from "../../src/testing/fault-store.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";

// One acquire has one `timeoutMs` for the limits of all its levels and for the take; so have all attempts of one give-back.

const T0 = Date.UTC(2026, 2, 15, 12);
const TIMEOUT_MS = 1_000;
const asked = { entityId: "key-1", resource: "api", consume: { rpm: 1 } } as const;

/** What came of some work, and how long that took by a clock that goes on meanwhile. */
async function timed<Value>(clock: SimulatedClock, work: Promise<Value>) {
  const beganMs = clock.now();
  let tookMs: number | undefined;
  const ended = work.then(
    (value) => ({ value, error: undefined }),
    (error: unknown) => ({ value: undefined, error }),
  );
  void ended.then(() => {
    tookMs = clock.now() - beganMs;
  });
  for (let i = 0; i < 1_000 && tookMs === undefined; i++) await clock.advance(10);
  return { ...(await ended), tookMs };
}

/** Every level takes 600 ms to be read; there are three. */
async function openSlow(options: Pick<OpenOptions, "onUnavailable">) {
  const clock = new SimulatedClock(T0);
  const state = { isSlow: false };
  const store = new FaultStore(openMemory(), {
    generationHidden: true,
    pause: async (call, before) => {
      if (state.isSlow && call === "resolve" && before === "applying") await clock.sleep(600, undefined);
    },
  });
  const limiter = await RateLimiter.open({ store, clock, timeoutMs: TIMEOUT_MS, ...options });
  await limiter.setSystemDefaults([Limit.perMinute("rpm", 60)]);
  await limiter.createEntity({ id: "org" });
  await limiter.createEntity({ id: "team", parentId: "org", cascade: true });
  await limiter.createEntity({ id: "key-1", parentId: "team", cascade: true });
  state.isSlow = true;
  return { limiter, clock };
}

test("an acquire that has to read the limits of three levels keeps one timeoutMs for all of them", async () => {
  const { limiter, clock } = await openSlow({ onUnavailable: "block" });
  const { error, tookMs } = await timed(clock, limiter.acquire(asked));
  assert.ok(error instanceof RateLimiterUnavailable, String(error));
  assert.equal(tookMs, TIMEOUT_MS);
});

test("limits that are not read in time are an outage: onUnavailable lets through", async () => {
  const { limiter, clock } = await openSlow({ onUnavailable: "allow" });
  const { value: lease, tookMs } = await timed(clock, limiter.acquire(asked));
  assert.match(String(lease?.degraded), /not read within/);
  assert.equal(tookMs, TIMEOUT_MS);
});

test("what is read too late for one request is there for the next", async () => {
  const { limiter, clock } = await openSlow({ onUnavailable: "block" });
  await timed(clock, limiter.acquire(asked));
  await clock.advance(5_000);
  const { value: lease, tookMs } = await timed(clock, limiter.acquire(asked));
  assert.equal(lease?.degraded, false);
  assert.ok((tookMs as number) < TIMEOUT_MS, `it took ${tookMs} ms`);
});

test("all attempts of a give-back that the store refuses have one timeoutMs", async () => {
  const clock = new SimulatedClock(T0);
  const times: number[] = [];
  const inner = openMemory();
  const refusing = (buckets: BucketStore) =>
    overriding<BucketStore>(buckets, {
      credit: async (_, __, { timeoutMs }) => {
        times.push(timeoutMs);
        await clock.sleep(Math.min(400, timeoutMs), undefined);
        return { kind: "unavailable", applied: "no", cause: new Error("throttled") };
      },
    });
  const store = overriding<Store>(inner, {
    scope: (id) => {
      const scope = inner.scope(id);
      return { ...scope, buckets: refusing(scope.buckets) };
    },
  });
  const limiter = await RateLimiter.open({ store, clock, timeoutMs: TIMEOUT_MS });
  await limiter.setSystemDefaults([Limit.perMinute("rpm", 60)]);
  const lease = await limiter.acquire(asked);
  const { tookMs } = await timed(clock, lease.rollback());
  assert.deepEqual(times, [1_000, 600, 200]);
  assert.equal(tookMs, TIMEOUT_MS);
});

test("a clock that is put while a request is under way does not end its time", () => {
  const settings = { timeoutMs: TIMEOUT_MS };
  assert.equal(timeLeft(settings, 300), 700);
  assert.equal(timeLeft(settings, TIMEOUT_MS), 1);
  assert.equal(timeLeft(settings, 3_600_000), 500);
  assert.equal(timeLeft(settings, -3_600_000), 500);
});
