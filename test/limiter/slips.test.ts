import assert from "node:assert/strict";
import { describe, type TestContext, test } from "node:test";
import { Limit, RateLimiter, ValidationError } from "../../src/entry/index.ts";
import { RateLimiter as InMemory } from "../../src/entry/memory.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { EVERY_STORE } from "./every-store.ts";

const T0 = Date.UTC(2026, 2, 15, 12);
const request = { entityId: "key-1", resource: "api", consume: { rpm: 1 } };

for (const [name, openStore] of EVERY_STORE) {
  describe(`slips, on ${name}`, () => {
    async function open(t: TestContext) {
      const clock = new SimulatedClock(T0);
      const { store, options } = openStore(clock, t);
      const limiter = await RateLimiter.open({ store, clock, ...options });
      await limiter.setResourceDefaults("api", [Limit.perMinute("rpm", 10)]);
      return { limiter, clock, store };
    }

    test("withLease without a body takes nothing and counts no request", async (t) => {
      const { limiter } = await open(t);
      for (const body of [undefined, null, { lease: 1 }, "work"]) {
        await assert.rejects(limiter.withLease(request, body as never), {
          name: "ValidationError",
          code: "body_missing",
          message: /withLease\(request, async \(lease\) => /,
        });
      }
      assert.deepEqual(await limiter.usage({ window: "hourly", entityId: "key-1" }), []);
      assert.equal((await limiter.available(request))[0]?.available, 10);
    });

    test("a top-up of nothing is refused, and uses no key up", async (t) => {
      const { limiter } = await open(t);
      await limiter.acquire({ ...request, consume: { rpm: 5 } });
      const order = { entityId: "key-1", resource: "api", idempotencyKey: "order-1" };
      await assert.rejects(limiter.topUp({ ...order, amounts: { rpm: 0 } }), {
        name: "ValidationError",
        code: "consume_empty",
        message: /adds nothing; give at least one whole number above 0/,
      });
      assert.deepEqual((await limiter.topUp({ ...order, amounts: { rpm: 2 } })).amounts, { rpm: 2 });
      const { events } = await limiter.auditEvents({ entityId: "key-1" });
      assert.deepEqual(
        events.map(({ action }) => action),
        ["bucket_topped_up"],
      );
    });

    test("a misspelled resource is told the near one", async (t) => {
      const { limiter } = await open(t);
      const missing = {
        name: "ValidationError",
        code: "limits_missing",
        message: /Did you mean the resource api\?$/,
      };
      const typo = { ...request, resource: "apii" };
      for (const way of [
        () => limiter.acquire(typo),
        () => limiter.tryAcquire(typo),
        () => limiter.acquire({ ...typo, wait: { maxMs: 100 } }),
        () => limiter.available(typo),
        () => limiter.explain(typo),
        () => limiter.timeUntilAvailable(typo),
      ]) {
        await assert.rejects(way, missing);
      }
      await assert.rejects(limiter.acquire({ ...request, resource: "elsewhere" }), (error: Error) => {
        assert.doesNotMatch(error.message, /did you mean/);
        return true;
      });
    });

    test("an instant in seconds is told its milliseconds", async (t) => {
      const { limiter } = await open(t);
      await limiter.acquire(request);
      const seconds = T0 / 1_000;
      const refused = {
        name: "ValidationError",
        code: "instant_invalid",
        message: /looks like seconds; give .*1773576000000/,
      };
      const window = "hourly";
      await assert.rejects(async () => limiter.usage({ window, fromMs: seconds }), refused);
      await assert.rejects(async () => limiter.usageSummary({ window, toMs: seconds }), refused);
      await assert.rejects(async () => limiter.usageTotals({ window, by: "entity", fromMs: seconds }), refused);
      for (const fromMs of [0, 999_999_999, 10_000_000_000, T0 - 1, Number.NEGATIVE_INFINITY]) {
        assert.equal((await limiter.usage({ window, fromMs })).length, 1);
      }
    });

    test("a span that ends before it begins is told, and not answered with nothing", async (t) => {
      const { limiter } = await open(t);
      const [span, window] = [{ fromMs: T0, toMs: T0 - 1 }, "hourly" as const];
      for (const ask of [
        async () => limiter.usage({ window, ...span }),
        async () => limiter.usageSummary({ window, ...span }),
        async () => limiter.usageTotals({ window, by: "entity", ...span }),
        async () => limiter.exportUsage({ window, format: "csv", ...span }),
        async () => limiter.refusals({ window, ...span }),
        async () => limiter.refusalTotals({ by: "entity", ...span }),
      ]) {
        await assert.rejects(ask, {
          code: "instant_invalid",
          message: /^fromMs is 1773576000000 \(2026-.*give the earlier/,
        });
      }
      assert.deepEqual(await limiter.usage({ window, fromMs: T0, toMs: T0 }), []);
    });
  });
}

test("a clock that begins near 0 has instants of any size", async () => {
  const limiter = await RateLimiter.open({ store: "memory", clock: new SimulatedClock(2_000_000_000) });
  assert.deepEqual(await limiter.usage({ window: "hourly", fromMs: 1_500_000_000 }), []);
});

test("a limiter that is made with new says how one is opened", () => {
  for (const Made of [RateLimiter, InMemory] as unknown as (new (
    ...given: unknown[]
  ) => unknown)[]) {
    for (const given of [[], [{ store: "memory" }], ["memory"]]) {
      assert.throws(() => new Made(...given), {
        name: "ValidationError",
        code: "limiter_invalid",
        message: /await RateLimiter\.open\(/,
      });
    }
  }
});

test("an entity that is given by its id alone is told the object", async () => {
  const limiter = await RateLimiter.open({ store: "memory" });
  for (const call of [() => limiter.createEntity("key-1" as never), () => limiter.ensureEntity("key-1" as never)]) {
    await assert.rejects(call, (error) => {
      assert.ok(error instanceof ValidationError);
      assert.match(error.message, /give \{ id: "key-1" \}/);
      return true;
    });
  }
});

test("durability on a store that has none to choose is refused, not ignored", async () => {
  for (const store of ["memory", "dynamodb:limits"]) {
    await assert.rejects(RateLimiter.open({ store, durability: "full" }), {
      code: "option_invalid",
      message:
        /durability is for SQLite, PostgreSQL and Redis, and the store is "(memory|dynamodb:limits)".*leave it out/,
    });
  }
});
