import assert from "node:assert/strict";
import { test } from "node:test";
import { describeDynamo } from "./engine.ts";
import { assertUnavailable, faultGround, HASTY_MS, leftAfter, PATIENT_MS, promised, tokens } from "./fault-kit.ts";
import { always, isDone, isGiveBack, isTake, ofEntity } from "./fault-passages.ts";
import { AFTER, answerHeldUntil, BEFORE, type Fault, passing, requestHeldUntil } from "./fault-proxy.ts";

/** The service says itself that nothing was done: only then is a give-back sent again. */
const CERTAIN: readonly string[] = ["the item is throttled", "the account is throttled", "a transaction is in the way"];
const HANGS: readonly string[] = ["the request is dropped", "the answer is dropped"];
const LEASES = 6;

await describeDynamo("give-backs under faults", (engine) => {
  const ground = faultGround(engine);

  for (const [name, fault] of Object.entries<Fault>({ ...BEFORE, ...AFTER })) {
    test(`${name}: nothing is given back twice, and what nobody knows of is not given back again`, async (t) => {
      const scene = await ground.scene(t);
      const limiters = await scene.processes({ timeoutMs: HANGS.includes(name) ? HASTY_MS : PATIENT_MS });
      const { granted } = await scene.takeAll(limiters, LEASES);
      assert.equal(granted.length, LEASES);
      const isCertain = CERTAIN.includes(name);
      let met = 0;
      scene.proxy.choose = (passage) => {
        if (!isGiveBack(passage)) return undefined;
        // What certainly was not done is sent again, and gets through then.
        return isCertain && ++met > 2 * LEASES ? passing : fault;
      };
      const seen = await scene.proxy.during(() => Promise.all(granted.map((lease) => lease.rollback())));
      const sent = seen.filter(isGiveBack);
      if (!isCertain) assert.equal(sent.length, 2 * LEASES);
      const isGiven = isCertain || name in AFTER;
      assert.equal(sent.filter(isDone).length, isGiven ? 2 * LEASES : 0);
      const each = isGiven ? 0 : LEASES / 2;
      assert.deepEqual(await scene.levels(), leftAfter({ ada: each, bob: each }));
      // A lease that was rolled back has nothing more to give.
      await Promise.all(granted.map((lease) => lease.rollback()));
      assert.deepEqual(await scene.levels(), leftAfter({ ada: each, bob: each }));
    });
  }

  test("releases and adjustments downwards are as careful as rollbacks", async (t) => {
    const scene = await ground.scene(t);
    const [limiter] = await scene.processes();
    assert.ok(limiter !== undefined);
    const lease = await scene.take(limiter, 6);
    scene.proxy.choose = always(AFTER["the connection is reset before the answer got through"], isGiveBack);
    await lease.release(tokens(2));
    await lease.adjust(tokens(-1));
    assert.deepEqual(await scene.levels(), leftAfter({ ada: 3, bob: 0 }));
    await lease.rollback();
    assert.deepEqual(await scene.levels(), leftAfter({ ada: 0, bob: 0 }));
  });

  test("a take that turns out to have landed after everybody was sent away is given back, once", async (t) => {
    for (const hold of [answerHeldUntil, requestHeldUntil]) {
      const scene = await ground.scene(t);
      const [limiter] = await scene.processes({ timeoutMs: HASTY_MS });
      assert.ok(limiter !== undefined);
      const answers = promised();
      const before = scene.proxy.passages.length;
      scene.proxy.choose = always(hold(answers.kept), isTake);
      const { failed } = await scene.takeAll([limiter], 1);
      assert.equal(failed.length, 1);
      assertUnavailable(failed);
      answers.keep();
      const isBack = (passage: (typeof scene.proxy.passages)[number]) =>
        isGiveBack(passage) && isDone(passage) && scene.proxy.passages.indexOf(passage) >= before;
      await scene.proxy.until(2, isBack);
      assert.deepEqual(await scene.levels(), leftAfter({ ada: 0, bob: 0 }));
      await limiter.close();
      assert.equal(scene.proxy.passages.filter(isBack).length, 2);
    }
  });

  test("a take that lands when its process is gone costs its amount, and nobody else anything", async (t) => {
    const scene = await ground.scene(t);
    const [gone, other] = await scene.processes({ timeoutMs: HASTY_MS });
    assert.ok(gone !== undefined && other !== undefined);
    const requests = promised();
    scene.proxy.choose = always(requestHeldUntil(requests.kept), isTake);
    const { failed } = await scene.takeAll([gone], 1);
    assertUnavailable(failed);
    await gone.close();
    scene.proxy.choose = () => undefined;
    assert.deepEqual(await scene.levels(), leftAfter({ ada: 0, bob: 0 }));
    const done = scene.proxy.passages.filter((passage) => isTake(passage) && isDone(passage)).length;
    requests.keep();
    await scene.proxy.until(done + 2, (passage) => isTake(passage) && isDone(passage));
    assert.deepEqual(await scene.levels(), leftAfter({ ada: 1, bob: 0 }));
    assert.equal(await scene.drain(other), leftAfter({ ada: 1, bob: 0 }).parent);
  });

  test("an adjustment upwards that turns out to have been stored late stays stored: the work was done", async (t) => {
    const scene = await ground.scene(t);
    const [limiter] = await scene.processes({ timeoutMs: HASTY_MS });
    assert.ok(limiter !== undefined);
    const lease = await scene.take(limiter, 2);
    const answers = promised();
    scene.proxy.choose = always(answerHeldUntil(answers.kept), ofEntity(scene.family.ada, isTake));
    await lease.adjust(tokens(3));
    assert.equal(lease.degraded, "an adjustment may not be stored");
    const before = scene.proxy.passages.length;
    answers.keep();
    scene.proxy.choose = () => undefined;
    // The late answers are there before this one.
    await (await scene.take(limiter, 1)).rollback();
    await lease.settle();
    await limiter.close();
    assert.deepEqual(await scene.levels(), leftAfter({ ada: 5, bob: 0 }));
    assert.equal(scene.proxy.passages.slice(before).filter(isGiveBack).length, 2);
  });

  test("an adjustment that certainly was not stored is stored when the lease is settled", async (t) => {
    const scene = await ground.scene(t);
    const [limiter] = await scene.processes();
    assert.ok(limiter !== undefined);
    const lease = await scene.take(limiter, 2);
    scene.proxy.choose = always(BEFORE["the account is throttled"], isTake);
    await lease.adjust(tokens(3));
    assert.equal(lease.degraded, "an adjustment is not stored yet");
    scene.proxy.choose = () => undefined;
    await lease.settle();
    await limiter.close();
    assert.deepEqual(await scene.levels(), leftAfter({ ada: 5, bob: 0 }));
  });
});
