import assert from "node:assert/strict";
import { test } from "node:test";
import { Checkpoints, LEASE_MS } from "../../src/aggregator/checkpoints.ts";
import { describeDynamo } from "../dynamodb/dynamodb-local.ts";
import { newGround, S, withoutKeys } from "../dynamodb/store-kit.ts";

const T0 = Date.UTC(2026, 2, 15);

await describeDynamo("checkpoints and leases in the table", (dynamodb) => {
  test("one of many gets the lease; only its holder moves the checkpoint; it is taken over when it is over", async (t) => {
    const { records } = await newGround(dynamodb, t);
    let nowMs = T0;
    const clock = { now: () => nowMs, sleep: async () => {} };
    const runners = Array.from({ length: 8 }, (_, i) => {
      return new Checkpoints({ records, label: "2026-03-15T00:00:00.000", runner: `r${i}`, clock });
    });
    const taken = await Promise.all(runners.map((runner) => runner.take("shard-1")));
    assert.equal(taken.filter((each) => each).length, 1);
    const holder = runners[taken.indexOf(true)]!;
    const other = runners[(taken.indexOf(true) + 1) % 8]!;
    assert.equal(await holder.take("shard-1"), true, "the holder takes it again, after a restart");
    assert.equal(await holder.save("shard-1", "100"), true);
    assert.equal(await other.save("shard-1", "999"), false);
    assert.equal(await other.finish("shard-1", "999"), false);
    await other.release("shard-1");
    assert.equal((await other.list()).get("shard-1")?.sequence, "100");

    nowMs += LEASE_MS;
    assert.equal(await other.take("shard-1"), false, "not yet");
    nowMs += 1;
    assert.equal(await other.take("shard-1"), true);
    assert.equal((await other.list()).get("shard-1")?.sequence, "100", "the position stays");
    assert.equal(await holder.save("shard-1", "200"), false, "the lease was lost");
    assert.equal(await other.save("shard-1", "150"), true);
    assert.equal(await other.finish("shard-1", "160"), true);
    assert.deepEqual((await holder.list()).get("shard-1"), {
      ...{ sequence: "160", isFinished: true, owner: undefined, untilMs: 0 },
    });
  });

  test("an item is as outside programs know it, and a finished one goes by itself after a week", async (t) => {
    const { records } = await newGround(dynamodb, t);
    const clock = { now: () => T0, sleep: async () => {} };
    const checkpoints = new Checkpoints({ records, label: "the-label", runner: "r", clock });
    await checkpoints.take("shard-1");
    await checkpoints.save("shard-1", "7");
    const key = { pk: "_/SYSTEM#", sk: "#STREAM#the-label#shard-1" };
    const item = await records.get(key);
    assert.deepEqual(withoutKeys(item), { seq: S("7"), owner: S("r"), until: { N: String(T0 + LEASE_MS) } });
    assert.deepEqual(item?.GSI4PK, S("_"));
    await checkpoints.finish("shard-1", "8");
    const ttl = { N: String(T0 / 1000 + 7 * 86_400) };
    assert.deepEqual(withoutKeys(await records.get(key)), { seq: S("8"), shard_end: { BOOL: true }, ttl });
  });

  test("runners that attend are counted until they leave or are not heard of any more", async (t) => {
    const { records } = await newGround(dynamodb, t);
    let nowMs = T0;
    const clock = { now: () => nowMs, sleep: async () => {} };
    const [a, b] = ["a", "b"].map((runner) => new Checkpoints({ records, label: "l", runner, clock })) as [
      Checkpoints,
      Checkpoints,
    ];
    assert.equal(await a.attend(), 1);
    assert.equal(await b.attend(), 2);
    await b.leave();
    assert.equal(await a.attend(), 1);
    nowMs += LEASE_MS + 1;
    assert.equal(await b.attend(), 1, "a has not been heard of since");
  });

  test("a shard that nobody can read any more is given up once", async (t) => {
    const { records } = await newGround(dynamodb, t);
    const clock = { now: () => T0, sleep: async () => {} };
    const [a, b] = ["a", "b"].map((runner) => new Checkpoints({ records, label: "l", runner, clock })) as [
      Checkpoints,
      Checkpoints,
    ];
    await a.take("gone");
    assert.deepEqual((await Promise.all([a.giveUp("gone"), b.giveUp("gone")])).sort(), [false, true]);
  });
});
