import assert from "node:assert/strict";
import { test } from "node:test";
import {
  admitted,
  bucket,
  MORNING_MS,
  make,
  refusedFor,
  saturate,
  seededWorld,
  taken,
  worldOf,
} from "./original-kit.ts";

test("a bucket is born with the attributes that the original gives it", async () => {
  const world = worldOf(make.perMinute("rpm", 100));
  await taken(world.client(), { rpm: 1 });
  assert.deepEqual(world.item(), {
    rf: MORNING_MS,
    shard_count: 1,
    b_rpm_tk: 99_000,
    b_rpm_cp: 100_000,
    b_rpm_ra: 100_000,
    b_rpm_rp: 60_000,
    b_rpm_tc: 1_000,
    b_wcu_tk: 1_000_000,
    b_wcu_cp: 1_000_000,
    b_wcu_ra: 1_000_000,
    b_wcu_rp: 1_000,
    b_wcu_tc: 0,
  });
});

test("stored tokens cost one write; a due refill costs a failed write, two reads and a write", async () => {
  const world = worldOf(make.perMinute("rpm", 2));
  const client = world.client();
  await taken(client, { rpm: 1 });
  assert.deepEqual(client.counts, { writes: 2, failedWrites: 1, reads: 2, granted: 1, refused: 0 }, "birth");
  await taken(client, { rpm: 1 });
  assert.deepEqual(client.counts, { writes: 3, failedWrites: 1, reads: 2, granted: 2, refused: 0 }, "stored");
  assert.equal(await refusedFor(client, { rpm: 1 }), 30_001);
  assert.deepEqual(client.counts, { writes: 4, failedWrites: 2, reads: 2, granted: 2, refused: 1 }, "refused");
  world.clock.set(MORNING_MS + 30_001);
  await taken(client, { rpm: 1 });
  assert.deepEqual(client.counts, { writes: 6, failedWrites: 3, reads: 4, granted: 3, refused: 1 }, "refilled");
});

test("100 a minute, one call at birth, an hour idle: 199 are admitted at one instant", async () => {
  const world = worldOf(make.perMinute("rpm", 100));
  const client = world.client();
  await taken(client, { rpm: 1 });
  world.clock.set(MORNING_MS + 3_600_000);
  assert.equal(await admitted(client, { rpm: 1 }, 400), 199);
});

test("what the round trips of a slow pass would have brought is lost: 50 a second, 30 s, 1,300 and 1,053 of 1,550", async () => {
  for (const [callMs, measured] of [
    [2, 1_300],
    [5, 1_053],
  ] as const) {
    const world = worldOf(make.perSecond("rps", 50));
    const client = world.distant(callMs);
    const untilMs = MORNING_MS + 30_000;
    const done = saturate(world, client, "rps", untilMs);
    await world.clock.advance(31_000);
    await done;
    const { granted } = client.counts;
    assert.ok(Math.abs(granted - measured) <= 3, `${granted} admitted with ${callMs} ms a call, ${measured} measured`);
  }
});

test("a saturated bucket of several clients loses due tokens: 383 of 649 were measured", async () => {
  const world = worldOf(make.perSecond("rps", 100, { burst: 50 }));
  const clients = [3, 4, 5, 6].map((callMs) => world.distant(callMs));
  const done = clients.map((client) => saturate(world, client, "rps", MORNING_MS + 6_000));
  await world.clock.advance(7_000);
  await Promise.all(done);
  const granted = clients.reduce((sum, { counts }) => sum + counts.granted, 0);
  assert.ok(granted > 300 && granted < 500, `${granted} admitted`);
});

test("10 a day beside 1 a second: a slow pass every 2 s, and the day gains 0 of 925 millitokens", async () => {
  const world = worldOf(make.perSecond("rps", 1), make.perDay("rpd", 10));
  const client = world.client();
  await taken(client, { rps: 1, rpd: 5 });
  for (let passed = 2_000; passed <= 8_000_000; passed += 2_000) {
    world.clock.set(MORNING_MS + passed);
    await taken(client, { rps: 1 });
  }
  assert.equal(world.item().b_rpd_tk, 5_000);
});

test("a client whose clock is ahead stops the refill for everybody: 0 of 300 in 300 s at 60 a minute", async () => {
  const world = worldOf(make.perMinute("rpm", 60));
  const ahead = world.client({}, { now: () => world.clock.now() + 3_600_000 });
  const client = world.client();
  await taken(client, { rpm: 60 });
  assert.equal(await admitted(ahead, { rpm: 60 }, 1), 1);
  let count = 0;
  for (let second = 1; second <= 300; second++) {
    world.clock.set(MORNING_MS + second * 1_000);
    count += await admitted(client, { rpm: 1 }, 1);
    assert.equal(await refusedFor(client, { rpm: 1 }), 1_001);
  }
  assert.equal(count, 0);
});

test("two refills at once: one loses the lock, and takes from what the other has stored", async () => {
  const world = worldOf(make.perMinute("rpm", 10));
  await taken(world.client(), { rpm: 10 });
  world.clock.set(MORNING_MS + 60_000);
  const clients = [world.distant(2), world.distant(2)];
  const both = clients.map((client) => taken(client, { rpm: 1 }));
  await world.clock.advance(100);
  await Promise.all(both);
  assert.equal(world.item().b_rpm_tk, 8_000);
  assert.deepEqual(
    clients.map(({ counts }) => counts.failedWrites),
    [1, 2],
  );
});

test("what another pass has credited and spent meanwhile is not credited again", async () => {
  const world = worldOf(make.perMinute("rpm", 10));
  const near = world.client();
  await taken(near, { rpm: 10 });
  world.clock.set(MORNING_MS + 60_000);
  const slow = refusedFor(world.distant(10), { rpm: 1 });
  // The pass has read 0 tokens and is about to credit 10; it will find 0 again.
  await world.clock.advance(34);
  await taken(near, { rpm: 10 });
  await world.clock.advance(20);
  assert.ok((await slow) > 5_000);
  assert.equal(world.item().b_rpm_tk, 0);
});

test("clocks that differ by 5 s, in turn: 65 of 60 are admitted at one instant, for rf does not go back", async () => {
  const world = worldOf(make.perMinute("rpm", 60));
  const clients = [world.client(), world.client({}, { now: () => world.clock.now() + 5_000 })];
  let count = 0;
  for (let turn = 0; turn < 100; turn++) for (const client of clients) count += await admitted(client, { rpm: 1 }, 1);
  assert.equal(count, 65);
  // A pass by the clock that is behind leaves it where it is.
  world.tamper({ b_rpm_tk: 100_000, vu: 0 });
  assert.equal(await admitted(world.client(), { rpm: 1 }, 1), 1);
  assert.equal(world.item().rf, MORNING_MS + 5_000);
});

test("24 requests race to make a bucket of 10: exactly 10 are admitted", async () => {
  const world = worldOf(make.perMinute("rpm", 10));
  const clients = [2, 4, 6].map((callMs) => world.distant(callMs));
  const all = Array.from({ length: 24 }, (_, i) => clients[i % 3]?.acquire(bucket, { rpm: 1 }));
  await world.clock.advance(200);
  const answers = await Promise.all(all);
  assert.equal(answers.filter((answer) => answer?.refused === false).length, 10);
  assert.equal(world.item().b_rpm_tk, 0);
});

test("a refund that lands between read and write cannot lift the bucket over its ceiling", async () => {
  const world = worldOf(make.perMinute("rpm", 10));
  const near = world.client();
  const lease = await taken(near, { rpm: 10 });
  world.clock.set(MORNING_MS + 60_000);
  const slow = taken(world.distant(10), { rpm: 1 });
  // The pass has read 0 tokens and is about to credit 10.
  await world.clock.advance(34);
  await lease.rollback();
  await world.clock.advance(20);
  await slow;
  assert.equal(world.item().b_rpm_tk, 9_000);
});

test("one lost answer is two writes: 20 are charged for 10, and 20 come back for 10", async () => {
  const world = worldOf(make.perMinute("rpm", 100));
  const line = world.table.lineTo("ns", {});
  const client = world.client();
  await taken(client, { rpm: 1 });
  const lossy = world.clientOn(line);
  line.failNext("write", "lostAfter");
  const lease = await taken(lossy, { rpm: 10 });
  assert.equal(world.item().b_rpm_tk, 79_000);
  line.failNext("write", "lostAfter");
  await lease.rollback();
  assert.equal(world.item().b_rpm_tk, 99_000);
});

test("whatever is interleaved, and however old its reads: never more than two capacities and what time brings", async () => {
  const limit = make.perSecond("rps", 100, { burst: 20 });
  let most = 0;
  for (let seed = 1; seed <= 15; seed++) {
    const world = seededWorld({ seed, staleMs: 30 }, [limit]);
    const pause = () => world.clock.sleep(world.random.integer(0, 4), undefined);
    const admittedAt: number[] = [];
    const work = async () => {
      const client = world.client({ pause });
      while (world.clock.now() < MORNING_MS + 1_000) {
        const lease = await client.acquire(bucket, { rps: 1 });
        if (lease.refused) await world.clock.sleep(lease.retryAfterMs, undefined);
        else if (world.random.chance(0.2)) await lease.rollback();
        else admittedAt.push(world.clock.now() - MORNING_MS);
        if (world.random.chance(0.02)) await world.clock.sleep(300, undefined);
      }
    };
    const all = Promise.all([work(), work(), work(), work()]);
    await world.clock.advance(2_000);
    await all;
    for (const [first, fromMs] of admittedAt.entries()) {
      for (const [last, toMs] of admittedAt.entries()) {
        most = Math.max(most, last - first + 1 - Math.ceil((toMs - fromMs + 20) / 10));
      }
    }
  }
  assert.ok(most <= 40, `a burst of ${most} over what time brings`);
});

test("a store that is gone for good is an error", async () => {
  const world = worldOf(make.perMinute("rpm", 100));
  const client = world.client({ rates: { write: 1 } });
  await assert.rejects(taken(client, { rpm: 1 }), { code: "unavailable" });
});
