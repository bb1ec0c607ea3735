import assert from "node:assert/strict";
import { test } from "node:test";
import { Limit, RateLimiter } from "../../src/entry/index.ts";
import { StoredLeases } from "../../src/leases/stored-leases.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { describeDynamo } from "./dynamodb-local.ts";
import { newGround } from "./store-kit.ts";

const T0 = Date.UTC(2026, 2, 15, 12);
const HOLDS = { holdMs: 300_000, holdMaxMs: 86_400_000, onExpiry: "charge" } as const;
const slow = (name: string, capacity: number) => Limit.perDay(name, capacity);
const asked = { entityId: "key-1", resource: "gpt-4", consume: { rpm: 1, tpm: 500 } };

await describeDynamo("stored leases on DynamoDB", (dynamodb) => {
  for (const shared of [false, true]) {
    const where = shared ? "on a table shared with the original" : "on a table of its own";
    test(`another process settles, adjusts, repeats and expires what this one took, ${where}`, async (t) => {
      const clock = new SimulatedClock(T0);
      const ground = await newGround(dynamodb, t, { clock, shared });
      const open = async (store: (typeof ground)["store"]) => {
        const limiter = await RateLimiter.open({ store, clock });
        t.after(() => limiter.close());
        return { limiter, storedLeases: new StoredLeases(limiter, { ...HOLDS, onChange: () => {} }) };
      };
      const one = await open(ground.store);
      await one.limiter.setResourceDefaults("gpt-4", [slow("rpm", 60), slow("tpm", 6_000)]);
      await one.limiter.createEntity({ id: "proj-1" });
      await one.limiter.createEntity({ id: "key-1", parentId: "proj-1", cascade: true });
      const keyed = { ...asked, idempotencyKey: "order-7" };
      const first = await one.storedLeases.acquire(keyed);
      const leaseId = first.lease.leaseId as string;
      const second = (await one.storedLeases.acquire({ ...asked, holdMs: 10_000, onExpiry: "refund" })).lease
        .leaseId as string;
      const other = await open((await ground.another()).store);
      assert.deepEqual(await other.storedLeases.acquire(keyed), { ...first, replayed: true });
      await other.storedLeases.adjust(leaseId, { delta: { tpm: 250 } });
      await other.storedLeases.consume(leaseId, { amounts: { tpm: 50 } });
      assert.deepEqual((await one.storedLeases.get(leaseId)).consumed, { rpm: 1, tpm: 800 });
      assert.equal((await one.storedLeases.list({ entityId: "key-1" })).length, 2);
      await clock.advance(10_000);
      assert.equal(await other.storedLeases.expireDue(), 1);
      assert.equal((await one.storedLeases.get(second)).status, "expired");
      await other.storedLeases.settle(leaseId, { consumed: { tpm: 100 } });
      const left = await one.limiter.available({ entityId: "key-1", resource: "gpt-4" });
      assert.deepEqual(
        left.map(({ entityId, limit, available }) => [entityId, limit, available]),
        ["key-1", "proj-1"].flatMap((entityId) => [
          [entityId, "rpm", 59],
          [entityId, "tpm", 5_900],
        ]),
      );
    });
  }
});
