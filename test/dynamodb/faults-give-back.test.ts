import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import type { Lease } from "../../src/entry/index.ts";
import { describeDynamo } from "./dynamodb-local.ts";
import {
  assertUnavailable,
  faultGround,
  HASTY_MS,
  leftOf,
  PATIENT_MS,
  promised,
  type Scene,
  SOME_FAULTS,
  tokens,
} from "./fault-kit.ts";
import { always, isDone, isGiveBack, isTake, type Kind, ofEntity } from "./fault-passages.ts";
import { AFTER, answerHeldUntil, BEFORE, type Fault, passing, requestHeldUntil } from "./fault-proxy.ts";

/** The service says itself that nothing was done: only then is a give-back sent again. */
const CERTAIN: readonly string[] = ["the item is throttled", "the account is throttled", "a transaction is in the way"];
const HANGS: readonly string[] = ["the request is dropped", "the answer is dropped"];
const LEASES = 6;

function throttledAfter(released: Promise<unknown>): Fault {
  return async (crossing) => {
    await released;
    await BEFORE["the item is throttled"](crossing);
  };
}

await describeDynamo("give-backs under faults", (dynamodb) => {
  const ground = faultGround(dynamodb);

  for (const [name, fault] of SOME_FAULTS) {
    test(`${name}: nothing is given back twice, and what nobody knows of is not given back again`, async (t) => {
      const { scene, granted } = await allGranted(t, HANGS.includes(name) ? HASTY_MS : PATIENT_MS);
      const taken = await scene.levels();
      const writes = 2 * granted.length;
      const isCertain = CERTAIN.includes(name);
      let met = 0;
      scene.proxy.choose = (passage) => {
        if (!isGiveBack(passage)) return undefined;
        // What certainly was not done is sent again, and gets through then.
        return isCertain && ++met > writes ? passing : fault;
      };
      const known = scene.proxy.passages.filter(isGiveBack).length;
      const seen = await scene.proxy.during(async () => {
        await Promise.all(granted.map((lease) => lease.rollback()));
        // On a busy machine a give-back comes here, and is done, after its caller has gone.
        await scene.proxy.until(known + writes, isGiveBack);
        await scene.proxy.idle();
      });
      const sent = seen.filter(isGiveBack);
      if (!isCertain) assert.equal(sent.length, writes);
      const isGiven = isCertain || name in AFTER;
      assert.equal(sent.filter(isDone).length, isGiven ? writes : 0);
      const levels = await scene.levels();
      const given = isGiven ? granted.length : 0;
      assert.equal(levels.parent, taken.parent + given);
      assert.equal(levels.ada + levels.bob, taken.ada + taken.bob + given);
      // A lease that was rolled back has nothing more to give.
      await Promise.all(granted.map((lease) => lease.rollback()));
      assert.deepEqual(await scene.levels(), levels);
    });
  }

  /** Leases for everybody. Where things hang there is little time: if a busy machine was too slow for it, with twice as much. */
  async function allGranted(t: TestContext, timeoutMs: number): Promise<{ scene: Scene; granted: readonly Lease[] }> {
    const scene = await ground.scene(t);
    const { granted, failed } = await scene.takeAll(await scene.processes({ timeoutMs }), LEASES);
    await scene.proxy.idle();
    if (failed.length === 0) return { scene, granted };
    assert.ok(timeoutMs < PATIENT_MS, `${failed.length} of ${LEASES} were not granted: ${failed[0]}`);
    return allGranted(t, timeoutMs * 2);
  }

  test("a give-back whose refusal comes when its caller has gone is sent again", async (t) => {
    const scene = await ground.scene(t);
    const limiter = await scene.process({ timeoutMs: HASTY_MS });
    const before = await scene.levels();
    const lease = await scene.take(limiter, 2);
    const known = scene.proxy.passages.filter(isGiveBack).length;
    const late = promised();
    let met = 0;
    scene.proxy.choose = (passage) => (isGiveBack(passage) && ++met <= 2 ? throttledAfter(late.kept) : undefined);
    await lease.rollback();
    assert.deepEqual(await scene.levels(), leftOf(before, { ada: 2, bob: 0 }));
    late.keep();
    await scene.proxy.until(known + 4, isGiveBack);
    await limiter.close();
    await scene.proxy.idle();
    assert.equal(scene.proxy.passages.filter(isGiveBack).length, known + 4);
    assert.deepEqual(await scene.levels(), before);
  });

  test("releases and adjustments downwards are as careful as rollbacks", async (t) => {
    const scene = await ground.scene(t);
    const limiter = await scene.process();
    const before = await scene.levels();
    const lease = await scene.take(limiter, 6);
    scene.proxy.choose = always(AFTER["the connection is reset before the answer got through"], isGiveBack);
    await lease.release(tokens(2));
    await lease.adjust(tokens(-1));
    assert.deepEqual(await scene.levels(), leftOf(before, { ada: 3, bob: 0 }));
    await lease.rollback();
    assert.deepEqual(await scene.levels(), before);
  });

  for (const [what, hold] of [
    ["answer", answerHeldUntil],
    ["request", requestHeldUntil],
  ] as const) {
    test(`a take whose ${what} was held up until everybody had been sent away is given back, once`, async (t) => {
      const scene = await ground.scene(t);
      const limiter = await scene.process({ timeoutMs: HASTY_MS });
      const before = await scene.levels();
      const known = scene.proxy.passages.length;
      const late = promised();
      scene.proxy.choose = always(hold(late.kept), isTake);
      assertUnavailable([await scene.take(limiter, 1).catch((error: unknown) => error)]);
      late.keep();
      const isBack: Kind = (passage) =>
        isGiveBack(passage) && isDone(passage) && scene.proxy.passages.indexOf(passage) >= known;
      await scene.proxy.until(2, isBack);
      await limiter.close();
      await scene.proxy.idle();
      assert.deepEqual(await scene.levels(), before);
      assert.equal(scene.proxy.passages.filter(isBack).length, 2);
    });
  }

  test("a take that lands when its process is gone costs its amount, and nobody else anything", async (t) => {
    const scene = await ground.scene(t);
    const gone = await scene.process({ timeoutMs: HASTY_MS });
    const before = await scene.levels();
    const late = promised();
    scene.proxy.choose = always(requestHeldUntil(late.kept), isTake);
    const known = scene.proxy.passages.filter(isTake).length;
    assertUnavailable([await scene.take(gone, 1).catch((error: unknown) => error)]);
    await scene.proxy.until(known + 2, isTake);
    await gone.close();
    assert.deepEqual(await scene.levels(), before);
    late.keep();
    await scene.proxy.idle();
    scene.proxy.choose = () => undefined;
    const left = leftOf(before, { ada: 1, bob: 0 });
    assert.deepEqual(await scene.levels(), left);
    assert.equal(await scene.drain(await scene.open()), left.parent);
  });

  test("an adjustment upwards that turns out to have been stored late stays stored: the work was done", async (t) => {
    const scene = await ground.scene(t);
    const limiter = await scene.process({ timeoutMs: HASTY_MS });
    const before = await scene.levels();
    const lease = await scene.take(limiter, 2);
    const answers = promised();
    scene.proxy.choose = always(answerHeldUntil(answers.kept), ofEntity(scene.family.ada, isTake));
    await lease.adjust(tokens(3));
    assert.equal(lease.degraded, "an adjustment may not be stored");
    const known = scene.proxy.passages.length;
    answers.keep();
    scene.proxy.choose = () => undefined;
    // The late answers are there before this one.
    await (await scene.take(limiter, 1)).rollback();
    await lease.settle();
    await limiter.close();
    assert.deepEqual(await scene.levels(), leftOf(before, { ada: 5, bob: 0 }));
    assert.equal(scene.proxy.passages.slice(known).filter(isGiveBack).length, 2);
  });

  test("an adjustment that certainly was not stored is stored when the lease is settled", async (t) => {
    const scene = await ground.scene(t);
    const limiter = await scene.process();
    const before = await scene.levels();
    const lease = await scene.take(limiter, 2);
    scene.proxy.choose = always(BEFORE["the account is throttled"], isTake);
    await lease.adjust(tokens(3));
    assert.equal(lease.degraded, "an adjustment is not stored yet");
    scene.proxy.choose = () => undefined;
    await lease.settle();
    await limiter.close();
    assert.deepEqual(await scene.levels(), leftOf(before, { ada: 5, bob: 0 }));
  });
});
