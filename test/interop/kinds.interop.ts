import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { Limit } from "../../src/entry/index.ts";
import { describeDynamo } from "../dynamodb/dynamodb-local.ts";
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from "../kit/contract-kit.ts";
import { ADA, admitted, ask, grants, numberIn, Shared } from "./kit.ts";

// Calendar quotas, soft limits, disabled and bypassed buckets, windows; and what ours will not do on a shared table.

const rpm = Limit.perMinute("rpm", 1_000);
const monthly = (amount: number) => Limit.quota("month", amount, { reset: { cron: "0 0 1 * *" } });

await describeDynamo("kinds of limits in two hands", (dynamodb) => {
  async function together(t: TestContext, ...limits: Limit[]) {
    const shared = await Shared.on(dynamodb, t);
    const [our, their] = [await shared.our(), await shared.their()];
    await our.setLimits(ADA.entityId, limits, { resource: ADA.resource });
    return { shared, our, their };
  }

  test("of a calendar quota both together get one capacity a period, and no reset is swallowed", async (t) => {
    const { shared, our, their } = await together(t, monthly(10), rpm);
    assert.equal(await admitted(our, ask({ month: 1 }), 4), 4);
    assert.equal(await their.admits(ask({ month: 1 }), 9), 6);
    assert.equal(await grants(our, ask({ month: 1 })), false);
    // April. Whoever moves the epoch applies the reset, also for a claim on another limit.
    await shared.pass(17 * DAY_MS);
    assert.ok(await grants(our, ask({ rpm: 1 })));
    assert.equal(await their.admits(ask({ month: 1 }), 9), 9);
    assert.equal(await admitted(our, ask({ month: 1 }), 9), 1);
    // May, the other way round.
    await shared.pass(30 * DAY_MS);
    assert.ok(await their.grants(ask({ rpm: 1 })));
    assert.equal(await admitted(our, ask({ month: 1 }), 12), 10);
    // June: a month in which nobody came is one reset, not two.
    await shared.pass(61 * DAY_MS);
    assert.equal(await their.admits(ask({ month: 1 }), 12), 10);
    assert.equal(await grants(our, ask({ month: 1 })), false);
  });

  test("a reset between the original's read and its write is applied once, whoever is faster", async (t) => {
    const daily = Limit.quota("day", 10, { reset: { cron: "0 0 * * *" } });
    for (const faster of ["ours", "theirs"] as const) {
      const { shared, our, their } = await together(t, daily, Limit.perMinute("rpm", 10));
      assert.ok(await their.grants(ask({ day: 10, rpm: 10 })));
      await shared.pass(12 * HOUR_MS - 1);
      let [total, reads] = [0, 0];
      await their.between(
        async ({ operation, when }) => {
          // Midnight comes while it has read yesterday's bucket, and ours may take of the new day before it writes.
          if (operation !== "BatchGetItem" || when !== "after" || ++reads !== 2) return;
          await shared.pass(1);
          if (faster === "ours") total += await admitted(our, ask({ day: 1 }), 4);
        },
        () => their.grants(ask({ rpm: 5 })),
      );
      assert.ok(reads >= 2, "there was no slow pass");
      total += await their.admits(ask({ day: 1 }), 3);
      total += await admitted(our, ask({ day: 1 }), 12);
      total += await their.admits(ask({ day: 1 }), 3);
      assert.equal(total, 10, `${faster} faster`);
    }
  });

  test("what was taken from a quota is not given back into the next period, by either", async (t) => {
    const { shared, our, their } = await together(t, monthly(10), rpm);
    const ours = await our.acquire(ask({ month: 5 }));
    const theirs = await their.acquire(ask({ month: 5 }));
    await shared.pass(17 * DAY_MS);
    assert.ok(await grants(our, ask({ month: 7 })));
    await ours.rollback();
    await theirs.fail();
    assert.equal((await their.admits(ask({ month: 1 }), 5)) + (await admitted(our, ask({ month: 1 }), 5)), 3);
  });

  const soft = Limit.perMinute("tpm", 10, { soft: true });

  test("a soft limit refuses nobody, whoever stamped it, and keeps its debt", async (t) => {
    const { shared, our, their } = await together(t, soft);
    assert.equal(await admitted(our, ask({ tpm: 8 }), 3), 3);
    assert.equal(await their.admits(ask({ tpm: 8 }), 3), 3);
    await shared.pass(61 * SECOND_MS);
    assert.ok(await their.grants(ask({ tpm: 8 })), "its stamp is over");
    await shared.pass(61 * SECOND_MS);
    assert.ok(await grants(our, ask({ tpm: 8 })));
    assert.ok(await their.grants(ask({ tpm: 8 })));
    assert.ok(numberIn(await shared.item(), "b_tpm_tk") < 0);
    const lease = await their.acquire(ask({ tpm: 1 }));
    assert.deepEqual(lease.overdrawn, ["tpm"]);
    await lease.end();
    assert.deepEqual((await our.acquire(ask({ tpm: 1 }))).overdrawn, ["tpm"]);
  });

  test("a soft limit that the original makes hard keeps its debt, and refuses both (X15)", async (t) => {
    const { shared, our, their } = await together(t, soft);
    assert.equal(await admitted(our, ask({ tpm: 8 }), 5), 5);
    await their.call("set_limits", [ADA.entityId, [Limit.perMinute("tpm", 10)], ADA.resource]);
    assert.equal(await grants(our, ask({ tpm: 1 })), false);
    assert.equal(await their.grants(ask({ tpm: 1 })), false);
    assert.ok(numberIn(await shared.item(), "b_tpm_tk") < 0);
  });

  test("a limit that either makes soft is soft to the other within the time it remembers configuration", async (t) => {
    const { shared, our, their } = await together(t, Limit.perMinute("tpm", 10));
    assert.ok(await their.grants(ask({ tpm: 10 })));
    assert.equal(await grants(our, ask({ tpm: 1 })), false);
    await our.setLimits(ADA.entityId, [soft], { resource: ADA.resource });
    assert.ok(await grants(our, ask({ tpm: 1 })));
    await shared.pass(61 * SECOND_MS);
    assert.equal(await their.admits(ask({ tpm: 10 }), 4), 4);
  });

  test("a bucket that either disables is closed to both at once, and open again when the other enables it", async (t) => {
    const { shared, our, their } = await together(t, rpm);
    const other = await shared.our();
    assert.ok(await grants(our, ask({ rpm: 1 })));
    assert.ok(await grants(other, ask({ rpm: 1 })));
    await our.setAccess({ entityId: ADA.entityId, resource: ADA.resource }, "disabled");
    assert.equal(await their.refuses(ask({ rpm: 1 })), "ResourceDisabled");
    for (const limiter of [our, other])
      await assert.rejects(grants(limiter, ask({ rpm: 1 })), { code: "resource_disabled" });
    await their.call("enable_entity", [ADA.entityId, ADA.resource]);
    assert.equal(await their.refuses(ask({ rpm: 1 })), undefined);
    for (const limiter of [our, other]) {
      limiter.invalidateCache();
      assert.ok(await grants(limiter, ask({ rpm: 1 })));
    }
    await their.call("disable_resource", [ADA.resource]);
    // What an entity says counts more than what its resource says.
    assert.ok(await grants(our, ask({ rpm: 1 })));
    await their.call("clear_entity_disabled", [ADA.entityId, ADA.resource]);
    await assert.rejects(grants(other, ask({ rpm: 1 })), { code: "resource_disabled" });
    await our.setAccess({ resource: ADA.resource }, "inherit");
    assert.equal(await their.refuses(ask({ rpm: 1 })), undefined);
    assert.equal("disabled" in (await shared.item()), false, "removed, never false");
  });

  test("under a bypass of either both let everybody through and count usage only", async (t) => {
    const { shared, our, their } = await together(t, Limit.perMinute("rpm", 10));
    assert.ok(await grants(our, ask({ rpm: 10 })));
    await their.call("bypass_entity", [ADA.entityId, ADA.resource]);
    our.invalidateCache();
    const before = await shared.item();
    const lease = await our.acquire(ask({ rpm: 100 }));
    assert.equal(lease.bypassed, true);
    await lease.settle();
    assert.equal(await their.admits(ask({ rpm: 7 }), 2), 2);
    const after = await shared.item();
    assert.equal(numberIn(after, "b_rpm_tk"), numberIn(before, "b_rpm_tk"));
    assert.equal(numberIn(after, "b_rpm_tc") - numberIn(before, "b_rpm_tc"), 114_000);
    await our.setAccess({ entityId: ADA.entityId, resource: ADA.resource }, "inherit");
    assert.equal(await their.grants(ask({ rpm: 1 })), false);
    assert.equal(await grants(our, ask({ rpm: 1 })), false);
    await our.setAccess({ entityId: ADA.entityId, resource: ADA.resource }, "bypass");
    assert.ok(await their.grants(ask({ rpm: 100 })));
    // The stamp is over before the policy is: both find that out.
    await shared.pass(61 * SECOND_MS);
    assert.ok(await their.grants(ask({ rpm: 100 })));
    assert.ok(await grants(our, ask({ rpm: 100 })));
  });

  test("a session quota is an error of ours, and nothing is written", async (t) => {
    const shared = await Shared.on(dynamodb, t);
    const [our, their] = [await shared.our(), await shared.their()];
    const limits = [Limit.quota("session", 10, { resetAfterMs: HOUR_MS }), rpm];
    await our.setLimits(ADA.entityId, limits, { resource: ADA.resource });
    await assert.rejects(grants(our, ask({ session: 1 })), { code: "shared_session" });
    assert.equal(await shared.found(0), undefined);
    // The original goes on with it alone.
    assert.equal(await their.admits(ask({ session: 1 }), 12), 10);
    const before = await shared.item();
    await assert.rejects(grants(our, ask({ rpm: 1 })), { code: "shared_session" });
    assert.deepEqual(await shared.item(), before);
  });

  test("a top-up is an error of ours; one that the original made counts for both until the reset", async (t) => {
    const { shared, our, their } = await together(t, monthly(10), rpm);
    assert.ok(await grants(our, ask({ month: 10 })));
    const request = { ...ADA, amounts: { month: 5 } };
    await assert.rejects(our.topUp(request), { code: "shared_top_up" });
    await their.call("top_up", [ADA.entityId, ADA.resource, { month: 5 }]);
    assert.equal((await admitted(our, ask({ month: 1 }), 3)) + (await their.admits(ask({ month: 1 }), 9)), 5);
    await shared.pass(17 * DAY_MS);
    assert.equal((await admitted(our, ask({ month: 1 }), 3)) + (await their.admits(ask({ month: 1 }), 12)), 10);
  });

  test("a reset of a bucket by either is a full bucket to both", async (t) => {
    const { our, their } = await together(t, Limit.perDay("rpd", 10));
    assert.equal(await their.admits(ask({ rpd: 1 }), 10), 10);
    await our.resetBucket(ADA);
    assert.equal(await their.admits(ask({ rpd: 1 }), 12), 10);
    await their.call("reset_bucket", [ADA.entityId, ADA.resource]);
    assert.equal(await admitted(our, ask({ rpd: 1 }), 12), 10);
  });

  test("a window of a schedule counts for both, whoever comes first after its edge", async (t) => {
    // From 14:00 UTC on a half; it is noon.
    const scheduled = Limit.perHour("rph", 60, { schedule: [{ cron: "* 14-15 * * *", scale: 0.5 }] });
    for (const first of ["ours", "theirs"] as const) {
      const { shared, our, their } = await together(t, scheduled);
      assert.equal(await admitted(our, ask({ rph: 1 }), 10), 10);
      assert.equal(await their.admits(ask({ rph: 1 }), 10), 10);
      await shared.pass(2 * HOUR_MS + MINUTE_MS);
      const ours = () => admitted(our, ask({ rph: 5 }), 8);
      const theirs = () => their.admits(ask({ rph: 5 }), 8);
      const total = first === "ours" ? (await ours()) + (await theirs()) : (await theirs()) + (await ours());
      t.diagnostic(`in the window, ${first} first: ${total * 5} of 30`);
      assert.equal(total * 5, 30);
      // What is stored are the numbers of the limit, not of the window: they would be scaled twice (rule 5).
      assert.equal(numberIn(await shared.item(), "b_rph_cp"), 60_000);
      assert.equal(numberIn(await shared.item(), "b_rph_ra"), 60_000);
      // 16:00: outside again, and an hour later the whole is there.
      await shared.pass(3 * HOUR_MS);
      const later = first === "ours" ? (await ours()) + (await theirs()) : (await theirs()) + (await ours());
      t.diagnostic(`after the window, ${first} first: ${later * 5} of 60`);
      assert.ok(later * 5 >= 60 && later * 5 <= (first === "ours" ? 60 : 120), `${later * 5} of 60`);
    }
  });
});
