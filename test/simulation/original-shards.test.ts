import assert from "node:assert/strict";
import { test } from "node:test";
import { admitted, bucket, double, MORNING_MS, make, refusedFor, taken, worldOf } from "./original-kit.ts";

test("doubling mints half of a dripping limit: 1,500 of 1,000 are admitted at one instant", async () => {
  const world = worldOf(make.perMinute("tpm", 1_000));
  const client = world.client({}, { doubles: true });
  await taken(client, { tpm: 0 });
  await double(world, client, { tpm: 0 });
  assert.deepEqual([world.item(0).b_tpm_tk, world.item(1).b_tpm_tk], [1_000_000, 500_000]);
  assert.deepEqual([world.item(0).shard_count, world.item(1).shard_count], [2, 2]);
  assert.equal(await admitted(client, { tpm: 1 }, 2_000), 1_500);
});

test("after five doublings 1,000 have become 3,492, of which 3,440 were found when it was measured", async () => {
  const world = worldOf(make.perMinute("tpm", 1_000));
  const client = world.client({}, { doubles: true });
  await taken(client, { tpm: 0 });
  for (let count = 1; count < 32; count *= 2) {
    await double(world, client, { tpm: 0 });
    // Until all of the new shards are made.
    while (Array.from({ length: count * 2 }, (_, shard) => shard).some((shard) => world.item(shard).rf === undefined)) {
      await client.acquire(bucket, { tpm: 0 });
    }
  }
  // 1,000, and half a capacity with each doubling, in whole tokens: 500, 2 * 250, 4 * 125, 8 * 62, 16 * 31.
  assert.equal(await admitted(client, { tpm: 1 }, 20_000), 3_492);
});

test("1,100 writes at one instant: 32 shards, and they stay", async () => {
  const world = worldOf(make.perMinute("rpm", 1_000_000));
  const client = world.client({}, { doubles: true });
  assert.equal(await admitted(client, { rpm: 1 }, 1_100), 1_100);
  assert.equal(world.item().shard_count, 32);
});

test("1,500 writes a second never double: the counter gets one back every millisecond", async () => {
  const world = worldOf(make.perMinute("rpm", 1_000_000));
  const client = world.client({}, { doubles: true });
  for (let write = 0; write < 3_750; write++) {
    world.clock.set(MORNING_MS + Math.floor((write * 2) / 3));
    await taken(client, { rpm: 1 });
  }
  assert.equal(world.item().shard_count, 1);
});

test("without doubling, a bucket that is written too often costs slow passes", async () => {
  const world = worldOf(make.perMinute("rpm", 1_000_000));
  const client = world.client();
  assert.equal(await admitted(client, { rpm: 1 }, 1_100), 1_100);
  assert.equal(world.item().shard_count, 1);
  assert.equal(client.counts.reads, 2 + 2 * 99);
});

test("a share below what is asked for never fits, and still a wait is quoted: 150 of 3,200 on 32 shards, 30.001 s", async () => {
  const world = worldOf(make.perMinute("tpm", 3_200));
  const client = world.client();
  await taken(client, { tpm: 0 });
  world.tamper({ shard_count: 32, b_tpm_tk: 100_000 });
  assert.equal(await refusedFor(client, { tpm: 150 }), 30_001);
});

test("a shard that is not there is made with its share", async () => {
  const world = worldOf(make.perMinute("tpm", 1_000));
  const client = world.client();
  await taken(client, { tpm: 0 });
  world.tamper({ shard_count: 4, b_tpm_tk: 0 });
  assert.equal(await admitted(client, { tpm: 1 }, 3_000), 750);
  assert.deepEqual(
    [1, 2, 3].map((shard) => world.item(shard).shard_count),
    [4, 4, 4],
  );
});

test("a quota moves to a new shard instead: 100, 100, 96, 96, 96 a period through three doublings", async () => {
  const world = worldOf(make.quota("rpd", 100, { reset: { cron: "0 0 * * *" } }));
  const client = world.client({}, { doubles: true });
  const dayMs = 86_400_000;
  const perPeriod: number[] = [];
  for (let day = 0; day < 5; day++) {
    world.clock.set(MORNING_MS + day * dayMs);
    // Every shard there is begins the day.
    await admitted(client, { rpd: 0 }, 100);
    let count = await admitted(client, { rpd: 1 }, 10);
    if (day < 3) await double(world, client, { rpd: 0 });
    count += await admitted(client, { rpd: 1 }, 1_500);
    perPeriod.push(count);
  }
  assert.equal(world.item().shard_count, 8);
  assert.deepEqual(perPeriod, [100, 100, 96, 96, 96]);
});

test("a quota's move that is lost twice is a refusal: nothing is minted", async () => {
  const world = worldOf(make.quota("rpd", 100, { reset: { cron: "0 0 * * *" } }));
  await taken(world.client(), { rpd: 10 });
  world.tamper({ shard_count: 2 });
  // Between each look at the donor and the move, somebody takes from it, so that it has less than was to be moved.
  const left = [40_000, 30_000];
  const line = world.table.lineTo("ns", {
    pause: async (call, before) => {
      if (call === "transact" && before === "applying") world.tamper({ b_rpd_tk: left.shift() ?? 0 });
    },
  });
  // The first number is the client's name; then shard 0, which tells of two shards, and shard 1.
  const draws = [0.5, 0.9];
  const client = world.clientOn(line, { random: () => draws.shift() ?? 0.9 });
  await taken(client, { rpd: 1 });
  assert.ok((await refusedFor(client, { rpd: 1 })) > 0);
  assert.deepEqual([world.item(0).b_rpd_tk, world.item(1).b_rpd_tk], [30_000, undefined]);
});

test("a quota's shard made in a new period has a grant of its own, and those behind hear of the count first", async () => {
  const world = worldOf(make.quota("rpd", 100, { reset: { cron: "0 0 * * *" } }));
  const client = world.client({}, { doubles: true });
  await taken(client, { rpd: 1 });
  await double(world, client, { rpd: 0 });
  // Shard 1 never heard of the second doubling, and neither has begun the new day.
  world.tamper({ shard_count: 4 });
  world.clock.set(MORNING_MS + 86_400_000);
  assert.equal(await admitted(client, { rpd: 1 }, 2_000), 100);
  assert.deepEqual(
    [0, 1, 2, 3].map((shard) => [world.item(shard).shard_count, world.item(shard).b_rpd_gc]),
    [
      [4, 4],
      [4, 4],
      [4, 4],
      [4, 4],
    ],
  );
});

test("limits are changed on every shard", async () => {
  const world = worldOf(make.perMinute("tpm", 1_000));
  const client = world.client();
  await taken(client, { tpm: 0 });
  world.tamper({ shard_count: 4 });
  await admitted(client, { tpm: 0 }, 100);
  world.limits = [make.perMinute("tpm", 400)];
  await client.setLimits(bucket, world.limits);
  for (const shard of [0, 1, 2, 3]) {
    assert.deepEqual([world.item(shard).b_tpm_cp, world.item(shard).vu], [400_000, 0]);
  }
  assert.equal(await admitted(client, { tpm: 1 }, 3_000), 400);
});
