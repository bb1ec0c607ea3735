import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import {
  type Lease,
  LimiterError,
  type OpenOptions,
  RateLimitExceeded,
  type RateLimiter,
  RateLimiterUnavailable,
} from "../../src/entry/index.ts";
import { describeDynamo } from "./dynamodb-local.ts";
import { assertUnavailable, CAPACITY, faultGround, HASTY_MS, leftOf, type Scene, tokens } from "./fault-kit.ts";
import { always, isRead, isTake, type Kind, ofEntity } from "./fault-passages.ts";
import { AFTER, BEFORE, type Fault, HOPELESS } from "./fault-proxy.ts";

const CODES: Readonly<Record<keyof typeof HOPELESS, string>> = {
  "access is denied": "access_denied",
  "the request is called invalid": "store_refused",
  "the table is gone": "table_not_found",
};
/** By a clock that only sleepers move: enough for a busy machine, and little to wait for. */
const UNHURRIED_MS = 5_000;
const HANGS: readonly string[] = ["the request is dropped", "the answer is dropped"];
const PASSING: readonly (readonly [string, Fault])[] = Object.entries({ ...BEFORE, ...AFTER });

/**
 * A clock that goes on only while somebody sleeps: waiting between attempts costs no time. But the time that a request has is a wait,
 * too, which only a store that hangs would see the end of.
 */
function sleepersClock(): NonNullable<OpenOptions["clock"]> {
  let nowMs = 1_800_000_000_000;
  return {
    now: () => nowMs,
    sleep: async (ms, signal) => {
      if (ms > UNHURRIED_MS / 2)
        await pause(ms, undefined, { ref: false, ...(signal === undefined ? {} : { signal }) });
      nowMs += ms;
    },
  };
}

await describeDynamo("what a fault means", (dynamodb) => {
  const ground = faultGround(dynamodb);

  for (const [name, fault] of Object.entries(HOPELESS) as [keyof typeof HOPELESS, Fault][]) {
    const isHopeless = (error: unknown) =>
      error instanceof LimiterError && !(error instanceof RateLimiterUnavailable) && error.code === CODES[name];

    test(`${name}: no outage, and nobody is let in by a policy for outages`, async (t) => {
      const scene = await ground.scene(t);
      const limiter = await scene.process({ onUnavailable: "allow", configTtlMs: 0 });
      const before = await scene.levels();
      const lease = await scene.take(limiter, 1);
      for (const is of [isTake, isRead] as Kind[]) {
        scene.proxy.choose = always(fault, is);
        const seen = await scene.proxy.during(() => assert.rejects(scene.take(limiter, 1), isHopeless));
        assert.ok(seen.filter(is).length <= 2, "it was asked again");
      }
      scene.proxy.choose = always(fault, isTake);
      await assert.rejects(lease.consume(tokens(1)), isHopeless);
      scene.proxy.choose = () => undefined;
      assert.deepEqual(await scene.levels(), leftOf(before, { ada: 1, bob: 0 }));
      assert.equal(await scene.isGranted(limiter), true);
    });

    test(`${name}, at the parent only: the child gets back what it gave`, async (t) => {
      const scene = await ground.scene(t);
      const limiters = await scene.processes({ onUnavailable: "allow" });
      const before = await scene.levels();
      scene.proxy.choose = always(fault, ofEntity(scene.family.parent, isTake));
      const { granted, failed } = await scene.takeAll(limiters, 6);
      assert.deepEqual(granted, []);
      for (const error of failed) assert.ok(isHopeless(error), `${error}`);
      assert.deepEqual(await scene.levels(), before);
    });

    test(`${name}: a limiter does not open, and says so at once`, async (t) => {
      const scene = await ground.scene(t);
      scene.proxy.choose = always(fault, isRead);
      const seen = await scene.proxy.during(() => assert.rejects(scene.open(), isHopeless));
      assert.equal(seen.length, 1);
    });
  }

  for (const [name, fault] of PASSING) {
    test(`${name} when limits are read: an outage by the policy, and then it goes on`, async (t) => {
      const scene = await ground.scene(t);
      const isHanging = HANGS.includes(name);
      const clock = isHanging ? {} : { clock: sleepersClock() };
      const options = { ...clock, timeoutMs: isHanging ? HASTY_MS : UNHURRIED_MS, configTtlMs: 0 };
      const block = await scene.open(options);
      const allow = await scene.open({ ...options, onUnavailable: "allow" });
      scene.proxy.choose = always(fault, isRead);
      assertUnavailable((await scene.takeAll([block], 4)).failed);
      const { granted } = await scene.takeAll([allow], 4);
      assert.equal(granted.length, 4);
      for (const lease of granted) {
        assert.match(String(lease.degraded), /^the store was unavailable: ./);
        assert.deepEqual(lease.consumed, {});
        await harmless(lease);
      }
      assert.deepEqual(await scene.levels(), { parent: CAPACITY, ada: CAPACITY, bob: CAPACITY });
      scene.proxy.choose = () => undefined;
      await scene.assertRecovered(block);
    });
  }

  test("reads that fail come to an end also by a clock that stands still", async (t) => {
    const scene = await ground.scene(t);
    const limiter = await scene.open({ timeoutMs: HASTY_MS });
    for (const name of ["the request is dropped", "the service is unavailable"] as const) {
      scene.proxy.choose = always(BEFORE[name], isRead);
      assertUnavailable((await scene.takeAll([limiter], 1)).failed);
    }
    scene.proxy.choose = () => undefined;
    await scene.assertRecovered(limiter);
  });

  test("nobody is there when a limiter opens: an outage, and no limiter", async (t) => {
    const scene = await ground.scene(t);
    await scene.proxy.stop();
    await assert.rejects(scene.open({ clock: sleepersClock() }), RateLimiterUnavailable);
    await scene.proxy.start();
    assert.equal(await scene.isGranted(await scene.open()), true);
  });

  test("everybody goes away and comes back: an outage by the policy, and then it goes on", async (t) => {
    const scene = await ground.scene(t);
    const block = await scene.process({ clock: sleepersClock() });
    const allow = await scene.process({ clock: sleepersClock(), onUnavailable: "allow" });
    const before = await scene.levels();
    await scene.proxy.stop();
    const { granted, failed } = await scene.takeAll([block], 6);
    assert.deepEqual(granted, []);
    assertUnavailable(failed);
    for (const lease of (await scene.takeAll([allow], 6)).granted) {
      assert.match(String(lease.degraded), /^the store was unavailable: ./);
    }
    assert.deepEqual(await scene.levels(), before);
    await scene.proxy.start();
    for (const limiter of [block, allow]) assert.equal((await scene.take(limiter, 1)).degraded, false);
    assert.deepEqual(await scene.levels(), { ...before, ada: before.ada - 2, parent: before.parent - 2 });
  });

  test("the policy that is stored counts where the limiter has none of its own, also when it cannot be read", async (t) => {
    const scene = await ground.scene(t);
    const limiter = await scene.open({ timeoutMs: UNHURRIED_MS, clock: sleepersClock(), configTtlMs: 0 });
    const { limits } = await limiter.getSystemDefaults();
    await limiter.setSystemDefaults(limits, { onUnavailable: "allow" });
    try {
      assert.equal((await scene.take(limiter, 1)).degraded, false);
      for (const is of [isTake, isRead] as Kind[]) {
        scene.proxy.choose = always(BEFORE["the service is unavailable"], is);
        assert.match(String((await scene.take(limiter, 1)).degraded), /unavailable/);
      }
    } finally {
      scene.proxy.choose = () => undefined;
      await limiter.setSystemDefaults(limits, { onUnavailable: "block" });
    }
  });

  test("whatever hangs, an answer comes within a small multiple of the time that was given", async (t) => {
    const scene = await ground.scene(t);
    const timeoutMs = 500;
    const limiters = await Promise.all([
      scene.open({ timeoutMs, clock: { now: () => Date.now() } }),
      scene.open({ timeoutMs, clock: { now: () => Date.now() }, configTtlMs: 0 }),
    ]);
    for (const limiter of limiters) await met(scene, limiter);
    for (const fault of [BEFORE["the request is dropped"], AFTER["the answer is dropped"]]) {
      scene.proxy.choose = () => fault;
      // A timer beside it: a machine that is busy holds both up.
      let isTooLate = false;
      const limit = setTimeout(() => {
        isTooLate = true;
      }, 10 * timeoutMs);
      const { granted, failed } = await scene.takeAll(limiters, 8);
      assert.deepEqual(granted, []);
      assertUnavailable(failed);
      clearTimeout(limit);
      assert.equal(isTooLate, false);
    }
  });

  test("changes and purchases are made once, though every first answer is lost", async (t) => {
    const scene = await ground.scene(t);
    const limiter = await scene.open();
    const { parent, ada, resource } = scene.family;
    await scene.take(limiter, 9);
    const met = new Set<unknown>();
    scene.proxy.choose = ({ operation, input }) => {
      if (operation !== "TransactWriteItems" || met.has(input.ClientRequestToken)) return undefined;
      met.add(input.ClientRequestToken);
      return AFTER["the connection is reset before the answer got through"];
    };
    await limiter.createEntity({ id: `${ada}-child`, parentId: parent });
    assert.equal((await limiter.getEntity(`${ada}-child`)).parentId, parent);
    const bought = await limiter.topUp({ entityId: ada, resource, amounts: tokens(2), idempotencyKey: "once" });
    assert.equal(bought.repeated, false);
    assert.deepEqual(await scene.levels(), { parent: CAPACITY - 9, ada: CAPACITY - 7, bob: CAPACITY });
    assert.ok(met.size >= 2);
  });
});

/** Nothing of a lease that was let through reaches the store. */
async function harmless(lease: Lease): Promise<void> {
  await lease.adjust(tokens(5));
  await lease.release(tokens(1));
  await lease.rollback();
}

/** As often as it takes on a busy machine: a stranger's first reads and takes have little time here. */
async function met(scene: Scene, limiter: RateLimiter): Promise<void> {
  for (let attempt = 0; attempt < 20; attempt++) {
    const { failed } = await scene.takeAll([limiter], 2);
    if (failed.every((error) => error instanceof RateLimitExceeded)) return;
  }
  assert.fail("the limiter never got to know the family");
}
