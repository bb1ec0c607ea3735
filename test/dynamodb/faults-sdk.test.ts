import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { DynamoDBClient } from "@aws-sdk/client-dynamodb";
import { RateLimiterUnavailable } from "../../src/entry/index.ts";
import { describeDynamo } from "./dynamodb-local.ts";
import { assertUnavailable, faultGround, HASTY_MS, leftOf, promised, type Scene } from "./fault-kit.ts";
import { always, assertDoneOnce, firstTries, isDone, isGiveBack, isRead, isTake, nonceOf } from "./fault-passages.ts";
import { AFTER, answerHeldUntil, BEFORE, type Fault, HOPELESS } from "./fault-proxy.ts";

const HANGS: readonly string[] = ["the request is dropped", "the answer is dropped"];
const THROTTLES: readonly string[] = ["the item is throttled", "the account is throttled"];
const CONFLICT = "a transaction is in the way";
// It checks no checksum: a damaged answer that is JSON still is believed, which misleads guesses and nothing else.
const UNSEEN = "the answer is damaged";
const ASKED = 2;

/** Faults after which the caller cannot know, without those that hang. */
const LOSSES: readonly (readonly [string, Fault])[] = Object.entries<Fault>({ ...BEFORE, ...AFTER }).filter(
  ([name]) => ![...HANGS, ...THROTTLES, CONFLICT, UNSEEN].includes(name),
);

await describeDynamo("a DynamoDBClient of somebody's own under faults", (dynamodb) => {
  const ground = faultGround(dynamodb);

  test("what is lost once is asked for again by us and not by the SDK, and counts once", async (t) => {
    const scene = await ground.scene(t);
    const limiters = await scene.processes({ client: clientOf(t, scene) });
    const before = await scene.levels();
    for (const [name, fault] of [...LOSSES, [CONFLICT, BEFORE[CONFLICT]] as const]) {
      scene.proxy.choose = firstTries(fault);
      const seen = await scene.proxy.during(async () => {
        const { granted, failed } = await scene.takeAll(limiters, ASKED);
        assert.deepEqual(failed, [], name);
        scene.proxy.choose = () => undefined;
        assert.deepEqual(await scene.levels(), leftOf(before, { ada: 1, bob: 1 }), name);
        for (const lease of granted) await lease.rollback();
      });
      assertDoneOnce(seen);
      assert.deepEqual(await scene.levels(), before, name);
    }
  });

  test("for as long as it lasts: nobody is granted, and the SDK's own retries stay off", async (t) => {
    const scene = await ground.scene(t);
    const limiters = await scene.processes({ client: clientOf(t, scene) });
    for (const [name, fault] of LOSSES) {
      const before = await scene.levels();
      scene.proxy.choose = always(fault, isTake);
      const seen = await scene.proxy.during(async () => {
        const { granted, failed } = await scene.takeAll(limiters, ASKED);
        assert.deepEqual(granted, [], name);
        assertUnavailable(failed);
      });
      const nonces = seen.flatMap((passage) => nonceOf(passage)?.value ?? []);
      // One write and one repeat of it.
      assert.equal(nonces.length, 2 * new Set(nonces).size, name);
      assertDoneOnce(seen);
      const each = name in AFTER ? ASKED / 2 : 0;
      assert.deepEqual(await scene.levels(), leftOf(before, { ada: each, bob: each }), name);
    }
  });

  test("what was given back and lost is not given back again, neither by us nor by the SDK", async (t) => {
    const scene = await ground.scene(t);
    const limiter = await scene.process({ client: clientOf(t, scene) });
    for (const [name, fault] of LOSSES) {
      const before = await scene.levels();
      const lease = await scene.take(limiter, 1);
      scene.proxy.choose = always(fault, isGiveBack);
      const seen = await scene.proxy.during(() => lease.rollback());
      scene.proxy.choose = () => undefined;
      assert.equal(seen.filter(isGiveBack).length, 2, name);
      assert.deepEqual(await scene.levels(), leftOf(before, { ada: name in AFTER ? 0 : 1, bob: 0 }), name);
    }
  });

  test("throttled: asked again by us, four times, and nobody gets in", async (t) => {
    for (const name of ["the item is throttled", "the account is throttled"] as const) {
      const scene = await ground.scene(t);
      const limiter = await scene.process({ client: clientOf(t, scene), onUnavailable: "block" });
      const before = await scene.levels();
      scene.proxy.choose = always(BEFORE[name], isTake);
      const seen = await scene.proxy.during(() => assert.rejects(scene.take(limiter, 1), RateLimiterUnavailable));
      assert.equal(seen.filter(isTake).length, 2 * 4);
      await limiter.close();
      assert.deepEqual(await scene.levels(), before);
    }
  });

  test("access denied is no outage", async (t) => {
    const scene = await ground.scene(t);
    const limiter = await scene.process({ client: clientOf(t, scene), onUnavailable: "allow", configTtlMs: 0 });
    const before = await scene.levels();
    for (const is of [isTake, isRead]) {
      scene.proxy.choose = always(HOPELESS["access is denied"], is);
      await assert.rejects(scene.take(limiter, 1), { code: "access_denied" });
    }
    assert.deepEqual(await scene.levels(), before);
  });

  test("an answer that comes after its time is given back", async (t) => {
    const scene = await ground.scene(t);
    const limiter = await scene.process({ client: clientOf(t, scene), timeoutMs: HASTY_MS });
    const before = await scene.levels();
    const known = scene.proxy.passages.length;
    const late = promised();
    scene.proxy.choose = always(answerHeldUntil(late.kept), isTake);
    assertUnavailable([await scene.take(limiter, 1).catch((error: unknown) => error)]);
    late.keep();
    await scene.proxy.until(
      2,
      (passage) => isGiveBack(passage) && isDone(passage) && scene.proxy.passages.indexOf(passage) >= known,
    );
    await limiter.close();
    assert.deepEqual(await scene.levels(), before);
  });
});

/** With retries, as it comes; they must not be used for takes. */
function clientOf(t: TestContext, { proxy }: Scene): DynamoDBClient {
  const credentials = { accessKeyId: "test", secretAccessKey: "test" };
  const client = new DynamoDBClient({ endpoint: proxy.endpoint, region: "eu-west-1", credentials, maxAttempts: 5 });
  t.after(() => client.destroy());
  return client;
}
