import assert from "node:assert/strict";
import { test } from "node:test";
import { RateLimitExceeded, type RateLimiter } from "../../src/entry/index.ts";
import { describeDynamo } from "./dynamodb-local.ts";
import {
  assertUnavailable,
  FAULTS,
  faultGround,
  HASTY_MS,
  type Levels,
  leftOf,
  PATIENT_MS,
  type Scene,
  SOME_FAULTS,
  tokens,
} from "./fault-kit.ts";
import { always, assertDoneOnce, firstTries, isDone, isTake, isTransaction, ofEntity } from "./fault-passages.ts";
import { AFTER, BEFORE } from "./fault-proxy.ts";

const HANGS: readonly string[] = ["the request is dropped", "the answer is dropped"];
/** Others are at the item all the time: that is a refusal and no outage, whatever the policy. */
const CONFLICT = "a transaction is in the way";
const ASKED = 6;

const isAfter = (name: string) => name in AFTER;

/** One write goes out four times at most while it certainly was not done, and in no more rounds than there are. */
const sendsMax = (name: string) => (name === CONFLICT ? 28 : 4);

await describeDynamo("takes under faults", (dynamodb) => {
  const ground = faultGround(dynamodb);

  const processesFor = (scene: Scene, name: string): Promise<readonly RateLimiter[]> =>
    scene.processes({ timeoutMs: HANGS.includes(name) ? HASTY_MS : PATIENT_MS });

  for (const [name, fault] of FAULTS.filter(([name]) => !HANGS.includes(name))) {
    test(`${name}, once for each write: everybody is granted, and each take counts once`, async (t) => {
      const scene = await ground.scene(t);
      const limiters = await scene.processes();
      const before = await scene.levels();
      scene.proxy.choose = firstTries(fault);
      const { granted, failed } = await scene.takeAll(limiters, 12);
      assert.deepEqual(failed, []);
      assert.deepEqual(new Set(granted.map(({ degraded }) => degraded)), new Set([false]));
      // What goes on beside the takes is over then.
      await Promise.all(limiters.map((limiter) => limiter.close()));
      assert.deepEqual(await scene.levels(), leftOf(before, { ada: 6, bob: 6 }));
    });
  }

  for (const [name, fault] of SOME_FAULTS) {
    const isHanging = HANGS.includes(name);

    test(`${name}, for as long as it lasts: nobody is granted, everybody is told, and then it goes on`, async (t) => {
      const scene = await ground.scene(t);
      const limiters = await processesFor(scene, name);
      const before = await scene.levels();
      scene.proxy.choose = always(fault, isTake);
      const seen = await scene.proxy.during(async () => {
        const { granted, failed } = await scene.takeAll(limiters, ASKED);
        assert.deepEqual(granted, []);
        if (name === CONFLICT) for (const error of failed) assert.ok(error instanceof RateLimitExceeded);
        else assertUnavailable(failed);
      });
      const sent = seen.filter(isTake).length;
      assert.ok(sent <= 2 * ASKED * sendsMax(name), `${sent} writes for ${ASKED} requests of two levels`);

      // What was done unseen counts, and once; what was not done does not count.
      assertDoneOnce(seen);
      await Promise.all(limiters.map((limiter) => limiter.close()));
      const each = isAfter(name) ? ASKED / 2 : 0;
      const least = leftOf(before, { ada: each, bob: each });
      const levels = await scene.levels();
      if (isHanging) assertWithin(levels, least, before);
      else assert.deepEqual(levels, least);

      scene.proxy.choose = () => undefined;
      assert.equal(await scene.drain(await scene.open()), levels.parent);
    });

    test(`${name}, at the parent only: the child gets back what it gave`, async (t) => {
      const scene = await ground.scene(t);
      const limiters = await processesFor(scene, name);
      const before = await scene.levels();
      scene.proxy.choose = always(fault, ofEntity(scene.family.parent, isTake));
      const { granted, failed } = await scene.takeAll(limiters, ASKED);
      assert.deepEqual(granted, []);
      if (name !== CONFLICT) assertUnavailable(failed);
      await Promise.all(limiters.map((limiter) => limiter.close()));
      const least = { ...before, parent: before.parent - (isAfter(name) ? ASKED : 0) };
      const levels = await scene.levels();
      if (isHanging) assertWithin(levels, { ...least, ada: before.ada - 3, bob: before.bob - 3 }, before);
      else assert.deepEqual(levels, least);
    });
  }

  test("who takes from all levels together or not at all is counted once, or told", async (t) => {
    const scene = await ground.scene(t);
    const limiter = await scene.process();
    const { ada: entityId, resource } = scene.family;
    const take = () => limiter.acquire({ entityId, resource, consume: tokens(2), atomic: true });
    for (const [name, fault] of SOME_FAULTS.filter(([name]) => !HANGS.includes(name))) {
      const before = await scene.levels();
      let met = 0;
      scene.proxy.choose = (passage) => (isTransaction(passage) && met++ === 0 ? fault : undefined);
      // What nobody knows the outcome of is asked for again by the same name, what was not done is done anew.
      const lease = await take();
      assert.deepEqual(await scene.levels(), leftOf(before, { ada: 2, bob: 0 }), name);
      await lease.rollback();
      assert.deepEqual(await scene.levels(), before, name);

      scene.proxy.choose = always(fault, isTransaction);
      const error = await take().catch((error: unknown) => error);
      if (name === CONFLICT) assert.ok(error instanceof RateLimitExceeded);
      else assertUnavailable([error]);
      assert.deepEqual(await scene.levels(), leftOf(before, { ada: isAfter(name) ? 2 : 0, bob: 0 }), name);
    }
  });

  test("an item that is throttled is split, and its shards have together what it had", async (t) => {
    const scene = await ground.scene(t);
    const limiters = await scene.processes();
    const before = await scene.levels();
    scene.proxy.choose = firstTries(BEFORE["the item is throttled"]);
    const { granted, failed } = await scene.takeAll(limiters, ASKED);
    assert.deepEqual(failed, []);
    assert.equal(granted.length, ASKED);
    await Promise.all(limiters.map((limiter) => limiter.close()));
    assert.ok(scene.proxy.passages.some((passage) => isTransaction(passage) && isDone(passage)));
    const left = leftOf(before, { ada: ASKED / 2, bob: ASKED / 2 });
    assert.deepEqual(await scene.levels(), left);
    scene.proxy.choose = () => undefined;
    assert.equal(await scene.drain(await scene.open()), left.parent);
  });

  test("an outage of which the policy is `allow` lets everybody through, uncounted, and says why", async (t) => {
    const scene = await ground.scene(t);
    const limiters = await scene.processes({ onUnavailable: "allow" });
    const before = await scene.levels();
    for (const [name, fault] of SOME_FAULTS.filter(([name]) => !HANGS.includes(name) && !isAfter(name))) {
      scene.proxy.choose = always(fault, isTake);
      const { granted, failed } = await scene.takeAll(limiters, ASKED);
      if (name === CONFLICT) {
        assert.deepEqual(granted, []);
        for (const error of failed) assert.ok(error instanceof RateLimitExceeded);
        continue;
      }
      assert.deepEqual(failed, [], name);
      for (const lease of granted) {
        assert.match(String(lease.degraded), /^the store was unavailable: ./, name);
        assert.deepEqual(lease.consumed, { rpd: 0 });
        // There is nothing to give back.
        await lease.rollback();
      }
      assert.deepEqual(await scene.levels(), before, name);
    }
  });
});

/** Where things hang there is little time, and on a busy machine some may have run out of it before they were sent. */
function assertWithin(levels: Levels, least: Levels, most: Levels): void {
  for (const name of ["parent", "ada", "bob"] as const) {
    assert.ok(levels[name] >= least[name] && levels[name] <= most[name], `${name} has ${levels[name]}`);
  }
}
