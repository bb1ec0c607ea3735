import assert from "node:assert/strict";
import { test } from "node:test";
import { admitted, bucket, MORNING_MS, make, refusedFor, taken, worldOf } from "./original-kit.ts";

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
const MIDNIGHT_MS = MORNING_MS - 10 * HOUR_MS + DAY_MS;

test("release(500) on a limit of 10 stores 505 with vu = 0, and then exactly 10 are admitted", async () => {
  const world = worldOf(make.perMinute("rpm", 10));
  const client = world.client();
  const lease = await taken(client, { rpm: 5 });
  await lease.release({ rpm: 500 });
  assert.equal(world.item().b_rpm_tk, 505_000);
  assert.equal(world.item().vu, 0);
  assert.equal(await admitted(client, { rpm: 1 }, 30), 10);
  assert.ok(!("vu" in world.item()));
});

test("a refund after the refill: exactly 10 of 10 are admitted", async () => {
  const world = worldOf(make.perMinute("rpm", 10));
  const client = world.client();
  const lease = await taken(client, { rpm: 10 });
  world.clock.set(MORNING_MS + MINUTE_MS);
  await (await taken(client, { rpm: 1 })).rollback();
  await lease.rollback();
  assert.deepEqual([world.item().b_rpm_tk, world.item().vu], [20_000, 0]);
  assert.equal(await admitted(client, { rpm: 1 }, 30), 10);
});

test("a refund that fits is one write and leaves vu alone; the counter of what was consumed goes back with it", async () => {
  const world = worldOf(make.perMinute("rpm", 10));
  const client = world.client();
  const lease = await taken(client, { rpm: 5 });
  const { writes } = client.counts;
  await lease.adjust({ rpm: -2 });
  assert.equal(client.counts.writes, writes + 1);
  assert.deepEqual([world.item().b_rpm_tk, world.item().b_rpm_tc], [7_000, 3_000]);
  assert.ok(!("vu" in world.item()));
  await lease.rollback();
  assert.deepEqual([world.item().b_rpm_tk, world.item().b_rpm_tc], [10_000, 0]);
});

test("a refund trims when the capacity has changed since", async () => {
  const world = worldOf(make.perMinute("rpm", 100));
  const client = world.client();
  const lease = await taken(client, { rpm: 60 });
  world.limits = [make.perMinute("rpm", 10)];
  await client.setLimits(bucket, world.limits);
  world.tamper({ vu: undefined });
  await lease.rollback();
  assert.deepEqual([world.item().b_rpm_tk, world.item().vu], [100_000, 0]);
  assert.equal(await admitted(client, { rpm: 1 }, 30), 10);
});

test("an adjustment may go into debt, and neither it nor a refund brings a deleted bucket back", async () => {
  const world = worldOf(make.perMinute("rpm", 10));
  const client = world.client();
  const lease = await taken(client, { rpm: 5 });
  await lease.adjust({ rpm: 10 });
  assert.equal(world.item().b_rpm_tk, -5_000);
  world.table.removeWhere("ns", () => true);
  await lease.adjust({ rpm: 10 });
  await lease.rollback();
  assert.deepEqual(world.item(), {});
});

test("two of a quota of 10 used, release(50): 12 are admitted that day", async () => {
  const world = worldOf(make.quota("rpd", 10, { reset: { cron: "0 0 * * *" } }));
  const client = world.client();
  await taken(client, { rpd: 1 });
  const lease = await taken(client, { rpd: 1 });
  await lease.release({ rpd: 50 });
  assert.equal(await admitted(client, { rpd: 1 }, 30), 10);
});

test("a refund across a quota's reset is dropped", async () => {
  const world = worldOf(make.quota("rpd", 10, { reset: { cron: "0 0 * * *" } }));
  const client = world.client();
  const lease = await taken(client, { rpd: 5 });
  world.clock.set(MIDNIGHT_MS);
  await taken(client, { rpd: 1 });
  const { failedWrites } = client.counts;
  await lease.rollback();
  assert.equal(world.item().b_rpd_tk, 9_000);
  assert.equal(client.counts.failedWrites - failedWrites, 2);
});

test("limits are changed in place: rf stays, and the time since then counts by the new rate", async () => {
  const world = worldOf(make.perMinute("rpm", 100));
  const client = world.client();
  await taken(client, { rpm: 100 });
  world.clock.set(MORNING_MS + 30_000);
  world.limits = [make.perMinute("rpm", 10)];
  await client.setLimits(bucket, world.limits);
  const { rf, vu, b_rpm_cp, b_rpm_ra, b_rpm_rp, b_rpm_tk } = world.item();
  assert.deepEqual([rf, vu, b_rpm_cp, b_rpm_ra, b_rpm_rp], [MORNING_MS, 0, 10_000, 10_000, 60_000]);
  assert.equal(b_rpm_tk, 0);
  // 50 had come in by the old rate; by the new one it is 5.
  assert.equal(await admitted(client, { rpm: 1 }, 30), 5);
});

test("a lower capacity cuts what is stored, for the change forces a pass", async () => {
  const world = worldOf(make.perMinute("rpm", 100));
  const client = world.client();
  await taken(client, { rpm: 1 });
  world.limits = [make.perMinute("rpm", 10)];
  await client.setLimits(bucket, world.limits);
  assert.equal(await admitted(client, { rpm: 1 }, 200), 10);
});

test("a changed default never reaches a live bucket: 50 of what is now 5 are admitted 120 of 120 minutes", async () => {
  const world = worldOf(make.perMinute("rpm", 100));
  const client = world.client();
  await taken(client, { rpm: 1 });
  world.limits = [make.perMinute("rpm", 5)];
  let count = 0;
  for (let minute = 1; minute <= 120; minute++) {
    world.clock.set(MORNING_MS + minute * MINUTE_MS);
    count += await admitted(client, { rpm: 50 }, 1);
  }
  assert.equal(count, 120);
});

test("a limit that is added begins full on a live bucket", async () => {
  const world = worldOf(make.perMinute("rpm", 100));
  const client = world.client();
  await taken(client, { rpm: 90 });
  world.limits = [...world.limits, make.perMinute("tpm", 1_000)];
  await client.setLimits(bucket, world.limits);
  assert.ok(!("b_tpm_tk" in world.item()), "its numbers are written, but it has no tokens yet");
  await taken(client, { rpm: 1, tpm: 400 });
  const { b_tpm_tk, b_tpm_cp, b_tpm_tc, b_rpm_tk } = world.item();
  assert.deepEqual([b_tpm_tk, b_tpm_cp, b_tpm_tc, b_rpm_tk], [600_000, 1_000_000, 400_000, 9_000]);
});

test("a limit that is dropped stays on the items and goes on refusing; deleting an entity's limits removes it", async () => {
  const world = worldOf(make.perMinute("rpm", 1_000), make.perMinute("tpm", 10));
  const client = world.client();
  await taken(client, { rpm: 1, tpm: 10 });
  world.tamper({ b_tpm_tu: 500_000 });
  const [rpm = make.perMinute("rpm", 1_000)] = world.limits;
  world.limits = [rpm];
  await client.setLimits(bucket, world.limits);
  // Known to configuration or not, the fast path asks the item.
  assert.ok((await refusedFor(client, { rpm: 1, tpm: 5 })) > 0);
  await client.deleteLimits(bucket, world.limits);
  const left = Object.keys(world.item()).filter((name) => name.startsWith("b_tpm_"));
  assert.deepEqual(left, ["b_tpm_tu"], "what it does not remove");
  assert.equal(await admitted(client, { rpm: 1, tpm: 5 }, 10), 10);
});

test("a calendar quota is full again at midnight, once for two midnights missed", async () => {
  const world = worldOf(make.quota("rpd", 10, { reset: { cron: "0 0 * * *" } }), make.perMinute("rpm", 100));
  const client = world.client();
  assert.equal(await admitted(client, { rpd: 1 }, 30), 10);
  const { rsched, sched_tz, b_rpm_rsched, b_rpd_ra, b_rpd_rp, b_rpd_gc, vu } = world.item();
  assert.deepEqual(
    [rsched, sched_tz, b_rpm_rsched, b_rpd_ra, b_rpd_rp, b_rpd_gc, vu],
    ["1m0h0", "UTC", "-", 0, 1_000, 1, MIDNIGHT_MS],
  );
  world.clock.set(MIDNIGHT_MS - 1);
  assert.equal(await refusedFor(client, { rpd: 1 }), 1);
  world.clock.set(MIDNIGHT_MS);
  assert.equal(await admitted(client, { rpd: 1 }, 30), 10);
  world.clock.set(MIDNIGHT_MS + 2 * DAY_MS + HOUR_MS);
  assert.equal(await admitted(client, { rpd: 1 }, 30), 10);
  assert.equal(world.item().vu, MIDNIGHT_MS + 3 * DAY_MS);
});

test("whoever moves rf past midnight without the reset swallows it: refused for 86,340 s", async () => {
  const world = worldOf(make.quota("rpd", 10, { reset: { cron: "0 0 * * *" } }));
  const client = world.client();
  await taken(client, { rpd: 10 });
  world.clock.set(MIDNIGHT_MS + MINUTE_MS);
  world.tamper({ rf: world.clock.now() });
  assert.equal(await refusedFor(client, { rpd: 1 }), 86_340_000);
});

test("an edge that falls into a slow pass counts, though the pass began before it", async () => {
  const world = worldOf(make.quota("rpd", 10, { reset: { cron: "0 0 * * *" } }));
  await taken(world.client(), { rpd: 9 });
  world.tamper({ vu: 1 });
  world.clock.set(MIDNIGHT_MS - 20);
  const slow = taken(world.distant(10), { rpd: 1 });
  await world.clock.advance(100);
  await slow;
  assert.deepEqual([world.item().b_rpd_tk, world.item().vu], [9_000, MIDNIGHT_MS + DAY_MS]);
});

test("a pass that lost its lock does not spend under a reset that nobody has done: contended, 100 ms", async () => {
  const world = worldOf(make.quota("rpd", 10, { reset: { cron: "0 0 * * *" } }));
  await taken(world.client(), { rpd: 1 });
  world.clock.set(MIDNIGHT_MS);
  const slow = refusedFor(world.distant(10), { rpd: 1 });
  await world.clock.advance(34);
  world.tamper({ vu: 0 });
  await world.clock.advance(20);
  assert.equal(await slow, 100);
  assert.equal(world.item().b_rpd_tk, 9_000);
});

test("the kind of a limit changed by default mixes both kinds: 60,000 in 10 h for 100 a day, and 0 of 432", async () => {
  const daily = { reset: { cron: "0 0 * * *" } };
  const dripping = worldOf(make.perMinute("rpm", 100));
  const one = dripping.client();
  await taken(one, { rpm: 100 });
  dripping.limits = [make.quota("rpm", 100, daily)];
  let count = 0;
  for (let minute = 1; minute <= 600; minute++) {
    dripping.clock.set(MORNING_MS + minute * MINUTE_MS);
    count += 100 * (await admitted(one, { rpm: 100 }, 1));
  }
  assert.equal(count, 60_000);

  const quota = worldOf(make.quota("rpm", 10, daily));
  const other = quota.client();
  await taken(other, { rpm: 10 });
  quota.limits = [make.perMinute("rpm", 100)];
  for (let request = 1; request <= 432; request++) {
    quota.clock.set(MORNING_MS + request * 10 * MINUTE_MS);
    assert.equal(await refusedFor(other, { rpm: 1 }), 0);
  }
});

test("refill across a boundary goes by the new rate: 6,000 at once where about 370 are due", async () => {
  const night = { cron: "* 0-8 * * *", capacity: 6_000, refillAmount: 6 };
  const world = worldOf(make.perMinute("rpm", 6_000, { schedule: [night] }));
  const client = world.client();
  world.clock.set(MORNING_MS - 2 * HOUR_MS);
  await taken(client, { rpm: 6_000 });
  world.clock.set(MORNING_MS - HOUR_MS + 100);
  assert.equal(await admitted(client, { rpm: 1_000 }, 20), 6);
});

test("a soft limit admits everything; made hard, it refuses for 2,936 s", async () => {
  const world = worldOf(make.perMinute("rpm", 100, { soft: true }));
  const client = world.client();
  for (let call = 0; call < 50; call++) {
    world.clock.set(MORNING_MS + call * 100);
    await taken(client, { rpm: 100 });
  }
  assert.equal(world.item().b_rpm_tk, -4_900_000);
  world.limits = [make.perMinute("rpm", 100)];
  await client.setLimits(bucket, world.limits);
  assert.equal(Math.ceil((await refusedFor(client, { rpm: 1 })) / 1_000), 2_936);
});

test("a soft stamp holds for 48 to 60 s and is then renewed by a slow pass; without one the limit refuses", async () => {
  const world = worldOf(make.perMinute("rpm", 100, { soft: true }));
  const client = world.client();
  await taken(client, { rpm: 500 });
  const heldMs = Number(world.item().b_rpm_soft) - MORNING_MS;
  assert.ok(heldMs >= 48_000 && heldMs <= 60_000, `${heldMs}`);
  const { reads } = client.counts;
  await taken(client, { rpm: 500 });
  assert.equal(client.counts.reads, reads, "by the fast path");
  world.clock.set(MORNING_MS + 60_000);
  await taken(client, { rpm: 500 });
  assert.equal(client.counts.reads, reads + 2);
  assert.ok(Number(world.item().b_rpm_soft) > world.clock.now());
  world.tamper({ b_rpm_soft: undefined });
  assert.ok((await refusedFor(client, { rpm: 1 })) > 0);
});

test("a slow pass that refuses repairs the stamps all the same", async () => {
  const world = worldOf(make.perMinute("rpm", 100), make.perMinute("tpm", 100, { soft: true }));
  const client = world.client();
  await taken(client, { rpm: 100, tpm: 1 });
  world.tamper({ b_rpm_soft: MORNING_MS, b_tpm_soft: MORNING_MS });
  assert.ok((await refusedFor(client, { rpm: 1, tpm: 1 })) > 0);
  assert.ok(!("b_rpm_soft" in world.item()));
  assert.ok(Number(world.item().b_tpm_soft) > MORNING_MS);
});

test("a bucket of default limits expires, one of the entity's own does not", async () => {
  const world = worldOf(make.perSecond("rps", 10));
  const client = world.client({}, { expires: () => true });
  await taken(client, { rps: 1 });
  assert.equal(world.item().ttl, MORNING_MS / 1_000 + 7);
  // A call every 8 s: expired each time, not deleted yet, advanced and renewed.
  for (let call = 1; call <= 5; call++) {
    world.clock.set(MORNING_MS + call * 8_000);
    const { reads } = client.counts;
    await taken(client, { rps: 1 });
    assert.equal(client.counts.reads, reads + 2);
  }
  assert.equal(world.item().ttl, MORNING_MS / 1_000 + 47);
  await client.setLimits(bucket, world.limits);
  assert.ok(!("ttl" in world.item()));
});

test("past its ttl an item still keeps its numbers: 50 of a default lowered from 100 to 5 are admitted", async () => {
  const world = worldOf(make.perMinute("rpm", 100));
  const client = world.client({}, { expires: () => true });
  await taken(client, { rpm: 1 });
  world.clock.set((Number(world.item().ttl) + 3_600) * 1_000);
  world.limits = [make.perMinute("rpm", 5)];
  await taken(client, { rpm: 50 });
  assert.equal(world.item().b_rpm_cp, 100_000);
  assert.ok(Number(world.item().ttl) * 1_000 > world.clock.now());
});

test("what stands over the capacity without vu = 0 is spent in full", async () => {
  const world = worldOf(make.perMinute("rpm", 10));
  const client = world.client();
  await taken(client, { rpm: 10 });
  world.tamper({ b_rpm_tk: 60_000 });
  assert.equal(await admitted(client, { rpm: 1 }, 100), 60);
});

test("an item without the counter of writes costs a slow pass each time and is never healed: 9 of 9 admitted", async () => {
  const world = worldOf(make.perMinute("rpm", 10));
  const client = world.client();
  await taken(client, { rpm: 1 });
  world.tamper({ b_wcu_tk: undefined, b_wcu_cp: undefined, b_wcu_ra: undefined, b_wcu_rp: undefined });
  const { reads } = client.counts;
  assert.equal(await admitted(client, { rpm: 1 }, 9), 9);
  assert.equal(client.counts.reads - reads, 18);
  assert.ok(!("b_wcu_tk" in world.item()));
});

test("disabled refuses; false instead of nothing admits, but off the fast path", async () => {
  const world = worldOf(make.perMinute("rpm", 10));
  const client = world.client();
  await taken(client, { rpm: 1 });
  world.tamper({ disabled: true });
  const { writes, reads } = client.counts;
  assert.equal(await refusedFor(client, { rpm: 1 }), 0);
  assert.deepEqual([client.counts.writes, client.counts.reads], [writes + 1, reads]);
  world.tamper({ disabled: false });
  await taken(client, { rpm: 1 });
  assert.equal(client.counts.reads, reads + 2);
});
