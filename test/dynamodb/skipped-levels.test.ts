import assert from "node:assert/strict";
import { test } from "node:test";
import { Limit, RateLimiter } from "../../src/entry/index.ts";
import { describeDynamo } from "./dynamodb-local.ts";
import { newGround } from "./store-kit.ts";

// Real time: so much that a slow answer is no failure, and quotas, so that nothing drips in meanwhile.
const TIMEOUT_MS = 20_000;

await describeDynamo("Levels that were not asked", (dynamodb) => {
  for (const atomic of [false, true]) {
    const how = atomic ? "in one transaction" : "level by level";
    test(`what another process took from the parent is in the refusal by the key, taken ${how}`, async (t) => {
      const ground = await newGround(dynamodb, t);
      const other = await ground.another();
      const open = (store: typeof ground.store) => RateLimiter.open({ store, timeoutMs: TIMEOUT_MS, denyMemoryMs: 0 });
      const [first, second] = [await open(ground.store), await open(other.store)];
      t.after(() => Promise.all([first.close(), second.close()]));
      const month = (capacity: number) => [Limit.quota("q", capacity, { reset: { cron: "0 0 1 * *" } })];
      await first.createEntity({ id: "p" });
      await first.setLimits("p", month(100));
      for (const [id, capacity] of [
        ["k", 10],
        ["k2", 100],
      ] as const) {
        await first.createEntity({ id, parentId: "p", cascade: true });
        await first.setLimits(id, month(capacity));
      }
      const ask = (limiter: RateLimiter, entityId: string, q: number) =>
        limiter.tryAcquire({ entityId, resource: "api", consume: { q }, atomic });
      assert.ok((await ask(first, "k", 10)).ok);
      assert.equal((await ask(first, "k", 5)).ok, false);
      assert.ok((await ask(second, "k2", 90)).ok);
      const refused = await ask(first, "k", 5);
      assert.ok(!refused.ok);
      assert.deepEqual(
        refused.statuses.map(({ entityId, available, exceeded }) => ({ entityId, available, exceeded })),
        [
          { entityId: "k", available: 0, exceeded: true },
          { entityId: "p", available: 0, exceeded: true },
        ],
      );
    });
  }
});
