import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { Limit } from "../../src/entry/index.ts";
import { describeDynamo } from "../dynamodb/dynamodb-local.ts";
import { HOUR_MS, MINUTE_MS, SECOND_MS } from "../kit/contract-kit.ts";
import { ADA, admitted, ask, grants, numberIn, Shared } from "./kit.ts";

// Buckets that the original has split. It does so when an item is written too often; here it is told to.

const rpm = (capacity: number) => Limit.perMinute("rpm", capacity);

await describeDynamo("shards in two hands", (dynamodb) => {
  async function together(t: TestContext, ...limits: Limit[]) {
    const shared = await Shared.on(dynamodb, t);
    const [our, their] = [await shared.our(), await shared.their()];
    await our.setLimits(ADA.entityId, limits, { resource: ADA.resource });
    /** Doubles the shards; the new ones come when somebody needs them. */
    const double = async (from: number) => {
      assert.equal(await their.call("bump_shard_count", [ADA.entityId, ADA.resource, from]), from * 2);
    };
    /** What is stored in all shards there are, in whole tokens. */
    const stored = async (name: string, count: number) => {
      let milli = 0;
      for (let shard = 0; shard < count; shard++) {
        const item = await shared.found(shard);
        if (item !== undefined) milli += numberIn(item, `b_${name}_tk`);
      }
      return milli / 1000;
    };
    return { shared, our, their, double, stored };
  }

  test("ours makes missing shards out of those there are, without minting, and does not change how many there are", async (t) => {
    const { shared, our, their, double, stored } = await together(t, rpm(40));
    assert.ok(await their.grants(ask({ rpm: 8 })));
    await double(1);
    await double(2);
    const total = await admitted(our, ask({ rpm: 1 }), 60);
    assert.ok(total <= 32, `${total} of the 32 that were there`);
    // A quarter of the capacity is the brim of what was the whole: the rest is cut off, and drips in again.
    assert.ok(total >= 10, `only ${total}`);
    assert.ok((await stored("rpm", 4)) <= 32 - total, "something was minted");
    for (let shard = 0; shard < 4; shard++) {
      const item = await shared.found(shard);
      if (item !== undefined) assert.equal(numberIn(item, "shard_count"), 4, `shard ${shard}`);
    }
    await shared.pass(30 * SECOND_MS);
    assert.ok((await admitted(our, ask({ rpm: 1 }), 40)) <= 20, "half a minute drips a half");
  });

  test("from shards that the original made both take what is there and drip together at the whole rate", async (t) => {
    const { shared, our, their, double, stored } = await together(t, rpm(80));
    assert.ok(await their.grants(ask({ rpm: 40 })));
    await double(1);
    // Whatever it mints while it doubles is its own.
    const theirs = await their.admits(ask({ rpm: 1 }), 90);
    t.diagnostic(`the original alone, after a doubling at 40 of 80: ${theirs} more at that instant`);
    const left = await stored("rpm", 2);
    const now = (await admitted(our, ask({ rpm: 1 }), 60)) + (await their.admits(ask({ rpm: 1 }), 20));
    assert.ok(now <= left, `${now} of ${left}`);
    let total = 0;
    for (let i = 0; i < 6; i++) {
      await shared.pass(3 * SECOND_MS);
      total += await admitted(our, ask({ rpm: 1 }), 4);
      total += await their.admits(ask({ rpm: 1 }), 4);
    }
    assert.ok(total <= 24 + (left - now), `${total} of 24 that dripped in`);
    assert.ok(total >= 20, `only ${total} of 24 that dripped in`);
  });

  test("what was taken from shards goes back to them, also when there are more of them by then", async (t) => {
    const { our, their, double } = await together(t, rpm(40));
    const lease = await our.acquire(ask({ rpm: 30 }));
    const theirs = await their.acquire(ask({ rpm: 10 }));
    await double(1);
    assert.equal(await grants(our, ask({ rpm: 1 })), false);
    await lease.rollback();
    await theirs.fail();
    // A share holds only so much: what comes back over its brim is cut off, never spent.
    const total = (await admitted(our, ask({ rpm: 1 }), 50)) + (await their.admits(ask({ rpm: 1 }), 30));
    assert.ok(total <= 60, `${total} of 40, where the original makes half of it anew`);
    assert.ok(total >= 20, `${total} of 40`);
  });

  test("a claim that no shard can hold is granted by ours as long as the whole bucket can, and refused by the original", async (t) => {
    const { shared, our, their, double } = await together(t, rpm(80));
    assert.ok(await their.grants(ask({ rpm: 1 })));
    await double(1);
    // It goes to either by chance, and makes the second when it comes there first.
    for (let i = 0; i < 60 && (await shared.found(1)) === undefined; i++)
      assert.ok(await their.grants(ask({ rpm: 1 })));
    await shared.pass(2 * MINUTE_MS);
    assert.ok(await grants(our, ask({ rpm: 1 })));
    for (let i = 0; i < 6; i++) assert.equal(await their.grants(ask({ rpm: 60 })), false);
    assert.ok(await grants(our, ask({ rpm: 60 })));
    assert.equal(await grants(our, ask({ rpm: 60 })), false);
  });

  test("limits that ours changes reach every shard there is, and the original on each of them", async (t) => {
    const { shared, our, their, double } = await together(t, rpm(40));
    assert.ok(await their.grants(ask({ rpm: 1 })));
    await double(1);
    await their.admits(ask({ rpm: 1 }), 12);
    await our.setLimits(ADA.entityId, [rpm(8)], { resource: ADA.resource });
    for (const shard of [0, 1]) {
      const item = await shared.found(shard);
      if (item === undefined) continue;
      assert.equal(numberIn(item, "b_rpm_cp"), 8_000);
      assert.ok(numberIn(item, "b_rpm_tk") <= 4_000, `shard ${shard} holds ${item.b_rpm_tk?.N}`);
    }
    await shared.pass(10 * MINUTE_MS);
    assert.ok((await admitted(our, ask({ rpm: 1 }), 20)) <= 8);
  });

  test("a calendar quota on shards is not granted twice, whoever made the shards and whoever comes first", async (t) => {
    const month = Limit.quota("month", 20, { reset: { cron: "0 0 1 * *" } });
    const { shared, our, their, double } = await together(t, month, rpm(1_000));
    assert.ok(await their.grants(ask({ month: 8 })));
    await double(1);
    await double(2);
    await shared.pass(HOUR_MS + 1);
    assert.ok(await grants(our, ask({ rpm: 1 })));
    let total = 8;
    for (let i = 0; i < 12; i++) {
      total += await their.admits(ask({ month: 1 }), 2);
      total += await admitted(our, ask({ month: 1 }), 2);
    }
    assert.ok(total <= 20, `${total} of 20`);
    t.diagnostic(`a quota of 20 on four shards: ${total} in its first period`);
    await shared.at(Date.UTC(2026, 3, 1, 0, 0, 1));
    total = 0;
    for (let i = 0; i < 12; i++) {
      total += await admitted(our, ask({ month: 1 }), 2);
      total += await their.admits(ask({ month: 1 }), 2);
    }
    assert.ok(total <= 20, `${total} of 20 in the next period`);
    t.diagnostic(`and ${total} in the next`);
  });

  test("however much ours writes, the number of shards stays (rule 11)", async (t) => {
    const { shared, our } = await together(t, rpm(100_000));
    for (let i = 0; i < 12; i++) {
      await Promise.all(Array.from({ length: 60 }, () => grants(our, ask({ rpm: 1 }))));
      await shared.pass(100);
    }
    assert.equal(numberIn(await shared.item(), "shard_count"), 1);
    assert.equal(await shared.found(1), undefined);
  });
});
