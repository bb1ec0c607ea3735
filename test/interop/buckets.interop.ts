import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { Limit } from "../../src/entry/index.ts";
import { describeDynamo } from "../dynamodb/dynamodb-local.ts";
import { MINUTE_MS, SECOND_MS } from "../kit/contract-kit.ts";
import { admitted, ask, grants, numberIn, Shared } from "./kit.ts";

// Dripping limits on one bucket that both write.

const IDLE_MS = 30 * MINUTE_MS;

await describeDynamo("one bucket in two hands", (dynamodb) => {
  async function together(t: TestContext, capacity: number) {
    const shared = await Shared.on(dynamodb, t);
    const [our, their] = [await shared.our(), await shared.their()];
    // Of limits of its own the original lets no item expire, so that it finds what it left after an idle time.
    await our.setLimits("ada", [Limit.perMinute("rpm", capacity)], { resource: "api" });
    return { shared, our, their };
  }

  test("at any instant both together get what is there, and not a token more", async (t) => {
    const { shared, our, their } = await together(t, 20);
    let total = 0;
    for (let i = 0; i < 15; i++) {
      total += Number(await their.grants(ask({ rpm: 1 }))) + Number(await grants(our, ask({ rpm: 1 })));
    }
    assert.equal(total, 20);
    await shared.pass(3 * SECOND_MS);
    assert.equal(await grants(our, ask({ rpm: 1 })), true);
    assert.equal(await their.admits(ask({ rpm: 1 }), 3), 0, "three seconds drip one token");
  });

  test("never more than two capacities: after an idle time 199 of 100, when the original comes first", async (t) => {
    const { shared, our, their } = await together(t, 100);
    assert.ok(await their.grants(ask({ rpm: 1 })));
    await shared.pass(IDLE_MS);
    const theirs = await their.admits(ask({ rpm: 1 }), 99);
    let ours = await admitted(our, ask({ rpm: 1 }), 50);
    for (let i = 0; i < 10; i++) {
      ours += await admitted(our, ask({ rpm: 1 }), 6);
      ours += await their.admits(ask({ rpm: 1 }), 2);
    }
    t.diagnostic(`after an idle time, the original first: ${theirs + ours} of 100`);
    assert.equal(theirs, 99);
    assert.ok(theirs + ours <= 199, `${theirs + ours} of 100`);
  });

  test("the original alone admits 199 of 100 after an idle time: that much is its own (X25)", async (t) => {
    const { shared, their } = await together(t, 100);
    assert.ok(await their.grants(ask({ rpm: 1 })));
    await shared.pass(IDLE_MS);
    assert.equal(await their.admits(ask({ rpm: 1 }), 210), 199);
  });

  test("one capacity when ours comes first after an idle time, whoever comes then", async (t) => {
    const { shared, our, their } = await together(t, 100);
    assert.ok(await their.grants(ask({ rpm: 1 })));
    await shared.pass(IDLE_MS);
    let total = await admitted(our, ask({ rpm: 1 }), 1);
    for (let i = 0; i < 8; i++) {
      total += await their.admits(ask({ rpm: 1 }), 10);
      total += await admitted(our, ask({ rpm: 1 }), 5);
    }
    assert.equal(total, 100);
  });

  test("a debt that ours makes is a debt to the original, and the other way round", async (t) => {
    const { shared, our, their } = await together(t, 60);
    const ours = await our.acquire(ask({ rpm: 1 }));
    await ours.adjust({ rpm: 89 });
    await ours.settle();
    assert.equal(await their.admits(ask({ rpm: 1 }), 2), 0);
    await shared.pass(29_000);
    assert.equal(await their.admits(ask({ rpm: 1 }), 2), 0, "a second too early");
    await shared.pass(2_000);
    const theirs = await their.acquire(ask({ rpm: 1 }));
    await theirs.adjust({ rpm: 30 });
    await theirs.end();
    assert.equal(await grants(our, ask({ rpm: 1 })), false);
    await shared.pass(29_000);
    assert.equal(await grants(our, ask({ rpm: 1 })), false, "still in debt");
    await shared.pass(3_000);
    assert.ok(await grants(our, ask({ rpm: 1 })));
  });

  test("an adjustment of ours while the original writes is not lost, nor the original's while ours does", async (t) => {
    const { shared, our, their } = await together(t, 60);
    const ours = await our.acquire(ask({ rpm: 10 }));
    await shared.pass(MINUTE_MS);
    // Between every two calls of the original ours uses one token more: it has noted ten of them when it is through.
    let adjusted = 0;
    const asked = their.between(
      async ({ when }) => {
        if (when === "after" && adjusted < 10) {
          adjusted++;
          await ours.adjust({ rpm: 1 });
        }
      },
      async () => {
        for (let i = 0; i < 12; i++) assert.ok(await their.grants(ask({ rpm: 1 })));
      },
    );
    await asked;
    await ours.settle();
    assert.equal(adjusted, 10);
    const theirs = await their.acquire(ask({ rpm: 1 }));
    await theirs.adjust({ rpm: 4 });
    let taken = 0;
    await their.between(
      async ({ when }) => {
        if (when === "before") taken += await admitted(our, ask({ rpm: 1 }), 1);
      },
      () => theirs.end(),
    );
    assert.ok(taken > 0, "ours did nothing meanwhile");
    // A full bucket, less what was noted, taken and adjusted.
    const left = 60 - 10 - 12 - 5 - taken;
    assert.equal(await admitted(our, ask({ rpm: 1 }), 60), left);
  });

  test("what either gives back the other may take, and no more", async (t) => {
    const { our, their } = await together(t, 10);
    const ours = await our.acquire(ask({ rpm: 6 }));
    const theirs = await their.acquire(ask({ rpm: 4 }));
    await ours.release({ rpm: 5 });
    assert.equal(await their.admits(ask({ rpm: 1 }), 9), 5);
    await theirs.fail();
    assert.equal(await admitted(our, ask({ rpm: 1 }), 9), 4);
    await ours.rollback();
    assert.equal(await their.admits(ask({ rpm: 1 }), 3), 1);
  });

  test("leases of both end while the other writes, and the sums are right", async (t) => {
    const { our, their } = await together(t, 100);
    const leases = [await our.acquire(ask({ rpm: 10 })), await our.acquire(ask({ rpm: 10 }))];
    const theirs = [await their.acquire(ask({ rpm: 10 })), await their.acquire(ask({ rpm: 10 }))];
    // In the middle of the original's give-back ours gives back, too.
    await their.between(
      async ({ when }) => {
        if (when === "before") await leases[0]?.rollback();
      },
      async () => theirs[0]?.fail(),
    );
    await leases[1]?.settle();
    await theirs[1]?.end();
    const total = (await their.admits(ask({ rpm: 1 }), 50)) + (await admitted(our, ask({ rpm: 1 }), 60));
    assert.equal(total, 80);
  });

  test("a take of ours leaves stored tokens at or above nothing, also when somebody was faster (rule 1)", async (t) => {
    const { shared, our, their } = await together(t, 60);
    assert.ok(await grants(our, ask({ rpm: 30 })));
    await shared.pass(20_000);
    assert.ok(await their.grants(ask({ rpm: 25 })));
    // By what ours remembers 30 are stored; 5 are, and 20 have dripped in.
    assert.ok(await grants(our, ask({ rpm: 10 })));
    assert.ok(numberIn(await shared.item(), "b_rpm_tk") >= 0);
  });

  test("ours counts its writes where the original looks, so that its fast path stays open (rule 3)", async (t) => {
    const { shared, our, their } = await together(t, 5_000);
    assert.ok(await grants(our, ask({ rpm: 1 })));
    const before = await shared.item();
    assert.ok(await grants(our, ask({ rpm: 1 })));
    const after = await shared.item();
    assert.equal(numberIn(before, "b_wcu_tk") - numberIn(after, "b_wcu_tk"), 1000);
    assert.equal(numberIn(after, "b_wcu_tc") - numberIn(before, "b_wcu_tc"), 1000);
    // The first request of a process looks up what it needs; from then on it is one write a request.
    assert.ok(await their.grants(ask({ rpm: 1 })));
    const calls: string[] = [];
    await their.between(
      async ({ operation, when }) => {
        if (when === "before") calls.push(operation);
      },
      () => their.admits(ask({ rpm: 1 }), 3),
    );
    assert.deepEqual(calls, ["UpdateItem", "UpdateItem", "UpdateItem"]);
    // With fewer than one write left by its count, ours rebases the bucket instead of shutting the original out.
    await shared.tamper({ b_wcu_tk: { N: "0" } });
    await shared.pass(SECOND_MS);
    assert.ok(await grants(our, ask({ rpm: 1 })));
    assert.ok(numberIn(await shared.item(), "b_wcu_tk") >= 1000);
  });
});
