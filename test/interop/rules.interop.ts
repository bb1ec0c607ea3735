import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { bucketKey } from "../../src/domain/bucket/bucket-key.ts";
import { Limit } from "../../src/entry/index.ts";
import { describeDynamo } from "../dynamodb/dynamodb-local.ts";
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from "../kit/contract-kit.ts";
import {
  cutsWithoutRebase,
  givesBackUnmarked,
  installsFromCache,
  reshards,
  storesBelowZero,
} from "../protocol/faulty-shared-clients.ts";
import { ADA, admitted, ask, grants, numberIn, Shared } from "./kit.ts";
import { bucketsLacking, ourLacking, ourWith, played } from "./rules-kit.ts";

// The rules of a shared table that a trace breaks without, each played beside the original by a client of ours that keeps the
// rule, and by one that lacks it.

await describeDynamo("rules of a shared table", (dynamodb) => {
  const BUCKET = bucketKey(ADA.entityId, ADA.resource);
  const own = (limits: readonly Limit[]) => [ADA.entityId, limits, ADA.resource] as const;

  async function ground(t: TestContext, limits: readonly Limit[]) {
    const shared = await Shared.on(dynamodb, t);
    const their = await shared.their();
    await (await shared.our()).setLimits(ADA.entityId, limits, { resource: ADA.resource });
    return { shared, their };
  }

  test("rule 2: what is cut off under the same epoch is cut off once more by the original", async (t) => {
    const { on, off } = await played(cutsWithoutRebase, async (client) => {
      const { shared, their } = await ground(t, [Limit.perMinute("rpm", 100)]);
      const our = await ourLacking(shared, client);
      assert.ok(await grants(our, ask({ rpm: 90 })));
      await shared.pass(HOUR_MS - SECOND_MS);
      let writes = 0;
      await their.between(
        async ({ operation, when }) => {
          // Between the read of its slow pass and the write that follows, one of ours takes from the full bucket.
          if (operation === "UpdateItem" && when === "before" && ++writes === 2) await grants(our, ask({ rpm: 1 }));
        },
        () => their.grants(ask({ rpm: 20 })),
      );
      assert.ok(writes >= 2, "there was no slow pass");
      await shared.pass(MINUTE_MS);
      return admitted(our, ask({ rpm: 10 }), 12);
    });
    assert.equal(on, 10);
    assert.equal(off, 0);
  });

  test("rule 4: what comes back over the brim without a mark is spent in full by the original, 60 of 10", async (t) => {
    const { on, off } = await played(givesBackUnmarked, async (client) => {
      const { shared, their } = await ground(t, [Limit.perMinute("rpm", 10)]);
      const our = await ourLacking(shared, client);
      const leases = [];
      for (let minute = 0; minute < 6; minute++) {
        if (minute > 0) await shared.pass(MINUTE_MS);
        leases.push(await our.acquire(ask({ rpm: 10 })));
      }
      for (const lease of leases) await lease.rollback();
      return their.admits(ask({ rpm: 1 }), 70);
    });
    assert.equal(on, 10);
    assert.equal(off, 60);
  });

  test("rule 6: a debt that outlives the time at which the original lets the item expire is not forgiven", async (t) => {
    const shared = await Shared.on(dynamodb, t);
    const [our, their] = [await shared.our(), await shared.their()];
    // Of defaults it lets items expire, after seven times what a full refill takes: debts are not thought of.
    await our.setResourceDefaults("api", [Limit.perMinute("rpm", 10), Limit.perDay("rpd", 10)]);
    const lease = await our.acquire(ask({ rpd: 10 }));
    await lease.adjust({ rpd: 100 });
    await lease.settle();
    assert.ok(await their.grants(ask({ rpm: 10 })));
    await shared.pass(MINUTE_MS);
    assert.ok(await their.grants(ask({ rpm: 10 })), "a slow pass");
    const ttl = numberIn(await shared.item(), "ttl") * 1000;
    assert.ok(ttl < shared.now() + 8 * DAY_MS, "the original did not shorten it");
    await shared.at(ttl + DAY_MS);
    for (const process of [our, await shared.our()]) assert.equal(await grants(process, ask({ rpd: 1 })), false);
    const item = await shared.item();
    assert.ok(numberIn(item, "ttl") * 1000 > shared.now() + 2 * DAY_MS, "whoever came to it did not renew it");
    await shared.pass(3 * DAY_MS);
    assert.equal(await their.grants(ask({ rpd: 1 })), true, "eleven days of refill, and ten and a bit of debt");
  });

  test("rule 8: limits read before the original changed them in place do not undo the change", async (t) => {
    const { on, off } = await played(installsFromCache, async (client) => {
      const { shared, their } = await ground(t, [Limit.perMinute("rpm", 100)]);
      const our = await ourLacking(shared, client);
      assert.ok(await grants(our, ask({ rpm: 1 })));
      await their.call("set_limits", own([Limit.perMinute("rpm", 50)]));
      await shared.pass(SECOND_MS);
      await grants(our, ask({ rpm: 1 }));
      return numberIn(await shared.item(), "b_rpm_cp");
    });
    assert.equal(on, 50_000);
    assert.equal(off, 100_000);
  });

  test("rule 9: a change that is only announced on the bucket never reaches the original", async (t) => {
    const capacity = async (isShared: boolean) => {
      const { shared, their } = await ground(t, [Limit.perMinute("rpm", 100)]);
      const our = await ourWith(shared, { shared: isShared });
      assert.ok(await their.grants(ask({ rpm: 1 })));
      await our.setLimits(ADA.entityId, [Limit.perMinute("rpm", 10)], { resource: ADA.resource });
      // Long after its cache was over.
      await shared.pass(10 * MINUTE_MS);
      assert.ok(await their.grants(ask({ rpm: 1 })));
      await shared.pass(10 * MINUTE_MS);
      return their.admits(ask({ rpm: 50 }), 2);
    };
    assert.equal(await capacity(true), 0);
    assert.equal(await capacity(false), 2);
  });

  test("rule 11: a shard that ours makes and removes is made again by the original, with tokens in it", async (t) => {
    const { on, off } = await played(reshards, async (client) => {
      const { shared, their } = await ground(t, [Limit.perDay("rpd", 100)]);
      const buckets = await bucketsLacking(shared, client);
      const our = await ourLacking(shared, client);
      let taken = (await grants(our, ask({ rpd: 100 }))) ? 100 : 0;
      await shared.pass(1);
      await buckets.resize(BUCKET, "more", shared.now());
      // Enough of them that it has met both shards, so that it knows how many there are.
      taken += await their.admits(ask({ rpd: 1 }), 10);
      await shared.pass(1);
      await buckets.resize(BUCKET, 1, shared.now());
      return taken + (await their.admits(ask({ rpd: 1 }), 70));
    });
    assert.equal(on, 100);
    assert.ok(off > 100, `${off} of 100`);
    t.diagnostic(`a shard that ours removed: ${off} of 100`);
  });

  test("rule 1: a rate that the original lowers in place, under an epoch of old, refuses everybody for long", async (t) => {
    const { on, off } = await played(storesBelowZero, async (client) => {
      const { shared, their } = await ground(t, [Limit.perSecond("rps", 10, { burst: 100 })]);
      const our = await ourLacking(shared, client);
      assert.ok(await grants(our, ask({ rps: 100 })));
      for (let second = 0; second < 60; second++) {
        await shared.pass(SECOND_MS);
        assert.ok(await grants(our, ask({ rps: 10 })), `second ${second}`);
      }
      await their.call("set_limits", own([Limit.perSecond("rps", 1, { burst: 100 })]));
      let count = 0;
      for (let second = 0; second < 20; second++) {
        await shared.pass(SECOND_MS);
        count += await admitted(our, ask({ rps: 1 }), 1);
      }
      return count;
    });
    assert.equal(on, 20);
    assert.equal(off, 0);
  });
});
