import assert from "node:assert/strict";
import { test } from "node:test";
import { describeDynamo } from "./dynamodb-local.ts";
import { assertUnavailable, faultGround, HASTY_MS, leftOf, PATIENT_MS, promised, tokens } from "./fault-kit.ts";
import { always, isDone, isGiveBack, isTake, type Kind, ofEntity } from "./fault-passages.ts";
import { AFTER, answerHeldUntil, BEFORE, type Fault, passing, requestHeldUntil } from "./fault-proxy.ts";

/** The service says itself that nothing was done: only then is a give-back sent again. */
const CERTAIN: readonly string[] = ["the item is throttled", "the account is throttled", "a transaction is in the way"];
const HANGS: readonly string[] = ["the request is dropped", "the answer is dropped"];
const LEASES = 6;

await describeDynamo("give-backs under faults", (dynamodb) => {
  const ground = faultGround(dynamodb);

  for (const [name, fault] of Object.entries<Fault>({ ...BEFORE, ...AFTER })) {
    test(`${name}: nothing is given back twice, and what nobody knows of is not given back again`, async (t) => {
      const scene = await ground.scene(t);
      const limiters = await scene.processes({ timeoutMs: HANGS.includes(name) ? HASTY_MS : PATIENT_MS });
      const { granted, failed } = await scene.takeAll(limiters, LEASES);
      // Where things hang there is little time: on a busy machine it may not be enough for everybody.
      if (!HANGS.includes(name)) assert.deepEqual(failed, []);
      await scene.proxy.idle();
      const taken = await scene.levels();
      const writes = 2 * granted.length;
      const isCertain = CERTAIN.includes(name);
      let met = 0;
      scene.proxy.choose = (passage) => {
        if (!isGiveBack(passage)) return undefined;
        // What certainly was not done is sent again, and gets through then.
        return isCertain && ++met > writes ? passing : fault;
      };
      const seen = await scene.proxy.during(() => Promise.all(granted.map((lease) => lease.rollback())));
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
    assertUnavailable([await scene.take(gone, 1).catch((error: unknown) => error)]);
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
