import assert from "node:assert/strict";
import { describe, type TestContext, test } from "node:test";
import { CHANNELS, Limit, RateLimiter } from "../../src/entry/index.ts";
import { openMemory } from "../../src/entry/memory.ts";
import type { BucketStore } from "../../src/ports/bucket-store.ts";
import type { Store } from "../../src/ports/store.ts";
import { FaultStore, overriding } from "../../src/testing/fault-store.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { EVERY_STORE } from "./every-store.ts";
import { gpt, openLimiter } from "./limiter-kit.ts";
import { heard } from "./listening.ts";

const T0 = Date.UTC(2026, 2, 15, 12);
const key = { entityId: "key-1", resource: "gpt-4" } as const;
const limits = [Limit.perMinute("rpm", 60), Limit.perMinute("tpm", 6_000)];

for (const [name, openStore] of EVERY_STORE) {
  describe(`leases on ${name}`, () => {
    /** A key below a project; `calls` names every call to a bucket. */
    async function open(t: TestContext) {
      const clock = new SimulatedClock(T0);
      const { store, options } = openStore(clock, t);
      const { counted, calls } = counting(store);
      const limiter = await RateLimiter.open({ store: counted, clock, ...options });
      await limiter.setResourceDefaults("gpt-4", limits);
      await limiter.createEntity({ id: "proj-1" });
      await limiter.createEntity({ id: "key-1", parentId: "proj-1", cascade: true });
      await limiter.setLimits("proj-1", [Limit.perMinute("tpm", 9_000)]);
      return { limiter, clock, calls };
    }

    test("a lease says what remains, at every level, and that costs no further call", async (t) => {
      const { limiter, calls } = await open(t);
      const lease = await limiter.acquire({ ...key, consume: { tpm: 500 } });
      const asked = calls.length;
      assert.deepEqual(lease.remaining, [
        { ...key, limit: "rpm", counts: "rpm", available: 60, capacity: 60 },
        { ...key, limit: "tpm", counts: "tpm", available: 5_500, capacity: 6_000 },
        { entityId: "proj-1", resource: "gpt-4", limit: "tpm", counts: "tpm", available: 8_500, capacity: 9_000 },
      ]);
      assert.equal(calls.length, asked, "looking at it asks nobody");
      assert.deepEqual(await limiter.available(key), lease.remaining);
      await limiter.acquire({ ...key, consume: { tpm: 100 } });
      assert.deepEqual(
        calls.filter((call) => call.startsWith("take")),
        ["take", "take"],
        "one call a request",
      );
    });

    test("what remains is what the take left, whatever others take before it is looked at", async (t) => {
      const { limiter, clock } = await open(t);
      const alone = { entityId: "alone", resource: "gpt-4" } as const;
      const leases = [];
      for (let i = 0; i < 3; i++) {
        leases.push(await limiter.acquire({ ...alone, consume: { rpm: 1, tpm: 100 } }));
        await clock.advance(500);
      }
      await clock.advance(30_000);
      await leases[0]?.adjust({ tpm: 50 });
      assert.deepEqual(
        leases.map(({ remaining }) => remaining.map(({ available }) => available)),
        [
          [59, 5_900],
          [58, 5_850],
          [58, 5_800],
        ],
        "whole tokens, half a second of refill between them",
      );
    });

    test("a soft limit shows what it is over, a bypass what it did not take", async (t) => {
      const { limiter } = await open(t);
      await limiter.setLimits("soft", [Limit.perMinute("tpm", 100, { soft: true })], { resource: "gpt-4" });
      await limiter.setAccess({ entityId: "free" }, "bypass");
      const left = async (entityId: string) => {
        const { remaining } = await limiter.acquire({ entityId, resource: "gpt-4", consume: { tpm: 250 } });
        return remaining.map(({ limit, available, capacity }) => [limit, available, capacity]);
      };
      assert.deepEqual(await left("soft"), [["tpm", -150, 100]]);
      assert.deepEqual(await left("free"), [
        ["rpm", 60, 60],
        ["tpm", 6_000, 6_000],
      ]);
    });

    test("a rollback after a thousand consumes is one give-back a bucket, also of a quota", async (t) => {
      const { limiter, calls } = await open(t);
      await limiter.setLimits("key-1", [Limit.quota("month", 5_000, { reset: { cron: "0 0 1 * *" } })], {
        resource: "gpt-4",
      });
      const lease = await limiter.acquire({ ...key, consume: { month: 1 } });
      for (let i = 0; i < 1_000; i++) await lease.consume({ month: 1 });
      assert.deepEqual(lease.consumed, { month: 1_001 });
      await lease.rollback();
      assert.equal(calls.filter((call) => call === "credit").length, 1);
      assert.deepEqual(
        (await limiter.available(key)).filter(({ entityId }) => entityId === "key-1").map(({ available }) => available),
        [5_000],
      );
    });

    test("a stream that ends early is charged: the body hears of the abort, adjusts and returns", async (t) => {
      const { limiter } = await open(t);
      const controller = new AbortController();
      const request = { ...key, consume: { tpm: 500 }, signal: controller.signal };
      const sent = await limiter.withLease(request, async (lease) => {
        let tokens = 0;
        while (!lease.signal.aborted) {
          tokens += 10;
          if (tokens === 120) controller.abort();
        }
        await lease.adjust({ tpm: tokens - 500 });
        return tokens;
      });
      assert.equal(sent, 120);
      const left = await limiter.available(key);
      assert.deepEqual(
        left.map(({ available }) => available),
        [60, 5_880, 8_880],
      );
    });

    test("an abort while the tokens are asked for takes nothing, and the body does not begin", async (t) => {
      const { limiter } = await open(t);
      const controller = new AbortController();
      let begun = false;
      const request = { ...key, consume: { tpm: 500 }, signal: controller.signal };
      const aborted = limiter.withLease(request, () => {
        begun = true;
      });
      controller.abort(new Error("the client left"));
      await assert.rejects(aborted, /the client left/);
      assert.equal(begun, false);
      assert.equal((await limiter.available(key))[1]?.available, 6_000);
    });
  });
}

test("the synchronous way says what remains as well", async () => {
  const { limiter } = await openLimiter();
  for (const tpm of [5_800, 5_600]) {
    const outcome = limiter.tryAcquireSync({ ...gpt, consume: { tpm: 200 } });
    assert.ok(outcome.ok);
    assert.deepEqual(outcome.lease.remaining, [
      { ...gpt, limit: "rpm", counts: "rpm", available: 60, capacity: 60 },
      { ...gpt, limit: "tpm", counts: "tpm", available: tpm, capacity: 6_000 },
    ]);
  }
});

test("of several resources each says what remains on it", async () => {
  const { limiter } = await openLimiter();
  await limiter.setResourceDefaults("gpu", [Limit.perMinute("slots", 4)]);
  const lease = await limiter.acquire({ ...gpt, consume: { rpm: 1 }, also: { gpu: { slots: 3 } } });
  assert.deepEqual(
    lease.remaining.map(({ limit, available }) => [limit, available]),
    [
      ["rpm", 59],
      ["tpm", 6_000],
    ],
  );
  assert.deepEqual(lease.resource("gpu").remaining, [
    { entityId: "key-1", resource: "gpu", limit: "slots", counts: "slots", available: 1, capacity: 4 },
  ]);
});

test("a lease that was let through during an outage knows of nothing that remains", async () => {
  const store = new FaultStore(openMemory(), {});
  const limiter = await RateLimiter.open({ store, onUnavailable: "allow" });
  await limiter.setResourceDefaults("gpt-4", limits);
  store.failNext("take", "refused");
  const lease = await limiter.acquire({ ...gpt, consume: { rpm: 1 } });
  assert.notEqual(lease.degraded, false);
  assert.deepEqual(lease.remaining, []);
});

test("a lease of a request without a signal has one of its own, never aborted, always the same", async () => {
  const { limiter } = await openLimiter();
  const lease = await limiter.acquire({ ...gpt, consume: { rpm: 1 } });
  const other = await limiter.acquire({ ...gpt, consume: { rpm: 1 } });
  assert.equal(lease.signal.aborted, false);
  assert.equal(lease.signal, lease.signal);
  assert.notEqual(lease.signal, other.signal);
});

test("what a body throws is what its caller hears, also when it cannot be given back", async (t) => {
  const store = new FaultStore(openMemory(), {});
  const limiter = await RateLimiter.open({ store });
  await limiter.setResourceDefaults("gpt-4", limits);
  const degraded = heard(t, CHANNELS.degraded);
  const failing = limiter.withLease({ ...gpt, consume: { rpm: 1 } }, () => {
    store.failNext("credit", "lostBefore");
    throw new Error("the model is down");
  });
  await assert.rejects(failing, /the model is down/);
  assert.deepEqual(
    degraded.map(({ entityId, reason }) => [entityId, reason]),
    [["key-1", "a give-back may not be stored"]],
  );
});

/** The store, and the names of the calls to its buckets. */
function counting(store: Store): { readonly counted: Store; readonly calls: string[] } {
  const calls: string[] = [];
  const note = (buckets: BucketStore): BucketStore =>
    new Proxy(buckets, {
      get: (target, name) => {
        const value: unknown = Reflect.get(target, name);
        if (typeof value !== "function") return value;
        return (...args: unknown[]) => {
          calls.push(String(name));
          return value.apply(target, args);
        };
      },
    });
  const counted = overriding(store, {
    scope: (id) => {
      const scope = store.scope(id);
      return { ...scope, buckets: note(scope.buckets) };
    },
  });
  return { counted, calls };
}

for (const [name, open] of EVERY_STORE) {
  test(`${name}: of takes that were sent together, each is told what was left after it`, async (t) => {
    const clock = new SimulatedClock(1_800_000_000_000);
    const { store, options } = open(clock, t);
    const limiter = await RateLimiter.open({ ...options, store, clock });
    const request = {
      ...{ entityId: "key-1", resource: "gpt-4", consume: { rpm: 1, day: 10 } },
      limits: [Limit.perDay("rpm", 60), Limit.quota("day", 100, { reset: "daily", soft: true })],
    };
    await limiter.acquire(request);
    const leases = await Promise.all(Array.from({ length: 12 }, () => limiter.acquire(request)));
    const left = (limit: string) =>
      leases.map(({ remaining }) => remaining.find((one) => one.limit === limit)?.available as number);
    const downFrom = (first: number, step: number) => leases.map((_, i) => first - i * step);
    assert.deepEqual(left("rpm"), downFrom(58, 1));
    assert.deepEqual(left("day"), downFrom(80, 10));
    assert.deepEqual(
      leases.map(({ overdrawn }) => overdrawn.length),
      leases.map((_, i) => (80 - i * 10 < 0 ? 1 : 0)),
    );
  });
}
