import assert from "node:assert/strict";
import { describe, type TestContext, test } from "node:test";
import { Limit, RateLimiter, ValidationError } from "../../src/entry/index.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { EVERY_STORE } from "./every-store.ts";

const T0 = Date.UTC(2026, 2, 15, 12);
const on = { entityId: "key-1", resource: "gpt-4" } as const;

for (const [name, openStore] of EVERY_STORE) {
  describe(`what was forgotten does not pass, on ${name}`, () => {
    async function open(t: TestContext) {
      const clock = new SimulatedClock(T0);
      const { store, options } = openStore(clock, t);
      const limiter = await RateLimiter.open({ store, clock, ...options });
      await limiter.setResourceDefaults("gpt-4", [Limit.perMinute("rpm", 60), Limit.perMinute("tpm", 6_000)]);
      /** Refused with the code and the words; afterwards both buckets are full. */
      const refused = async (work: () => Promise<unknown>, code: string, words: RegExp) => {
        await assert.rejects(work, (error) => {
          assert.ok(error instanceof ValidationError, String(error));
          assert.equal(error.code, code, error.message);
          assert.match(error.message, words);
          return true;
        });
        const held = await limiter.available(on);
        assert.deepEqual(
          held.map(({ available }) => available),
          [60, 6_000],
        );
      };
      return { limiter, refused };
    }

    test("an amount that is undefined or null is refused, not granted unchecked", async (t) => {
      const { limiter, refused } = await open(t);
      for (const tpm of [undefined, null]) {
        const request = { ...on, consume: { rpm: 1, tpm } as never };
        const ways = {
          acquire: () => limiter.acquire(request),
          tryAcquire: () => limiter.tryAcquire(request),
          waiting: () => limiter.tryAcquire({ ...request, wait: { maxMs: 1_000 } }),
          withLease: () => limiter.withLease(request, () => assert.fail("the body ran")),
          also: () => limiter.acquire({ ...on, consume: { rpm: 1 }, also: { "gpt-5": { tpm } as never } }),
          timeUntilAvailable: () => limiter.timeUntilAvailable(request),
          explain: () => limiter.explain(request),
          topUp: () => limiter.topUp({ ...on, amounts: { tpm } as never }),
        };
        await limiter.setResourceDefaults("gpt-5", [Limit.perMinute("tpm", 6_000)]);
        for (const way of Object.values(ways)) await refused(way, "amount_invalid", /of "tpm" is (undefined|null)/);
      }
    });

    test("a lease refuses an amount that was forgotten and holds what it held", async (t) => {
      const { limiter, refused } = await open(t);
      const lease = await limiter.acquire({ ...on, consume: { rpm: 0, tpm: 0 } });
      const forgotten = { tpm: undefined } as never;
      await refused(() => lease.adjust(forgotten), "amount_invalid", /adjust of "tpm" is undefined/);
      await refused(() => lease.consume(forgotten), "amount_invalid", /consume of "tpm" is undefined/);
      await refused(() => lease.release(forgotten), "amount_invalid", /release of "tpm" is undefined/);
      await refused(() => lease.consume({}), "consume_empty", /names no measure that a limit counts/);
      await lease.adjust({});
      assert.equal(lease.status, "open");
      assert.deepEqual(lease.consumed, { rpm: 0, tpm: 0 });
    });

    test("a consume that names no limit is refused, not granted", async (t) => {
      const { limiter, refused } = await open(t);
      const request = { ...on, consume: {} };
      await refused(() => limiter.acquire(request), "consume_empty", /measures: rpm, tpm/);
      await refused(() => limiter.tryAcquire(request), "consume_empty", /names no measure that a limit counts/);
      await refused(() => limiter.timeUntilAvailable(request), "consume_empty", /names no measure that a limit counts/);
      await refused(() => limiter.explain(request), "consume_empty", /names no measure that a limit counts/);
      await refused(() => limiter.topUp({ ...on, amounts: {} }), "consume_empty", /top-up/);
      const { outcome } = await limiter.explain(on);
      assert.equal(outcome, "granted");
    });

    test("a misspelled name in a request is refused with the nearest one", async (t) => {
      const { limiter, refused } = await open(t);
      const request = { ...on, consume: { rpm: 1 } };
      const wrong = (way: () => Promise<unknown>, near: string) => refused(way, "option_unknown", meaning(near));
      await wrong(() => limiter.acquire({ ...request, limit: [] } as never), "limits");
      await wrong(() => limiter.tryAcquire({ ...request, request_id: "r" } as never), "requestId");
      await wrong(() => limiter.tryAcquire({ ...request, wait: { maxms: 5 } } as never), "maxMs");
      await wrong(() => limiter.tryAcquire({ ...request, wait: { maxMs: 5 }, abortSignal: 1 } as never), "signal");
      await wrong(() => limiter.available({ ...on, limts: [] } as never), "limits");
      await wrong(() => limiter.timeUntilAvailable({ ...request, entity: "a" } as never), "entityId");
      await wrong(() => limiter.explain({ ...on, consumed: { rpm: 1 } } as never), "consume");
      await wrong(() => limiter.topUp({ ...on, amount: { rpm: 1 } } as never), "amounts");
      await wrong(() => limiter.resetBucket({ ...on, limit: ["rpm"] } as never), "limits");
      // What a request has may stand in a question about it.
      assert.equal((await limiter.available({ ...request, wait: { maxMs: 5 } } as typeof on)).length, 2);
    });

    test("a misspelled option of a change is refused, and nothing is changed", async (t) => {
      const { limiter, refused } = await open(t);
      const limits = [Limit.perMinute("rpm", 1)];
      const wrong = (way: () => Promise<unknown>, near: string) => refused(way, "option_unknown", meaning(near));
      await limiter.createEntity({ id: "proj-1" });
      await wrong(() => limiter.createEntity({ id: "key-1", parent: "proj-1" } as never), "parentId");
      await wrong(() => limiter.createEntity({ id: "key-1" }, { principle: "ada" } as never), "principal");
      await wrong(() => limiter.updateEntity("proj-1", { name: "x" }, { versoin: 1 } as never), "version");
      await wrong(() => limiter.deleteEntity("proj-1", { princpal: "ada" } as never), "principal");
      await wrong(() => limiter.setLimits("key-1", limits, { ressource: "gpt-4" } as never), "resource");
      await wrong(() => limiter.getLimits("key-1", { resources: "gpt-4" } as never), "resource");
      await wrong(() => limiter.deleteLimits("key-1", { resorce: "gpt-4" } as never), "resource");
      await wrong(() => limiter.setResourceDefaults("gpt-4", limits, { principals: "ada" } as never), "principal");
      await wrong(() => limiter.setSystemDefaults(limits, { on_unavailable: "allow" } as never), "onUnavailable");
      await wrong(() => limiter.deleteSystemDefaults({ princpal: "ada" } as never), "principal");
      await wrong(() => limiter.setAccess({ entity: "key-1" } as never, "disabled"), "entityId");
      await wrong(() => limiter.setCascade({ entityId: "key-1" }, true, { principl: "ada" } as never), "principal");
      await wrong(() => limiter.registerNamespace("b", { princpal: "ada" } as never), "principal");
      await wrong(async () => limiter.listEntities({ limt: 5 } as never), "limit");
      await wrong(async () => limiter.auditEvents({ entity: "key-1" } as never), "entityId");
      await wrong(async () => limiter.usage({ window: "hourly", from: 0 } as never), "fromMs");
      await wrong(() => limiter.usageSummary({ window: "hourly", entity: "a" } as never), "entityId");
      await assert.rejects(limiter.updateEntity("proj-1", { parent: "key-1" } as never), {
        code: "patch_invalid",
        message: /"parent" of proj-1 cannot be changed; did you mean `parentId`\?/,
      });
      // The text that was meant as a resource would make the limits those of every resource.
      await refused(() => limiter.setLimits("key-1", limits, "gpt-4" as never), "options_invalid", /not "gpt-4"/);
      assert.deepEqual(await limiter.getEntity("proj-1"), (await limiter.listEntities())[0]);
      assert.equal((await limiter.listEntities()).length, 1);
      assert.deepEqual(await limiter.getLimits("key-1"), []);
      assert.deepEqual((await limiter.getSystemDefaults()).limits, []);
    });
  });
}

test("a request that wants a wait synchronously is told that it cannot have one", async () => {
  const limiter = await RateLimiter.open({ store: "memory" });
  await limiter.setResourceDefaults("gpt-4", [Limit.perMinute("rpm", 60)]);
  const request = { ...on, consume: { rpm: 1 } };
  assert.throws(() => limiter.tryAcquireSync({ ...request, wait: { maxMs: 5 } } as never), {
    code: "sync_unsupported",
  });
  assert.throws(() => limiter.tryAcquireSync({ ...request, wiat: 1 } as never), { code: "option_unknown" });
  assert.throws(() => limiter.tryAcquireSync({ ...on, consume: {} }), { code: "consume_empty" });
  assert.throws(() => limiter.tryAcquireSync({ ...on, consume: { rpm: undefined } as never }), {
    code: "amount_invalid",
  });
  assert.equal(limiter.tryAcquireSync(request).ok, true);
});

test("a request whose flags or signal are something else is refused, not taken as if they were absent", async () => {
  const limiter = await RateLimiter.open({ store: "memory" });
  await limiter.setResourceDefaults("gpt-4", [Limit.perMinute("rpm", 60)]);
  const request = { ...on, consume: { rpm: 1 } };
  for (const wrong of [{ atomic: "yes" }, { signal: {} }, { signal: null }, { signal: new AbortController() }]) {
    await assert.rejects(limiter.acquire({ ...request, ...wrong } as never), { code: "request_invalid" });
  }
  for (const wait of [null, 500]) {
    await assert.rejects(limiter.acquire({ ...request, wait } as never), { code: "wait_invalid" });
  }
});

test("an unknown option of open is refused with the nearest name, and a text is no options", async () => {
  const wrong = (options: object, near: string) =>
    assert.rejects(RateLimiter.open({ store: "memory", ...options } as never), {
      code: "option_unknown",
      message: meaning(near),
    });
  await wrong({ name_space: "a" }, "namespace");
  await wrong({ configTtl: 5 }, "configTtlMs");
  await wrong({ denyMemory: 5 }, "denyMemoryMs");
  await wrong({ timeout: 5 }, "timeoutMs");
  await wrong({ onUnavailabe: "allow" }, "onUnavailable");
  await wrong({ durabilty: "full" }, "durability");
  await assert.rejects(RateLimiter.open("memory" as never), {
    code: "options_invalid",
    message: /give \{ store: "memory" \}/,
  });
  await assert.rejects(RateLimiter.open(null as never), { code: "options_invalid" });
});

test("a clock that answers a fraction, or no number at all, is refused when it is given and whenever it is asked", async () => {
  const readings = [
    0.5,
    Number.NaN,
    Number.POSITIVE_INFINITY,
    1e300,
    "5",
    5n,
    new Date(5),
    Promise.resolve(5),
    undefined,
  ];
  for (const reading of readings) {
    const clock = { now: () => reading as number };
    await assert.rejects(RateLimiter.open({ store: "memory", clock }), {
      name: "ValidationError",
      code: "clock_invalid",
    });
  }
  for (const [unit, now] of [
    ["seconds", () => Math.floor(Date.now() / 1_000)],
    ["microseconds", () => Date.now() * 1_000],
  ] as const) {
    const message = new RegExp(`looks like ${unit}; now\\(\\) must return milliseconds since 1970, \\d{13} for 20`);
    await assert.rejects(RateLimiter.open({ store: "memory", clock: { now } }), { code: "clock_invalid", message });
  }
  let nowMs = 0;
  const limiter = await RateLimiter.open({ store: "memory", clock: { now: () => nowMs } });
  await limiter.setResourceDefaults("gpt-4", [Limit.perMinute("rpm", 60)]);
  const request = { ...on, consume: { rpm: 1 } };
  await limiter.acquire(request);
  for (const reading of readings) {
    nowMs = reading as number;
    await assert.rejects(limiter.acquire(request), { code: "clock_invalid" });
    await assert.rejects(limiter.tryAcquire({ ...request, wait: { maxMs: 5 } }), { code: "clock_invalid" });
    assert.throws(() => limiter.tryAcquireSync(request), { code: "clock_invalid", message: /whole milliseconds/ });
    await assert.rejects(limiter.available(on), { code: "clock_invalid" });
  }
  nowMs = 1;
  assert.deepEqual(
    (await limiter.available(on)).map(({ available }) => available),
    [59],
  );
});

function meaning(near: string): RegExp {
  return new RegExp(`did you mean \`${near}\`\\?`);
}
