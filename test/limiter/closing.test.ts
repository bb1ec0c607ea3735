import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, type TestContext, test } from "node:test";
import { promisify } from "node:util";
import { Limiter } from "../../src/engine/limiter/limiter.ts";
import { CHANNELS, Limit, LimiterError, RateLimiter } from "../../src/entry/index.ts";
import { openMemory } from "../../src/entry/memory.ts";
import { prepare } from "../../src/entry/open.ts";
import { STORE_KINDS } from "../../src/entry/store-kinds.ts";
import { FaultStore } from "../../src/testing/fault-store.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { plainEnvironment } from "../docs/readme.ts";
import { deferred } from "../engines/http-kit.ts";
import { tempFile } from "../sqlite/temp-store.ts";
import { EVERY_STORE } from "./every-store.ts";
import { gpt, heldBy, openLimiter } from "./limiter-kit.ts";
import { heard } from "./listening.ts";

const T0 = Date.UTC(2026, 2, 15, 12);
const isClosed = (error: unknown) => error instanceof LimiterError && error.code === "closed";

for (const [name, openStore] of EVERY_STORE) {
  describe(`closing on ${name}`, () => {
    /** A limiter that owns its store, as one opened by name does. */
    async function open(t: TestContext) {
      const clock = new SimulatedClock(T0);
      const { store, options } = openStore(clock, t);
      const { deps, settings } = await prepare({ store, clock, ...options }, Object.values(STORE_KINDS));
      const limiter = new Limiter(deps, settings, true);
      await limiter.setResourceDefaults("gpt-4", [Limit.perMinute("rpm", 60), Limit.perMinute("tpm", 6_000)]);
      return { limiter, clock };
    }

    test("who waits is rejected at once, and what is new is refused", async (t) => {
      const { limiter } = await open(t);
      await limiter.acquire({ ...gpt, consume: { rpm: 60 } });
      const waiting = [1, 2, 3].map((rpm) =>
        limiter.acquire({ ...gpt, consume: { rpm }, wait: { maxMs: 3_600_000 } }).catch((error: unknown) => error),
      );
      await turns();
      const closing = limiter.close();
      for (const outcome of await Promise.all(waiting)) assert.ok(isClosed(outcome), String(outcome));
      await assert.rejects(limiter.acquire({ ...gpt, consume: { rpm: 1 } }), isClosed);
      await assert.rejects(limiter.tryAcquire({ ...gpt, consume: { rpm: 1 } }), isClosed);
      await assert.rejects(
        limiter.withLease({ ...gpt, consume: { rpm: 1 } }, () => 1),
        isClosed,
      );
      assert.throws(() => limiter.tryAcquireSync({ ...gpt, consume: { rpm: 1 } }), isClosed);
      await assert.rejects(limiter.available(gpt), isClosed);
      await assert.rejects(limiter.createEntity({ id: "new" }), isClosed);
      await assert.rejects(async () => limiter.usage({ window: "hourly" }), isClosed);
      assert.equal(await limiter.isAvailable(), false);
      await closing;
      await limiter.close();
    });

    test("a body that ends after the store was closed keeps its value, and what was not stored is told", async (t) => {
      const { limiter } = await open(t);
      const degraded = heard(t, CHANNELS.degraded);
      const { promise: work, resolve: workEnds } = deferred<void>();
      const body = limiter.withLease({ ...gpt, consume: { rpm: 1, tpm: 500 } }, async (lease) => {
        await work;
        await lease.adjust({ tpm: 250 });
        await lease.release({ rpm: 1 });
        await assert.rejects(lease.consume({ tpm: 1 }), isClosed);
        return "the answer";
      });
      await turns();
      await limiter.close();
      workEnds();
      assert.equal(await body, "the answer");
      assert.deepEqual(
        degraded.map(({ reason }) => reason),
        ["an adjustment is not stored yet", "a give-back is not stored", "an adjustment could not be stored"],
      );
    });

    test("a body that throws after the store was closed has thrown what it threw", async (t) => {
      const { limiter } = await open(t);
      const { promise: work, resolve: workEnds } = deferred<void>();
      const body = limiter.withLease({ ...gpt, consume: { rpm: 1 } }, async () => {
        await work;
        throw new Error("the model is down");
      });
      const outcome = body.catch((error: Error) => error.message);
      await turns();
      await limiter.close();
      workEnds();
      assert.equal(await outcome, "the model is down");
    });

    test("close({ drainMs }) waits for bodies, and what they adjust is stored", async (t) => {
      const { limiter, clock } = await open(t);
      const degraded = heard(t, CHANNELS.degraded);
      const charged = heard(t, CHANNELS.charged);
      const body = limiter.withLease({ ...gpt, consume: { tpm: 500 } }, async (lease) => {
        await clock.sleep(2_000, undefined);
        await lease.adjust({ tpm: 250 });
        await lease.consume({ tpm: 10 });
        return lease.consumed.tpm;
      });
      await turns();
      let isDone = false;
      const closing = limiter.close({ drainMs: 10_000 }).then(() => {
        isDone = true;
      });
      await clock.advance(1_999);
      assert.equal(isDone, false, "the body is still at work");
      await clock.advance(1);
      await closing;
      assert.equal(await body, 760);
      assert.equal(clock.now(), T0 + 2_000, "no longer than the body");
      assert.deepEqual(
        charged.map(({ amounts }) => amounts),
        [{ tpm: 250 }, { tpm: 10 }],
      );
      assert.deepEqual(degraded, []);
    });

    test("close({ drainMs }) waits no longer than that", async (t) => {
      const { limiter, clock } = await open(t);
      const body = limiter.withLease({ ...gpt, consume: { tpm: 500 } }, () => clock.sleep(60_000, undefined));
      await turns();
      let isDone = false;
      const closing = limiter.close({ drainMs: 5_000 }).then(() => {
        isDone = true;
      });
      await clock.advance(4_999);
      assert.equal(isDone, false);
      await clock.advance(1);
      await closing;
      await clock.advance(60_000);
      await body;
    });

    test("what is under way at the store is answered before it closes", async (t) => {
      const { limiter } = await open(t);
      const taken = limiter.acquire({ ...gpt, consume: { rpm: 1 } });
      const closing = limiter.close();
      assert.equal((await taken).consumed.rpm, 1);
      await closing;
    });

    test("a change under way is made before the store closes", async (t) => {
      const { limiter } = await open(t);
      const changed = limiter.setSystemDefaults([Limit.perMinute("rpm", 5)]);
      await Promise.all([changed, limiter.close()]);
    });
  });
}

test("a waiter does not keep the process alive after closing, and an open limiter does not either", async (t) => {
  const folder = await mkdtemp(join(tmpdir(), "closing-"));
  t.after(() => rm(folder, { recursive: true }));
  const entry = new URL("../../src/entry/index.ts", import.meta.url).href;
  const program = `
    import { Limit, RateLimiter } from ${JSON.stringify(entry)};
    for (const store of ["memory", "sqlite:limiter.db"]) {
      const limiter = await RateLimiter.open({ store });
      await limiter.setSystemDefaults([Limit.perHour("rpm", 1)]);
      const request = { entityId: "a", resource: "api", consume: { rpm: 1 } };
      await limiter.acquire(request);
      const waiting = limiter.acquire({ ...request, wait: { maxMs: 3_600_000 } }).catch(({ code }) => code);
      const never = limiter.withLease({ entityId: "b", resource: "api", consume: { rpm: 1 } }, () => new Promise(() => {}));
      never.catch(() => {});
      await new Promise((resolve) => setImmediate(resolve));
      await limiter.close();
      console.log(await waiting);
    }
    await RateLimiter.open({ store: "sqlite:limiter.db" });
  `;
  await writeFile(join(folder, "program.mts"), program);
  const run = promisify(execFile);
  const { stdout } = await run(process.execPath, ["program.mts"], { cwd: folder, env: plainEnvironment() });
  assert.equal(stdout, "closed\nclosed\n");
});

test("SQLite has on file what bodies adjusted while the limiter drained", async (t) => {
  const store = `sqlite:${tempFile(t)}`;
  const clock = new SimulatedClock(T0);
  const limiter = await RateLimiter.open({ store, clock });
  await limiter.setResourceDefaults("gpt-4", [Limit.perMinute("tpm", 6_000)]);
  const body = limiter.withLease({ ...gpt, consume: { tpm: 500 } }, async (lease) => {
    await clock.sleep(1_000, undefined);
    await lease.adjust({ tpm: -400 });
  });
  await turns();
  const closing = limiter.close({ drainMs: 5_000 });
  await clock.advance(1_000);
  await Promise.all([closing, body]);
  const again = await RateLimiter.open({ store, clock });
  t.after(() => again.close());
  const [usage] = await again.usage({ window: "hourly" });
  assert.deepEqual(usage?.counters, { tpm: 100 });
});

test("closing a limiter on a namespace leaves the others and the store open; closing the first closes all", async () => {
  const { limiter } = await openLimiter();
  await limiter.registerNamespace("tenant");
  const [one, other] = [limiter.namespace("tenant"), limiter.namespace("tenant")];
  await one.setSystemDefaults([Limit.perMinute("rpm", 1)]);
  const request = { ...gpt, consume: { rpm: 1 } };
  await other.acquire(request);
  await one.close();
  await assert.rejects(one.acquire(request), isClosed);
  assert.equal((await other.tryAcquire(request)).ok, false);
  assert.equal((await limiter.tryAcquire(request)).ok, true);
  const waiting = other.acquire({ ...request, wait: { maxMs: 60_000 } }).catch((error: unknown) => error);
  await turns();
  await limiter.close();
  assert.ok(isClosed(await waiting));
  await assert.rejects(other.acquire(request), isClosed);
  assert.throws(() => limiter.namespace("tenant"), isClosed);
});

test("a store that was given stays open: leases are still stored after their limiter was closed", async () => {
  const store = openMemory();
  const clock = new SimulatedClock(T0);
  const [closed, other] = [await RateLimiter.open({ store, clock }), await RateLimiter.open({ store, clock })];
  await other.setResourceDefaults("gpt-4", [Limit.perMinute("tpm", 6_000)]);
  const lease = await closed.acquire({ ...gpt, consume: { tpm: 500 } });
  await closed.close();
  await lease.adjust({ tpm: 250 });
  assert.deepEqual(await heldBy(other, "key-1"), { "key-1.tpm": 5_250 });
  await lease.rollback();
  assert.deepEqual(await heldBy(other, "key-1"), { "key-1.tpm": 6_000 });
});

test("closing waits for a take under way and for what it gives back when it is refused", async () => {
  const { promise: mayGoOn, resolve: goOn } = deferred<void>();
  let isHeld = false;
  const store = new FaultStore(openMemory(), { split: true, pause: () => (isHeld ? mayGoOn : Promise.resolve()) });
  const { deps, settings } = await prepare({ store, clock: new SimulatedClock(T0) }, Object.values(STORE_KINDS));
  const limiter = new Limiter(deps, settings, true);
  await limiter.setResourceDefaults("gpt-4", [Limit.perMinute("rpm", 60)]);
  await limiter.createEntity({ id: "proj" });
  await limiter.createEntity({ id: "key-1", parentId: "proj", cascade: true });
  await limiter.setLimits("proj", [Limit.perMinute("rpm", 5)]);
  await limiter.acquire({ ...gpt, consume: { rpm: 5 } });
  isHeld = true;
  const refused = limiter.tryAcquire({ ...gpt, consume: { rpm: 1 } });
  await turns();
  let isDone = false;
  const closing = limiter.close().then(() => {
    isDone = true;
  });
  await turns();
  assert.equal(isDone, false, "the take is under way");
  goOn();
  assert.equal((await refused).ok, false);
  await closing;
  const [state] = await deps.scope.buckets.read([{ id: "key-1\ngpt-4", entityId: "key-1", resource: "gpt-4" }]);
  assert.equal(state?.limits[0]?.tokensMilli, 55_000, "what the key had given was given back");
});

test("drainMs that is no number of milliseconds is refused, and nothing is closed", async () => {
  const { limiter } = await openLimiter();
  for (const drainMs of [-1, Number.NaN, "5"] as never[]) {
    await assert.rejects(limiter.close({ drainMs }), /drainMs is .*milliseconds/);
  }
  assert.equal((await limiter.tryAcquire({ ...gpt, consume: { rpm: 1 } })).ok, true);
});

/** Lets everything run that can run without time passing. */
async function turns(): Promise<void> {
  for (let i = 0; i < 10; i++) await new Promise((resolve) => setImmediate(resolve));
}
