import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { LimiterStore } from "../../src/entry/express-rate-limit-store.ts";
import { Limit } from "../../src/entry/index.ts";
import { type Ground, startApp, VERSIONS } from "./express-rate-limit-kit.ts";

const MINUTE_MS = 60_000;

/** What express-rate-limit does on a store of ours, over HTTP, in both of its versions. */
export function tellExpressRateLimitStories(openGround: (t: TestContext) => Promise<Ground>): void {
  for (const version of VERSIONS) {
    const { name, major } = version;
    const open = async (t: TestContext) => {
      const ground = await openGround(t);
      t.mock.timers.enable({ apis: ["Date"], now: ground.clock.now() });
      const pass = async (ms: number) => {
        t.mock.timers.tick(ms);
        await ground.clock.advance(ms);
      };
      return { ...ground, pass };
    };

    test(`${name}: the limit holds for a window that begins with the first hit`, async (t) => {
      const { limiter, clock, pass } = await open(t);
      const app = await startApp(t, version, { windowMs: MINUTE_MS, limit: 2 }, { limiter });
      await pass(12_345);
      const endMs = clock.now() + MINUTE_MS;
      const first = await app.get("ada");
      assert.equal(first.status, 200);
      assert.equal(first.headers.get("x-ratelimit-limit"), "2");
      assert.equal(first.headers.get("x-ratelimit-remaining"), "1");
      // The store's clock may have moved on by a few ms before it counted.
      const reset = Number(first.headers.get("x-ratelimit-reset"));
      assert.ok(reset >= Math.ceil(endMs / 1000) && reset <= Math.ceil(endMs / 1000) + 1, `${reset}`);
      await pass(30_000);
      assert.equal((await app.get("ada")).status, 200);
      const refused = await app.get("ada");
      assert.equal(refused.status, 429);
      assert.equal(refused.headers.get("x-ratelimit-remaining"), "0");
      assert.ok(Math.abs(Number(refused.headers.get("retry-after")) - 30) <= 1);
      assert.equal((await app.get("grace")).status, 200, "another key has its own window");
      await pass(29_000);
      assert.equal((await app.get("ada")).status, 429, "the window is not over");
      const { resetTime } = (await app.store.get("ada")) as { resetTime: Date };
      await pass(resetTime.getTime() - clock.now() - 1);
      assert.equal((await app.get("ada")).status, 429, "nor 1 ms before its end");
      await pass(1);
      assert.equal((await app.get("ada")).headers.get("x-ratelimit-remaining"), "1", "a new window");
      assert.deepEqual(app.complaints, []);
    });

    test(`${name}: hits count on past the limit, which may be a function`, async (t) => {
      const { limiter } = await open(t);
      let limit = 1;
      const app = await startApp(t, version, { windowMs: MINUTE_MS, limit: () => limit }, { limiter });
      for (let i = 0; i < 4; i++) await app.get("ada");
      assert.equal((await app.store.get("ada"))?.totalHits, 4);
      limit = 6;
      assert.equal((await app.get("ada")).headers.get("x-ratelimit-remaining"), "1");
      assert.equal((await app.get("ada")).status, 200);
      assert.equal((await app.get("ada")).status, 429);
    });

    test(`${name}: of 30 requests at the same time exactly as many pass as the limit allows`, async (t) => {
      const { limiter, another } = await open(t);
      const options = { windowMs: MINUTE_MS, limit: 10 };
      const apps = [
        await startApp(t, version, options, { limiter }),
        await startApp(t, version, options, { limiter: await another() }),
      ] as const;
      const answers = await Promise.all(Array.from({ length: 30 }, (_, i) => apps[i % 2 === 0 ? 0 : 1].get("ada")));
      assert.equal(answers.filter(({ status }) => status === 200).length, 10);
      assert.equal(answers.filter(({ status }) => status === 429).length, 20);
    });

    test(`${name}: stores with one prefix share counts, others count apart`, async (t) => {
      const { limiter, another } = await open(t);
      const options = { windowMs: MINUTE_MS, limit: 5 };
      const here = await startApp(t, version, options, { limiter, prefix: "login:" });
      const there = await startApp(t, version, options, { limiter: another(), prefix: "login:" });
      const other = await startApp(t, version, options, { limiter, prefix: "search:" });
      await here.get("ada");
      assert.equal((await there.get("ada")).headers.get("x-ratelimit-remaining"), "3");
      assert.equal((await other.get("ada")).headers.get("x-ratelimit-remaining"), "4");
      await there.store.decrement("ada");
      assert.equal((await here.store.get("ada"))?.totalHits, 1);
      await here.store.resetKey("ada");
      assert.equal(await there.store.get("ada"), undefined);
      assert.equal((await other.store.get("ada"))?.totalHits, 1);
    });

    test(`${name}: a process that has not counted takes a hit of another back, and none where there is none`, async (t) => {
      const { limiter, another } = await open(t);
      const here = storeOf(limiter);
      const there = storeOf(await another());
      await there.decrement("ada");
      assert.equal((await here.increment("ada")).totalHits, 1);
      for (let i = 0; i < 3; i++) await there.decrement("ada");
      assert.equal((await here.get("ada"))?.totalHits, 0, "the window goes on, empty");
      assert.equal((await here.increment("ada")).totalHits, 1);
    });

    test(`${name}: with skipFailedRequests only requests that succeed count`, async (t) => {
      const { limiter } = await open(t);
      const app = await startApp(
        t,
        version,
        { windowMs: MINUTE_MS, limit: 2, skipFailedRequests: true, validate: false },
        { limiter },
      );
      for (let i = 0; i < 3; i++) {
        assert.equal((await app.get("ada", "/bad")).status, 400);
        await app.finished(i + 1);
        await settledAt(app.store, "ada", 0);
      }
      assert.equal((await app.get("ada")).headers.get("x-ratelimit-remaining"), "1");
      assert.equal((await app.get("ada")).status, 200);
      assert.equal((await app.get("ada")).status, 429);
    });

    test(`${name}: with skipSuccessfulRequests only requests that fail count, and the window stays`, async (t) => {
      const { limiter, pass } = await open(t);
      const app = await startApp(
        t,
        version,
        { windowMs: MINUTE_MS, limit: 1, skipSuccessfulRequests: true, validate: false },
        { limiter },
      );
      const { resetTime } = await app.store.increment("grace");
      await app.store.decrement("grace");
      await pass(1_000);
      assert.deepEqual((await app.store.increment("grace")).resetTime, resetTime);
      for (let i = 0; i < 3; i++) {
        assert.equal((await app.get("ada")).status, 200);
        await app.finished(i + 1);
        await settledAt(app.store, "ada", 0);
      }
      assert.equal((await app.get("ada", "/bad")).status, 400);
      assert.equal((await app.get("ada")).status, 429);
    });

    test(`${name}: a request that ends after its window takes nothing from the next one`, async (t) => {
      const { limiter, another, pass } = await open(t);
      const options = { windowMs: MINUTE_MS, limit: 5, skipSuccessfulRequests: true, validate: false };
      const app = await startApp(t, version, options, { limiter });
      const slow = app.get("ada", "/slow");
      await settledAt(app.store, "ada", 1);
      await pass(MINUTE_MS + 5_000);
      assert.equal(await app.store.get("ada"), undefined);
      assert.equal((await storeOf(await another()).increment("ada")).totalHits, 1, "counted by another process");
      app.finishSlow();
      await slow;
      await app.finished(1);
      // Whatever follows the response is sent before this is.
      await app.store.decrement("ada");
      assert.equal((await app.store.get("ada"))?.totalHits, 1);
    });

    test(`${name}: decrement after the window has ended changes nothing`, async (t) => {
      const { limiter, pass } = await open(t);
      const store = storeOf(limiter);
      await store.increment("ada");
      await pass(MINUTE_MS + 1_000);
      await store.decrement("ada");
      assert.equal(await store.get("ada"), undefined);
      assert.equal((await store.increment("ada")).totalHits, 1);
    });

    test(`${name}: resetKey and getKey of the middleware`, async (t) => {
      const { limiter } = await open(t);
      const { handler, get } = await startApp(t, version, { windowMs: MINUTE_MS, limit: 1 }, { limiter });
      assert.equal(await handler.getKey("ada"), undefined);
      await get("ada");
      assert.equal((await get("ada")).status, 429);
      assert.equal((await handler.getKey("ada"))?.totalHits, 2);
      await handler.resetKey("ada");
      assert.equal((await get("ada")).status, 200);
      assert.equal((await handler.getKey("ada"))?.totalHits, 1);
    });

    test(`${name}: keys of any length and kind are told apart`, async (t) => {
      const { limiter } = await open(t);
      const app = await startApp(t, version, { windowMs: MINUTE_MS, limit: 1 }, { limiter });
      const long = "x".repeat(2_000);
      for (const key of ["::1", "auth0|42", `${long}1`, `${long}2`, "sha256-x"]) {
        assert.equal((await app.get(key)).status, 200, key);
        assert.equal((await app.get(key)).status, 429, key);
      }
      const bare = storeOf(limiter, { prefix: "" });
      assert.equal((await bare.increment("")).totalHits, 1);
      assert.equal((await bare.increment("")).totalHits, 2);
      const number: unknown = 7;
      assert.equal((await bare.increment(number as string)).totalHits, 1);
    });

    test(`${name}: what is switched off, or over its total, is refused, also with passOnStoreError`, async (t) => {
      const { limiter } = await open(t);
      const options = { windowMs: MINUTE_MS, limit: 100, ...(major === 8 ? { passOnStoreError: true } : {}) };
      const app = await startApp(t, version, options, { limiter });
      await limiter.setSystemTotals([Limit.perMinute("all", 1, { counts: "requests" })]);
      assert.equal((await app.get("ada")).status, 200);
      assert.equal((await app.get("ada")).status, 429);
      await limiter.setAccess({ resource: "express-rate-limit" }, "disabled");
      assert.equal((await app.get("grace")).status, 429);
      await limiter.setAccess({ resource: "express-rate-limit" }, "bypass");
      for (let i = 0; i < 3; i++) {
        const passed = await app.get("ada");
        assert.equal(passed.status, 200);
        assert.equal(passed.headers.get("x-ratelimit-remaining"), "99");
      }
    });
  }
}

function storeOf(limiter: Ground["limiter"], options: { readonly prefix?: string } = {}): LimiterStore {
  const store = new LimiterStore({ limiter, ...options });
  store.init({ windowMs: MINUTE_MS });
  return store;
}

/** Takes come back while the client has its answer already. */
async function settledAt(store: LimiterStore, key: string, hits: number): Promise<void> {
  for (;;) {
    const { totalHits } = (await store.get(key)) ?? {};
    if (totalHits === hits) return;
    await new Promise((resolve) => setImmediate(resolve));
  }
}
