import assert from "node:assert/strict";
import { describe, type TestContext, test } from "node:test";
import { CHANNELS, Limit, RateLimitExceeded, RateLimiter, type Refusal } from "../../src/entry/index.ts";
import type { BucketStore } from "../../src/ports/bucket-store.ts";
import { overriding } from "../../src/testing/fault-store.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { tempFile } from "../sqlite/temp-store.ts";
import { EVERY_STORE } from "./every-store.ts";
import { heard } from "./listening.ts";

const T0 = Date.UTC(2026, 2, 15, 12);
const about = { entityId: "a", resource: "api" } as const;

/** 20 at 40 a second. */
const burst = Limit.custom("r", { capacity: 20, refillAmount: 40, refillPeriodMs: 1_000 });

for (const [name, openStore] of EVERY_STORE) {
  describe(`a refusal is true of now, on ${name}`, () => {
    async function open(t: TestContext) {
      const clock = new SimulatedClock(T0);
      const { store, options } = openStore(clock, t);
      const limiter = await RateLimiter.open({ store, clock, ...options });
      await limiter.setResourceDefaults("api", [burst]);
      const ask = (r: number) => limiter.tryAcquire({ ...about, consume: { r } });
      /** Asks, is refused, and what it is told is what the store says. */
      const refused = async (r: number): Promise<Refusal> => {
        const outcome = await ask(r);
        assert.ok(!outcome.ok, `${r} were granted`);
        assert.equal(outcome.retryAfterMs, await limiter.timeUntilAvailable({ ...about, consume: { r } }));
        const [held] = await limiter.available(about);
        assert.equal(outcome.primary.available, held?.available);
        assert.equal(outcome.primary.retryAfterMs, outcome.retryAfterMs);
        return outcome;
      };
      const waits = (refusal: Refusal) => clock.advance(refusal.retryAfterMs);
      return { limiter, clock, ask, refused, waits };
    }

    test("right after a grant of one's own: it is let in at the moment it was told", async (t) => {
      const { clock, ask, refused, waits } = await open(t);
      assert.equal((await ask(20)).ok, true);
      await waits(await refused(11));
      assert.equal((await ask(11)).ok, true);
      await clock.advance(1);
      await waits(await refused(14));
      assert.equal((await ask(14)).ok, true);
    });

    test("after a debit of one's own the wait is longer, not that of before", async (t) => {
      const { limiter, ask, refused, waits } = await open(t);
      const lease = await limiter.acquire({ ...about, consume: { r: 10 } });
      const before = await refused(15);
      await lease.adjust({ r: 15 });
      const after = await refused(15);
      assert.equal(after.retryAfterMs, before.retryAfterMs + 375);
      assert.equal(after.primary.available, -5);
      await waits(after);
      assert.equal((await ask(15)).ok, true);
    });

    test("after a lease took more", async (t) => {
      const { limiter, ask, refused, waits } = await open(t);
      const lease = await limiter.acquire({ ...about, consume: { r: 10 } });
      await refused(15);
      await lease.consume({ r: 8 });
      await waits(await refused(15));
      assert.equal((await ask(15)).ok, true);
    });

    test("after a sibling took from the parent that both share", async (t) => {
      const { limiter, clock, ask, waits } = await open(t);
      await limiter.createEntity({ id: "parent" });
      await limiter.createEntity({ id: "a", parentId: "parent", cascade: true });
      await limiter.createEntity({ id: "b", parentId: "parent", cascade: true });
      await limiter.setLimits("a", [Limit.custom("r", { capacity: 30, refillAmount: 400, refillPeriodMs: 1_000 })]);
      await limiter.acquire({ ...about, consume: { r: 20 } });
      await limiter.tryAcquire({ ...about, consume: { r: 11 } });
      await clock.advance(200);
      await limiter.acquire({ entityId: "b", resource: "api", consume: { r: 5 } });
      const outcome = await ask(11);
      assert.ok(!outcome.ok);
      assert.equal(outcome.primary.entityId, "parent");
      assert.equal(outcome.primary.available, 3);
      assert.equal(outcome.retryAfterMs, 200);
      await waits(outcome);
      assert.equal((await ask(11)).ok, true);
    });

    test("after a top-up and after a reset what fits is granted at once", async (t) => {
      const { limiter, ask, refused } = await open(t);
      assert.equal((await ask(20)).ok, true);
      await refused(12);
      await limiter.topUp({ ...about, amounts: { r: 5 } });
      const { primary } = await refused(12);
      assert.equal(primary.available, 5);
      assert.equal((await ask(5)).ok, true);
      await refused(12);
      await limiter.resetBucket(about);
      assert.equal((await ask(20)).ok, true);
    });

    test("after tokens were given back", async (t) => {
      const { limiter, ask, refused, waits } = await open(t);
      const lease = await limiter.acquire({ ...about, consume: { r: 20 } });
      await refused(12);
      await lease.release({ r: 4 });
      const { primary, retryAfterMs } = await refused(12);
      assert.equal(primary.available, 4);
      assert.equal(retryAfterMs, 200);
      await waits(await refused(12));
      assert.equal((await ask(12)).ok, true);
    });

    test("one body never has two waits, also when the store took its time to answer", async (t) => {
      const clock = new SimulatedClock(T0);
      const { store, options } = openStore(clock, t);
      let answerMs = 0;
      // Time passes between the question and its answer.
      const slow = overriding(store, {
        scope: (id) => {
          const scope = store.scope(id);
          const take: BucketStore["take"] = async (...args) => {
            const reply = await scope.buckets.take(...args);
            clock.set(clock.now() + answerMs);
            return reply;
          };
          return { ...scope, buckets: overriding(scope.buckets, { take }) };
        },
      });
      const limiter = await RateLimiter.open({ store: slow, clock, ...options });
      await limiter.setResourceDefaults("api", [Limit.perMinute("r", 60), Limit.perMinute("s", 60)]);
      await limiter.acquire({ ...about, consume: { r: 60, s: 58 } });
      answerMs = 901;
      const error = await limiter.acquire({ ...about, consume: { r: 4, s: 4 } }).catch((thrown: unknown) => thrown);
      assert.ok(error instanceof RateLimitExceeded);
      const body = JSON.parse(JSON.stringify(error));
      assert.equal(body.retryAfterMs, 3_099);
      assert.equal(body.primary.retryAfterMs, 3_099);
      assert.deepEqual(
        body.statuses.map(({ retryAfterMs }: { retryAfterMs: number }) => retryAfterMs),
        [3_099, 1_099],
      );
    });

    test("a millitoken that is owed shows as -1, for it refuses a request for 0", async (t) => {
      const { limiter, clock } = await open(t);
      await limiter.setResourceDefaults("api", [
        Limit.custom("r", { capacity: 10, refillAmount: 1, refillPeriodMs: 1_000 }),
      ]);
      const lease = await limiter.acquire({ ...about, consume: { r: 10 } });
      await lease.adjust({ r: 1 });
      await clock.advance(999);
      const outcome = await limiter.tryAcquire({ ...about, consume: { r: 0 } });
      assert.ok(!outcome.ok, "a millitoken is owed");
      assert.equal(outcome.primary.available, -1);
      assert.equal(outcome.retryAfterMs, 1);
      assert.equal((await limiter.available(about))[0]?.available, -1);
    });

    test("after limits were changed", async (t) => {
      const { limiter, clock, ask, refused, waits } = await open(t);
      assert.equal((await ask(20)).ok, true);
      await refused(12);
      await limiter.setResourceDefaults("api", [
        Limit.custom("r", { capacity: 30, refillAmount: 80, refillPeriodMs: 1_000 }),
      ]);
      await clock.advance(1);
      await waits(await refused(12));
      assert.equal((await ask(12)).ok, true);
    });
  });
}

test("refused, debited by an adjustment of one's own, refused again: the second wait is the longer one", async (t) => {
  const clock = new SimulatedClock(T0);
  const limiter = await RateLimiter.open({ store: `sqlite:${tempFile(t)}`, clock });
  t.after(() => limiter.close());
  await limiter.setResourceDefaults("api", [Limit.perMinute("tpm", 600)]);
  const lease = await limiter.acquire({ ...about, consume: { tpm: 600 } });
  const first = await limiter.tryAcquire({ ...about, consume: { tpm: 10 } });
  assert.ok(!first.ok);
  assert.equal(first.retryAfterMs, 1_000);
  await lease.adjust({ tpm: 600 });
  await clock.advance(8);
  const second = await limiter.tryAcquire({ ...about, consume: { tpm: 10 } });
  assert.ok(!second.ok);
  assert.equal(second.retryAfterMs, 60_992);
  assert.equal(second.primary.available, -600);
  assert.equal(await limiter.timeUntilAvailable({ ...about, consume: { tpm: 10 } }), 60_992);
});

test("the memory store has no deny memory by default, SQLite has one of a second", async (t) => {
  const refusals = heard(t, CHANNELS.refused);
  for (const store of ["memory", `sqlite:${tempFile(t)}`]) {
    const limiter = await RateLimiter.open({ store, clock: new SimulatedClock(T0) });
    await limiter.setResourceDefaults("api", [burst]);
    await limiter.acquire({ ...about, consume: { r: 20 } });
    for (let i = 0; i < 2; i++) await limiter.tryAcquire({ ...about, consume: { r: 1 } });
    await limiter.close();
  }
  assert.deepEqual(
    refusals.map(({ remembered }) => remembered),
    [false, false, false, true],
  );
});
