import assert from "node:assert/strict";
import { describe, type TestContext, test } from "node:test";
import { LimiterClient } from "../../src/entry/client.ts";
import { LimiterStore } from "../../src/entry/express-rate-limit-store.ts";
import { RateLimiter } from "../../src/entry/index.ts";
import { openMemory } from "../../src/entry/memory.ts";
import { FaultStore } from "../../src/testing/fault-store.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { T0 } from "../kit/contract-kit.ts";
import { tempFile } from "../sqlite/temp-store.ts";
import { type Ground, startApp, VERSIONS } from "./express-rate-limit-kit.ts";
import { tellExpressRateLimitStories } from "./express-rate-limit-stories.ts";

describe("express-rate-limit on memory", () => {
  tellExpressRateLimitStories((t) => {
    const store = openMemory();
    return ground(t, (clock) => RateLimiter.open({ store, clock }));
  });
});

describe("express-rate-limit on SQLite", () => {
  tellExpressRateLimitStories((t) => {
    const file = tempFile(t);
    return ground(t, (clock) => RateLimiter.open({ store: `sqlite:${file}`, clock }));
  });
});

for (const version of VERSIONS) {
  const { name, major, rateLimit } = version;

  test(`${name}: an outage rejects, also where the limiter lets work through`, async (t) => {
    const { limiter, faults } = await faulty("allow");
    const app = await startApp(t, version, { windowMs: 60_000, limit: 5 }, { limiter });
    assert.equal((await app.get("ada")).status, 200);
    faults.failNext("take", "refused");
    const failed = await app.get("ada");
    assert.equal(failed.status, 500);
    assert.deepEqual(await failed.json(), { code: "unavailable" });
    assert.equal((await app.get("ada")).headers.get("x-ratelimit-remaining"), "3");
  });

  // The option came with version 7.4.
  if (major === 8) {
    test(`${name}: passOnStoreError lets requests through an outage`, async (t) => {
      const { limiter, faults } = await faulty("block");
      const app = await startApp(t, version, { windowMs: 60_000, limit: 1, passOnStoreError: true }, { limiter });
      assert.equal((await app.get("ada")).status, 200);
      faults.failNext("take", "refused");
      assert.equal((await app.get("ada")).status, 200);
      assert.equal((await app.get("ada")).status, 429);
    });
  }

  test(`${name}: a window that is no whole number of seconds is refused`, async (t) => {
    const limiter = await RateLimiter.open({ store: "memory" });
    for (const windowMs of [1_500, 0, -1_000, Number.NaN]) {
      const store = new LimiterStore({ limiter });
      assert.throws(() => store.init({ windowMs }), { code: "option_invalid" });
      await assert.rejects(store.increment("ada"), { code: "option_invalid" });
    }
    if (major === 7) {
      assert.throws(() => rateLimit({ windowMs: 1_500, store: new LimiterStore({ limiter }) }), {
        code: "option_invalid",
      });
    } else {
      // Version 8 logs what `init` throws, and starts.
      const app = await startApp(t, version, { windowMs: 1_500 }, { limiter });
      assert.deepEqual(await (await app.get("ada")).json(), { code: "option_invalid" });
      assert.match(String(app.complaints), /windowMs is 1500/);
    }
  });
}

test("a store without a window, or with options that it cannot have, says so", async () => {
  const limiter = await RateLimiter.open({ store: "memory" });
  await assert.rejects(new LimiterStore({ limiter }).increment("ada"), /has no windowMs/);
  const make = (options: unknown) => () => new LimiterStore(options as { limiter: RateLimiter });
  assert.throws(make({ limiter, resorce: "api" }), { code: "option_unknown" });
  assert.throws(make({ limiter, prefix: 7 }), { code: "option_invalid" });
  assert.throws(make({ limiter, resource: "" }), { code: "resource_invalid" });
  assert.throws(make({}), {
    code: "limiter_invalid",
    message: /limiter is undefined; pass the result of RateLimiter.open/,
  });
  const client = new LimiterClient({ url: "http://127.0.0.1:1" });
  const withClient = { code: "limiter_invalid", message: /a client of the service.*rateLimit of zae-limiter\/express/ };
  assert.throws(make({ limiter: client }), withClient);
});

test("a limiter that could not be opened is told with the first hit, not as an unhandled rejection", async () => {
  const store = new LimiterStore({ limiter: RateLimiter.open({ store: "nowhere:at-all" }) });
  store.init({ windowMs: 1_000 });
  await new Promise((resolve) => setImmediate(resolve));
  await assert.rejects(store.increment("ada"), Error);
});

test("shutdown leaves counts and the limiter to others", async () => {
  const limiter = await RateLimiter.open({ store: "memory" });
  const store = new LimiterStore({ limiter });
  store.init({ windowMs: 60_000 });
  await store.increment("ada");
  store.shutdown();
  assert.equal((await store.increment("ada")).totalHits, 2);
  assert.equal(store.localKeys, false);
  assert.equal(store.prefix, "rl:");
});

async function ground(t: TestContext, process: (clock: SimulatedClock) => Promise<RateLimiter>): Promise<Ground> {
  const clock = new SimulatedClock(T0);
  const another = async () => {
    const limiter = await process(clock);
    t.after(() => limiter.close());
    return limiter;
  };
  return { clock, another, limiter: await another() };
}

async function faulty(onUnavailable: "allow" | "block") {
  const faults = new FaultStore(openMemory(), {});
  return { faults, limiter: await RateLimiter.open({ store: faults, onUnavailable }) };
}
