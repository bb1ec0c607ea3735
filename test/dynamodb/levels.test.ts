import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { Limit, RateLimiter } from "../../src/entry/index.ts";
import { atDepth } from "../depth.ts";
import { type DynamodbLocal, describeDynamo } from "./dynamodb-local.ts";
import { newGround } from "./store-kit.ts";

// Real time, and a machine that may be busy: so much that a slow answer is no failure, and nothing drips in meanwhile.
const TIMEOUT_MS = 20_000;
const ROUNDS = atDepth(1, 3);

/** Several processes on one table, each with a store and a memory of its own. */
async function processesOn(dynamodb: DynamodbLocal, t: TestContext, processes: number): Promise<RateLimiter[]> {
  const ground = await newGround(dynamodb, t);
  const limiters: RateLimiter[] = [];
  for (let i = 0; i < processes; i++) {
    const { store } = i === 0 ? ground : await ground.another();
    limiters.push(await RateLimiter.open({ store, timeoutMs: TIMEOUT_MS }));
  }
  t.after(() => Promise.all(limiters.map((limiter) => limiter.close())));
  return limiters;
}

/** A chain of so many levels of its own, all with the same capacity; the id of its lowest entity. */
async function newChain(limiter: RateLimiter, name: string, levels: number, capacity: number): Promise<string> {
  let parentId: string | undefined;
  for (let depth = levels; depth > 0; depth--) {
    const id = `${name}-${depth}`;
    await limiter.createEntity(parentId === undefined ? { id } : { id, parentId, cascade: true });
    await limiter.setLimits(id, [Limit.custom("tokens", { capacity, refillAmount: 1, refillPeriodMs: 86_400_000 })]);
    parentId = id;
  }
  return parentId as string;
}

/** How many of so many requests at once, dealt out among the processes, are granted. */
async function burst(limiters: readonly RateLimiter[], entityId: string, requests: number): Promise<number> {
  const outcomes = await Promise.all(
    Array.from({ length: requests }, (_, i) =>
      (limiters[i % limiters.length] as RateLimiter).tryAcquire({ entityId, resource: "api", consume: { tokens: 1 } }),
    ),
  );
  return outcomes.filter(({ ok }) => ok).length;
}

await describeDynamo("Levels under contention", (dynamodb) => {
  for (const levels of [2, 3]) {
    for (const processes of atDepth([3, 12], [1, 3, 12])) {
      test(`60 at once on ${levels} levels of 30, by ${processes} processes: 30 are granted`, async (t) => {
        const limiters = await processesOn(dynamodb, t, processes);
        const [founder] = limiters as [RateLimiter];
        for (let round = 0; round < ROUNDS; round++) {
          const entityId = await newChain(founder, `round-${round}`, levels, 30);
          assert.equal(await burst(limiters, entityId, 60), 30, `round ${round}`);
          for (const { available } of await founder.available({ entityId, resource: "api" }))
            assert.equal(available, 0);
        }
      });
    }

    test(`60 at once on ${levels} levels of 100, by 6 processes: nobody is refused`, async (t) => {
      const limiters = await processesOn(dynamodb, t, 6);
      const entityId = await newChain(limiters[0] as RateLimiter, "plenty", levels, 100);
      assert.equal(await burst(limiters, entityId, 60), 60);
    });
  }
});
