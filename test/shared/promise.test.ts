import assert from "node:assert/strict";
import { test } from "node:test";
import { limitSet } from "../../src/domain/limits/limit-set.ts";
import { SHARD_COUNT } from "../../src/protocol/item/attributes.ts";
import { amountsOf, HOUR_MS, MINUTE_MS } from "../kit/contract-kit.ts";
import { make } from "../simulation/original-kit.ts";
import { admits, bucket, Together } from "./kit.ts";
import { numberIn } from "./readings.ts";

// Sentence by sentence, what a table promises that both write.

const rpm = (capacity: number) => make.perMinute("rpm", capacity);

test("never more than two capacities: after an idle hour 199 of 100, when the original comes first", async () => {
  const world = new Together(rpm(100));
  const [our, their] = [world.our(), world.their()];
  assert.equal(await our.kind({ rpm: 1 }), "taken");
  await world.clock.advance(HOUR_MS);
  let total = 0;
  for (let i = 0; i < 300; i++) {
    total += await admits(their, { rpm: 1 }, 1);
    total += await our.admitted({ rpm: 1 }, 1);
  }
  assert.ok(total <= 199, `${total} of 100`);
  assert.equal(await admits(world.their(), { rpm: 1 }, 10), 0);
});

test("the original alone admits 199 of 100 after an idle hour", async () => {
  const world = new Together(rpm(100));
  const their = world.their();
  assert.equal(await admits(their, { rpm: 1 }, 1), 1);
  await world.clock.advance(HOUR_MS);
  assert.equal(await admits(their, { rpm: 1 }, 300), 199);
});

test("one capacity when ours comes first after an idle time, whoever comes then", async () => {
  const world = new Together(rpm(100));
  const [our, their] = [world.our(), world.their()];
  assert.equal(await admits(their, { rpm: 1 }, 1), 1);
  await world.clock.advance(HOUR_MS);
  let total = await our.admitted({ rpm: 1 }, 1);
  for (let i = 0; i < 200; i++) total += (await admits(their, { rpm: 1 }, 1)) + (await our.admitted({ rpm: 1 }, 1));
  assert.equal(total, 100);
});

test("a debt that ours makes is a debt to the original, and the other way round", async () => {
  const world = new Together(rpm(60));
  const [our, their] = [world.our(), world.their()];
  const lease = await our.lease({ rpm: 1 });
  assert.equal(await our.owes(lease, { rpm: 89 }), "applied");
  assert.equal(await admits(their, { rpm: 1 }, 3), 0);
  await world.clock.advance(29_000);
  assert.equal(await admits(their, { rpm: 1 }, 3), 0, "a second too early");
  await world.clock.advance(2_000);
  const theirs = await their.acquire(bucket, { rpm: 1 });
  assert.ok(!theirs.refused);
  await theirs.adjust({ rpm: 30 });
  assert.equal(await our.admitted({ rpm: 1 }, 3), 0);
  await world.clock.advance(29_000);
  assert.equal(await our.admitted({ rpm: 1 }, 3), 0, "still in debt");
  await world.clock.advance(3_000);
  assert.equal(await our.admitted({ rpm: 1 }, 1), 1);
});

test("what either gives back the other may take, and no more", async () => {
  const world = new Together(rpm(10));
  const [our, their] = [world.our(), world.their()];
  const ours = await our.lease({ rpm: 6 });
  const theirs = await their.acquire(bucket, { rpm: 4 });
  assert.ok(!theirs.refused);
  assert.equal(await our.gives(ours, { rpm: 5 }), "applied");
  assert.equal(await admits(their, { rpm: 1 }, 9), 5);
  await theirs.rollback();
  assert.equal(await our.admitted({ rpm: 1 }, 9), 4);
});

test("what ours gives back over the brim is not spent by the original", async () => {
  const world = new Together(rpm(10));
  const [our, their] = [world.our(), world.their()];
  const leases = [];
  for (let minute = 0; minute < 5; minute++) {
    leases.push(await our.lease({ rpm: 10 }));
    await world.clock.advance(MINUTE_MS);
  }
  assert.equal(await our.kind({ rpm: 0 }), "taken");
  for (const lease of leases) assert.equal(await our.gives(lease, { rpm: 10 }), "applied");
  assert.equal(await admits(their, { rpm: 1 }, 100), 10);
});

test("what ours gives back, twice in a row, over the brim, is not spent by the original either", async () => {
  const world = new Together(rpm(10));
  const [our, their] = [world.our(), world.their()];
  const [one, two] = [await our.lease({ rpm: 5 }), await our.lease({ rpm: 5 })];
  await world.clock.advance(MINUTE_MS);
  assert.equal(await our.kind({ rpm: 0 }), "taken");
  // The second finds the mark that the first has left.
  assert.equal(await our.gives(one, { rpm: 5 }), "applied");
  assert.equal(await our.gives(two, { rpm: 5 }), "applied");
  assert.equal(await admits(their, { rpm: 1 }, 100), 10);
});

test("asking for nothing cuts nothing: stored tokens stay while the epoch does", async () => {
  const world = new Together(rpm(60));
  const [our, their] = [world.our(), world.their()];
  assert.equal(await our.kind({ rpm: 30 }), "taken");
  await world.clock.advance(HOUR_MS - 1);
  assert.equal(await our.kind({ rpm: 0 }), "taken");
  assert.ok(numberIn(world.item(), "b_rpm_tk") >= 0, `stored ${world.item().b_rpm_tk}`);
  assert.equal(await admits(their, { rpm: 1 }, 100), 60);
});

test("a take of ours leaves stored tokens at or above nothing, also when somebody was faster", async () => {
  const world = new Together(rpm(60));
  const [our, their] = [world.our(), world.their()];
  assert.equal(await our.kind({ rpm: 30 }), "taken");
  await world.clock.advance(20_000);
  assert.equal(await admits(their, { rpm: 25 }, 1), 1);
  // By what ours remembers 30 are stored; 5 are, and 20 have dripped in.
  assert.equal(await our.kind({ rpm: 10 }), "taken");
  assert.ok(numberIn(world.item(), "b_rpm_tk") >= 0, `stored ${world.item().b_rpm_tk}`);
});

test("of a sharded bucket ours takes from the shards there are and gives back to them", async () => {
  const world = new Together(rpm(40));
  const [our, their] = [world.our(), world.their()];
  assert.equal(await admits(their, { rpm: 20 }, 1), 1);
  world.split(2);
  let total = await our.admitted({ rpm: 1 }, 60);
  assert.ok(total <= 20, `${total} of the 20 that were there`);
  const lease = await new Promise<Awaited<ReturnType<typeof our.lease>>>((resolve) => {
    void world.clock.advance(6_000).then(() => resolve(our.lease({ rpm: 1 })));
  });
  assert.equal(await our.gives(lease, { rpm: 1 }), "applied");
  total = await our.admitted({ rpm: 1 }, 60);
  assert.ok(total >= 3 && total <= 4, `${total} of the 4 that dripped in`);
});

test("ours makes a missing shard without minting, and does not change how many there are", async () => {
  const world = new Together(rpm(40));
  const [our, their] = [world.our(), world.their()];
  assert.equal(await admits(their, { rpm: 8 }, 1), 1);
  world.split(4);
  const total = await our.admitted({ rpm: 1 }, 100);
  assert.ok(total <= 32, `${total} of 32`);
  for (const shard of world.shards()) assert.equal(world.item(shard)[SHARD_COUNT], 4);
  assert.equal(await our.buckets.resize(bucket, "more", world.clock.now()), false);
  assert.equal(await our.buckets.resize(bucket, 1, world.clock.now()), false);
  for (const shard of world.shards()) assert.equal(world.item(shard)[SHARD_COUNT], 4);
});

test("limits that the original changes in place reach ours with the next take", async () => {
  const world = new Together(rpm(60));
  const [our, their] = [world.our(), world.their()];
  assert.equal(await our.kind({ rpm: 10 }), "taken");
  world.truth.set(bucket, { limits: [rpm(20)] });
  await their.setLimits(bucket, [rpm(20)]);
  assert.equal(await our.admitted({ rpm: 1 }, 100), 20);
  await world.clock.advance(2 * MINUTE_MS);
  assert.equal(await our.admitted({ rpm: 1 }, 100), 20);
});

test("limits that ours changes reach the original with its next request", async () => {
  const world = new Together(rpm(60));
  const [our, their] = [world.our(), world.their()];
  assert.equal(await admits(their, { rpm: 1 }, 10), 10);
  assert.equal(await our.setLimits(bucket, [rpm(20)]), true);
  assert.equal(await admits(their, { rpm: 1 }, 100), 20);
  await world.clock.advance(2 * MINUTE_MS);
  assert.ok((await admits(their, { rpm: 1 }, 100)) <= 40, "two capacities at most");
});

test("a lease of ours that is adjusted does not undo what the original changed since", async () => {
  const world = new Together(rpm(60));
  const [our, their] = [world.our(), world.their()];
  const lease = await our.lease({ rpm: 10 });
  world.truth.set(bucket, { limits: [rpm(20)] });
  await their.setLimits(bucket, [rpm(20)]);
  assert.equal(await our.owes(lease, { rpm: 1 }), "applied");
  assert.equal(world.item().b_rpm_cp, 20_000);
});

test("what ours changes is not brought over a later change of the original's", async () => {
  const world = new Together(rpm(60));
  const [our, their] = [world.our(), world.their()];
  assert.equal(await our.kind({ rpm: 1 }), "taken");
  const { limits: older } = world.truth.set(bucket, { limits: [rpm(50)] });
  const origin = { asOfMs: world.clock.now(), generation: null, reading: our.options.readings.begin() };
  world.truth.set(bucket, { limits: [rpm(20)] });
  await their.setLimits(bucket, [rpm(20)]);
  await our.buckets.installLimits(bucket, { set: limitSet(older), origin }, world.clock.now());
  assert.equal(world.item().b_rpm_cp, 20_000);
});

test("a change in place may cost or mint one capacity, and no more", async () => {
  const world = new Together(rpm(60));
  const [our, their] = [world.our(), world.their()];
  assert.equal(await our.admitted({ rpm: 1 }, 100), 60);
  await world.clock.advance(500);
  const faster = make.custom("rpm", { capacity: 60, refillAmount: 6_000, refillPeriodMs: 1_000 });
  world.truth.set(bucket, { limits: [faster] });
  await their.setLimits(bucket, [faster]);
  const total = (await our.admitted({ rpm: 1 }, 200)) + (await admits(their, { rpm: 1 }, 200));
  assert.ok(total <= 60, `${total} above what was due`);
});

test("a limit that ours adds is there for the original at the latest when its cache is over", async () => {
  const world = new Together(rpm(60));
  const [our, their] = [world.our(), world.their()];
  assert.equal(await admits(their, { rpm: 1 }, 1), 1);
  assert.equal(await our.setLimits(bucket, [rpm(60), make.perMinute("tpm", 100)]), true);
  assert.equal(await our.kind({ rpm: 1, tpm: 100 }), "taken");
  assert.equal(await admits(their, { tpm: 1 }, 1), 0);
  await world.clock.advance(61_000);
  assert.equal(await admits(their, { rpm: 1, tpm: 1 }, 1), 1);
});

const monthly = (capacity: number) => make.quota("month", capacity, { reset: { cron: "0 0 1 * *" } });

test("of a calendar quota both together get one capacity a period, and the reset is not swallowed", async () => {
  const world = new Together(monthly(10), rpm(1_000));
  const [our, their] = [world.our(), world.their()];
  assert.equal(await our.admitted({ month: 1 }, 4), 4);
  assert.equal(await admits(their, { month: 1 }, 9), 6);
  assert.equal(await our.kind({ month: 1 }), "short");
  await world.clock.advance(30 * 24 * HOUR_MS);
  // A write that moves the epoch applies the reset, also for a claim on another limit.
  assert.equal(await our.kind({ rpm: 1 }), "taken");
  assert.equal(await admits(their, { month: 1 }, 9), 9);
  assert.equal(await our.admitted({ month: 1 }, 9), 1);
  await world.clock.advance(31 * 24 * HOUR_MS);
  assert.equal(await admits(their, { rpm: 1 }, 1), 1);
  assert.equal(await our.admitted({ month: 1 }, 20), 10);
});

test("a calendar quota on shards is not granted twice when ours has written shard 0", async () => {
  const world = new Together(monthly(20), rpm(1_000));
  const [our, their] = [world.our(), world.their()];
  assert.equal(await admits(their, { month: 16 }, 1), 1);
  world.split(4);
  await world.clock.advance(HOUR_MS + 1);
  assert.equal(await our.kind({ rpm: 1 }), "taken");
  let total = 16;
  for (let i = 0; i < 60; i++) {
    total += await admits(their, { month: 1 }, 1);
    total += await our.admitted({ month: 1 }, 1);
  }
  assert.ok(total <= 20, `${total} of 20`);
});

const soft = make.perMinute("tpm", 10, { soft: true });

test("a soft limit refuses nobody, whoever stamped it, and keeps its debt", async () => {
  const world = new Together(soft);
  const [our, their] = [world.our(), world.their()];
  assert.equal(await our.admitted({ tpm: 8 }, 3), 3);
  assert.equal(await admits(their, { tpm: 8 }, 3), 3);
  await world.clock.advance(61_000);
  assert.equal(await admits(their, { tpm: 8 }, 1), 1, "its stamp is over");
  await world.clock.advance(61_000);
  assert.equal(await our.admitted({ tpm: 8 }, 1), 1);
  assert.ok(numberIn(world.item(), "b_tpm_tk") < 0);
});

for (const [how, idleMs] of [
  ["a plain take", 0],
  ["a rebase", 30_000],
] as const) {
  test(`${how} of ours keeps the item until a debt is paid that the original made meanwhile`, async () => {
    const world = new Together(rpm(60), make.perHour("slow", 30));
    const [our, their] = [world.our(), world.their()];
    assert.equal(await our.kind({ rpm: 50, slow: 2 }), "taken");
    await world.clock.advance(idleMs);
    const lease = await their.acquire(bucket, { slow: 1 });
    assert.ok(!lease.refused);
    await lease.adjust({ slow: 229 });
    // It goes by what it remembers, and asks nothing of the limit in debt.
    assert.equal(await our.kind({ rpm: idleMs > 0 ? 20 : 1 }), "taken");
    const paidMs = world.clock.now() + (230 / 30) * HOUR_MS - idleMs;
    assert.ok(numberIn(world.item(), "ttl") * 1000 >= paidMs, `it expires at ${world.item().ttl}, before ${paidMs}`);
  });
}

test("a soft limit made hard by the original keeps its debt", async () => {
  const world = new Together(soft);
  const [our, their] = [world.our(), world.their()];
  assert.equal(await our.admitted({ tpm: 8 }, 5), 5);
  world.truth.set(bucket, { limits: [make.perMinute("tpm", 10)] });
  await their.setLimits(bucket, [make.perMinute("tpm", 10)]);
  assert.equal(await our.kind({ tpm: 1 }), "short");
  assert.ok(numberIn(world.item(), "b_tpm_tk") < 0);
});

test("a bucket that ours disables is closed to the original at once, and open again when it is enabled", async () => {
  const world = new Together(rpm(60));
  const [our, other, their] = [world.our(), world.our(), world.their()];
  assert.equal(await our.kind({ rpm: 1 }), "taken");
  assert.equal(await other.kind({ rpm: 1 }), "taken");
  await our.setAccess(bucket, "disabled");
  assert.equal(await admits(their, { rpm: 1 }, 3), 0);
  assert.equal(await our.kind({ rpm: 1 }), "disabled");
  assert.equal(await other.kind({ rpm: 1 }), "disabled", "it casts doubt on what is cached");
  await our.setAccess(bucket, "enforce");
  assert.equal(await admits(their, { rpm: 1 }, 3), 3);
  assert.equal(await our.kind({ rpm: 1 }), "taken");
  assert.equal("disabled" in world.item(), false);
});

test("a bucket that is disabled stays closed to a take of ours that rebases it", async () => {
  const world = new Together(rpm(60));
  const [our, other] = [world.our(), world.our()];
  assert.equal(await our.kind({ rpm: 50 }), "taken");
  assert.equal(await other.kind({ rpm: 1 }), "taken");
  await world.clock.advance(30_000);
  await our.setAccess(bucket, "disabled");
  // By what it remembers there is too little stored, so that it has to rebase the bucket.
  assert.equal(await other.kind({ rpm: 20 }), "disabled");
});

test("under a bypass of ours only usage is counted", async () => {
  const world = new Together(rpm(60));
  const our = world.our();
  const lease = await our.lease({ rpm: 10 });
  const { set, origin } = lease.held;
  const claim = { bucket, set, origin, take: amountsOf({ rpm: 100 }), bypass: true };
  const context = { nowMs: world.clock.now(), timeoutMs: 1_000, generation: undefined, atomic: false };
  const [answer] = (await our.buckets.take([claim], context)) as readonly { readonly kind: string }[];
  assert.equal(answer?.kind, "taken");
  assert.equal(world.item().b_rpm_tk, 50_000);
  assert.equal(world.item().b_rpm_tc, 110_000);
});

test("a session quota is an error on a shared table", async () => {
  const world = new Together(make.quota("session", 10, { resetAfterMs: HOUR_MS }));
  await assert.rejects(world.our().kind({ session: 1 }), { code: "shared_session" });
  assert.deepEqual(world.shards(), []);
});

test("a top-up is an error on a shared table", async () => {
  const world = new Together(monthly(10));
  const our = world.our();
  const lease = await our.lease({ month: 1 });
  const { set, origin } = lease.held;
  const event = { eventId: "e", atMs: 0, action: "bucket_topped_up", entityId: "ada", details: {} } as const;
  const operation = { bucket, set, origin, nowMs: world.clock.now(), idempotencyKey: "k", event };
  await assert.rejects(our.buckets.topUp(operation, amountsOf({ month: 5 })), { code: "shared_top_up" });
  assert.equal(world.item().b_month_tk, 9_000);
});
