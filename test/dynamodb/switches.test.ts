import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { dynamoOver } from "../../src/adapters/dynamodb/store.ts";
import { Limit, RateLimiter } from "../../src/entry/index.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { T0 } from "../kit/contract-kit.ts";
import { tellSwitchStories } from "../limiter/switch-stories.ts";
import { describeDynamo } from "./dynamodb-local.ts";
import { newGround, optionsFor } from "./store-kit.ts";

await describeDynamo("switches on DynamoDB", (dynamodb) => {
  for (const shared of [false, true]) {
    const opened = async (t: TestContext) => {
      const clock = new SimulatedClock(T0);
      const { table, wire } = await newGround(dynamodb, t, { clock, shared });
      const process = async () => {
        const store = dynamoOver(optionsFor(wire, table, { clock, shared }));
        return RateLimiter.open({ store, clock });
      };
      const [admin, worker] = [await process(), await process()];
      const close = async () => {
        await Promise.all([admin.close(), worker.close()]);
      };
      return { admin, worker, clock, close };
    };
    if (!shared) tellSwitchStories(opened);
    test(`${shared ? "shared" : "own"}: a parent without limits that is switched off`, async (t) => {
      const { admin, worker, clock, close } = await opened(t);
      await admin.createEntity({ id: "org" });
      await admin.createEntity({ id: "key", parentId: "org", cascade: true });
      await admin.setLimits("key", [Limit.perMinute("rpm", 100)], { resource: "llm" });
      const ask = () => worker.tryAcquire({ entityId: "key", resource: "llm", consume: { rpm: 1 } });
      assert.equal((await ask()).ok, true);
      await admin.setAccess({ entityId: "org" }, "disabled");
      await assert.rejects(ask(), { code: "resource_disabled" });
      await admin.setAccess({ entityId: "org" }, "enforce");
      await clock.advance(60_000);
      assert.equal((await ask()).ok, true);
      await close();
    });
  }
});
