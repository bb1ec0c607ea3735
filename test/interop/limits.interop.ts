import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { Limit } from "../../src/entry/index.ts";
import { describeDynamo } from "../dynamodb/dynamodb-local.ts";
import { MINUTE_MS, SECOND_MS } from "../kit/contract-kit.ts";
import { ADA, admitted, ask, grants, numberIn, Shared } from "./kit.ts";

// Limits that either changes on a live bucket that both write.

const rpm = (capacity: number) => Limit.perMinute("rpm", capacity);

await describeDynamo("limits changed by either", (dynamodb) => {
  async function together(t: TestContext, ...limits: Limit[]) {
    const shared = await Shared.on(dynamodb, t);
    const [our, their] = [await shared.our(), await shared.their()];
    await our.setLimits(ADA.entityId, limits, { resource: ADA.resource });
    const theySet = (...changed: Limit[]) => their.call("set_limits", [ADA.entityId, changed, ADA.resource]);
    const weSet = (...changed: Limit[]) => our.setLimits(ADA.entityId, changed, { resource: ADA.resource });
    return { shared, our, their, theySet, weSet };
  }

  test("limits that the original changes in place reach ours with the next take", async (t) => {
    const { shared, our, theySet } = await together(t, rpm(60));
    assert.ok(await grants(our, ask({ rpm: 10 })));
    await theySet(rpm(20));
    assert.equal(await admitted(our, ask({ rpm: 1 }), 30), 20);
    await shared.pass(2 * MINUTE_MS);
    assert.equal(await admitted(our, ask({ rpm: 1 }), 30), 20);
  });

  test("limits that ours changes reach the original with its next request", async (t) => {
    const { shared, their, weSet } = await together(t, rpm(60));
    assert.equal(await their.admits(ask({ rpm: 1 }), 10), 10);
    await weSet(rpm(20));
    assert.equal(await their.admits(ask({ rpm: 1 }), 30), 20);
    await shared.pass(2 * MINUTE_MS);
    assert.ok((await their.admits(ask({ rpm: 1 }), 60)) <= 40, "two capacities at most");
  });

  test("a change of ours between the original's read and its write is not undone", async (t) => {
    const { shared, their, weSet } = await together(t, rpm(60));
    assert.ok(await their.grants(ask({ rpm: 60 })));
    await shared.pass(30 * SECOND_MS);
    let reads = 0;
    await their.between(
      async ({ operation, when }) => {
        if (operation === "BatchGetItem" && when === "after" && ++reads === 2) await weSet(rpm(20));
      },
      () => their.admits(ask({ rpm: 1 }), 1),
    );
    assert.ok(reads >= 2, "there was no slow pass");
    assert.equal(numberIn(await shared.item(), "b_rpm_cp"), 20_000);
    await shared.pass(MINUTE_MS);
    assert.ok((await their.admits(ask({ rpm: 1 }), 60)) <= 40, "two capacities at most");
  });

  test("a change of the original between round trips of ours is not undone", async (t) => {
    const { shared, our, theySet, weSet } = await together(t, rpm(60));
    assert.ok(await grants(our, ask({ rpm: 1 })));
    await Promise.all([weSet(rpm(30)), theySet(rpm(20))]);
    // Whichever was stored last, the bucket goes by it when both are through and somebody has asked.
    await shared.pass(SECOND_MS);
    await grants(our, ask({ rpm: 1 }));
    const stored = (await our.getLimits(ADA.entityId, { resource: ADA.resource }))[0]?.capacity ?? 0;
    assert.equal(numberIn(await shared.item(), "b_rpm_cp"), stored * 1000);
  });

  test("a lease of ours that is adjusted does not undo what the original changed since", async (t) => {
    const { shared, our, theySet } = await together(t, rpm(60));
    const lease = await our.acquire(ask({ rpm: 10 }));
    await theySet(rpm(20));
    await lease.adjust({ rpm: 1 });
    await lease.settle();
    assert.equal(numberIn(await shared.item(), "b_rpm_cp"), 20_000);
  });

  test("a change in place may cost or mint one capacity, and no more", async (t) => {
    const { shared, our, their, theySet } = await together(t, rpm(60));
    assert.ok(await grants(our, ask({ rpm: 60 })));
    await shared.pass(500);
    await theySet(Limit.custom("rpm", { capacity: 60, refillAmount: 6_000, refillPeriodMs: 1_000 }));
    const total = (await admitted(our, ask({ rpm: 5 }), 20)) + (await their.admits(ask({ rpm: 5 }), 20));
    assert.ok(total * 5 <= 60, `${total * 5} above what was due`);
  });

  test("a limit that ours adds is there for the original at the latest when its cache is over", async (t) => {
    const { shared, our, their, weSet } = await together(t, rpm(60));
    assert.ok(await their.grants(ask({ rpm: 1 })));
    await weSet(rpm(60), Limit.perMinute("tpm", 100));
    assert.ok(await grants(our, ask({ rpm: 1, tpm: 100 })));
    assert.equal(await their.grants(ask({ tpm: 1 })), false);
    await shared.pass(61 * SECOND_MS);
    assert.ok(await their.grants(ask({ rpm: 1, tpm: 1 })));
  });

  test("what a limit of ours loses while the original does not know of it is at most the refill of that time (rule 10)", async (t) => {
    const { shared, our, their, weSet } = await together(t, rpm(10));
    const slowPass = async () => {
      assert.ok(await their.grants(ask({ rpm: 10 })));
      await shared.pass(MINUTE_MS / 2 - SECOND_MS);
      assert.ok(await their.grants(ask({ rpm: 4 })), "by a slow pass");
    };
    assert.ok(await their.grants(ask({ rpm: 1 })));
    await shared.pass(10 * MINUTE_MS);
    assert.ok(await their.grants(ask({ rpm: 1 })), "it remembers its configuration from now on");
    await weSet(rpm(10), Limit.perMinute("tpm", 60));
    await shared.pass(SECOND_MS);
    await their.grants(ask({ rpm: 8 }));
    await shared.pass(30 * SECOND_MS);
    await their.grants(ask({ rpm: 5 }));
    // Nobody took of it: it is as full as it was.
    assert.ok(await grants(our, ask({ tpm: 60 })));
    await shared.pass(61 * SECOND_MS);
    await slowPass();
    assert.ok(await grants(our, ask({ tpm: 30 })), "from then on it drips for both");
  });

  test("a limit that the original adds is known to ours when it reads configuration again", async (t) => {
    const { shared, our, their, theySet } = await together(t, rpm(60));
    assert.ok(await grants(our, ask({ rpm: 1 })));
    await theySet(rpm(60), Limit.perMinute("tpm", 100));
    assert.ok(await their.grants(ask({ rpm: 1, tpm: 40 })));
    assert.ok(await grants(our, ask({ rpm: 1 })));
    await shared.pass(61 * SECOND_MS);
    assert.ok(await grants(our, ask({ rpm: 1, tpm: 100 })));
    assert.equal(await their.grants(ask({ rpm: 1, tpm: 1 })), false);
  });

  test("a limit that the original removes is charged by nobody of ours, though it stays on the item (X7)", async (t) => {
    const { shared, our, their, theySet } = await together(t, rpm(60), Limit.perMinute("tpm", 100));
    assert.ok(await grants(our, ask({ rpm: 1, tpm: 100 })));
    await theySet(rpm(60));
    assert.ok("b_tpm_tk" in (await shared.item()), "the original does not remove it");
    await shared.pass(SECOND_MS);
    assert.equal(await admitted(our, ask({ rpm: 1 }), 5), 5);
    assert.equal(await their.admits(ask({ rpm: 1 }), 5), 5);
  });

  test("defaults of a resource that either changes reach ours within the time it remembers them", async (t) => {
    const shared = await Shared.on(dynamodb, t);
    const [our, their] = [await shared.our({ configTtlMs: 10_000 }), await shared.their()];
    await their.call("set_resource_defaults", ["api", [rpm(60)]]);
    assert.ok(await grants(our, ask({ rpm: 60 })));
    await their.call("set_resource_defaults", ["api", [rpm(20)]]);
    await shared.pass(MINUTE_MS);
    assert.equal(await admitted(our, ask({ rpm: 1 }), 70), 20);
    assert.equal(numberIn(await shared.item(), "b_rpm_cp"), 20_000);
  });

  test("defaults that change never reach the original's own live buckets (W12), but do when ours writes them", async (t) => {
    const shared = await Shared.on(dynamodb, t);
    const [our, their] = [await shared.our({ configTtlMs: 10_000 }), await shared.their()];
    await our.setSystemDefaults([rpm(60)]);
    assert.ok(await their.grants(ask({ rpm: 1 })));
    await our.setSystemDefaults([rpm(5)]);
    for (let minute = 0; minute < 5; minute++) {
      await shared.pass(MINUTE_MS);
      assert.ok(await their.grants(ask({ rpm: 50 })), "by what the item says");
    }
    await shared.pass(MINUTE_MS);
    assert.ok(await grants(our, ask({ rpm: 1 })));
    await shared.pass(MINUTE_MS);
    assert.equal(await their.grants(ask({ rpm: 50 })), false);
  });
});
