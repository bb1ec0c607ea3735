import assert from "node:assert/strict";
import { test } from "node:test";
import { bucketKey } from "../../src/domain/bucket/bucket-key.ts";
import { PLAIN_TICKET } from "../../src/domain/bucket/give-back.ts";
import { numberOfInstant } from "../../src/domain/config/change-number.ts";
import { type Limit, limitMakers } from "../../src/domain/limits/limit.ts";
import { limitSet, type SetOrigin } from "../../src/domain/limits/limit-set.ts";
import type { Item } from "../../src/ports/item-store.ts";
import { ConfigReadings } from "../../src/protocol/config/config-readings.ts";
import { OWN } from "../../src/protocol/item/dialect.ts";
import { SHARED } from "../../src/protocol/shared/dialect.ts";
import { claim, HOUR_MS, MINUTE_MS, T0 } from "../kit/contract-kit.ts";
import { calendar } from "../limits/kind-arbitraries.ts";
import { Cluster, type Process } from "./kit.ts";

// What the simulations found, in as few steps as it takes.

const Kinds = limitMakers(calendar);

/** Another program changes attributes of the item. */
function tamper(cluster: Cluster, { place }: Process, attributes: Item): void {
  const before = cluster.item(place.namespaceId, "ada") ?? {};
  cluster.world.table.put(
    place.namespaceId,
    { bucket: bucketKey("ada", "api"), shard: 0 },
    { ...before, ...attributes },
  );
}

for (const [table, dialect] of Object.entries({ own: OWN, shared: SHARED })) {
  test(`a take whose answer was lost is not sent again to a bucket that is disabled since: ${table}`, async () => {
    const cluster = new Cluster();
    const readings = new ConfigReadings();
    const process: Process = await cluster.open({
      dialect,
      readings,
      line: { onFault: () => tamper(cluster, process, { disabled: true }) },
    });
    const origin = { asOfMs: T0, generation: null, reading: readings.begin() };
    const one = claim("ada", [Kinds.perMinute("rpm", 10)], { rpm: 1 }, { origin });
    const { place, line } = process;
    assert.ok(await place.grants(one, T0));
    const before = cluster.item(place.namespaceId, "ada");
    // After so long it is rebased, which pins a stamp that was seen.
    line.failNext("write", "lostBefore");
    const [answer] = await place.take([one], T0 + 2 * HOUR_MS);
    assert.equal(answer?.kind, "unavailable");
    assert.deepEqual(cluster.item(place.namespaceId, "ada"), { ...before, disabled: true });
  });
}

for (const [table, dialect] of Object.entries({ own: OWN, shared: SHARED })) {
  test(`configuration read for one stamp does not remove an equal one that came after: ${table}`, async () => {
    const cluster = new Cluster();
    const readings = new ConfigReadings();
    const [process, other] = [await cluster.open({ dialect, readings }), await cluster.open({ dialect })];
    const { place } = process;
    const { buckets } = other;
    const bucket = bucketKey("ada", "api");
    const ask = async (reading: number) => {
      const origin = { asOfMs: T0, generation: null, reading };
      const [answer] = await place.take([claim("ada", [Kinds.perMinute("rpm", 10)], { rpm: 1 }, { origin })], T0);
      return answer?.kind;
    };
    for (const stamp of [
      () => buckets.stampAccess(bucket, "disabled", T0),
      () => buckets.stampAccess(bucket, "bypass", T0),
      // To the original, and so on a table shared with it, that mark means something else.
      ...(dialect === OWN ? [() => buckets.announce(bucket, T0)] : []),
    ]) {
      const known = readings.begin();
      await ask(known);
      await stamp();
      assert.equal(await ask(known), "configSuspect");
      const reading = readings.begin();
      await buckets.stampAccess(bucket, "enforce", T0);
      await stamp();
      const stamped = cluster.item(place.namespaceId, "ada");
      assert.equal(await ask(reading), "configSuspect");
      assert.deepEqual(cluster.item(place.namespaceId, "ada"), stamped);
      assert.equal(await ask(readings.begin()), "taken");
    }
  });
}

test("limits read for one change of the original's do not undo an equal one that came after", async () => {
  const cluster = new Cluster();
  const readings = new ConfigReadings();
  const [ours, other] = [await cluster.open({ dialect: SHARED, readings }), await cluster.open({ dialect: SHARED })];
  const { place } = ours;
  const rpm = (tokens: number) => Kinds.perMinute("rpm", tokens);
  const ask = async (tokens: number, origin: SetOrigin) => {
    const [answer] = await place.take([claim("ada", [rpm(tokens)], { rpm: 1 }, { origin })], origin.asOfMs);
    return answer?.kind;
  };
  const read = (asOfMs: number) => ({ asOfMs, generation: null, reading: readings.begin() });
  const inPlace = { b_rpm_cp: 10_000, b_rpm_ra: 10_000, vu: 0 };
  const known = read(T0);
  assert.equal(await ask(20, known), "taken");
  tamper(cluster, ours, inPlace);
  assert.equal(await ask(20, known), "configSuspect");
  const found = read(T0 + 1);
  // Meanwhile another process installs what this one has read, and the original changes it again.
  const install = { set: limitSet([rpm(15)]), origin: { asOfMs: T0 + 1, generation: null } };
  assert.ok(await other.buckets.installLimits(bucketKey("ada", "api"), install, T0 + 1));
  assert.equal(cluster.item(place.namespaceId, "ada")?.b_rpm_cp, 15_000);
  tamper(cluster, ours, inPlace);
  assert.equal(await ask(15, found), "configSuspect");
  assert.equal(cluster.item(place.namespaceId, "ada")?.b_rpm_cp, 10_000);
});

test("terms that the original changed, of a limit that has no tokens yet, are not taken for those that were seen", async () => {
  const cluster = new Cluster();
  const [rpm, tpm] = [Kinds.perMinute("rpm", 10), Kinds.perMinute("tpm", 50)];
  const ours: Process = await cluster.open({ dialect: SHARED });
  const { place } = ours;
  assert.ok(await place.grants(claim("ada", [rpm], { rpm: 1 }), T0));
  const termsOf = (tokens: number) => ({ b_tpm_cp: tokens * 1000, b_tpm_ra: tokens * 1000, b_tpm_rp: 60_000 });
  // It changes limits in place, also one that nobody has taken from.
  tamper(cluster, ours, termsOf(50));
  assert.ok(await place.grants(claim("ada", [rpm], { rpm: 1 }), T0));
  tamper(cluster, ours, termsOf(10));
  await place.take([claim("ada", [rpm, tpm], { tpm: 1 }, { origin: { asOfMs: T0 + 1, generation: null } })], T0 + 1);
  const item = cluster.item(place.namespaceId, "ada") ?? {};
  assert.equal(item.b_tpm_tk, Number(item.b_tpm_cp) - 1_000, "full by its own terms, but for what was taken");
});

test("tokens that the original left of a limit that is no longer there do not keep it from coming back", async () => {
  const cluster = new Cluster();
  const ours = await cluster.open({ dialect: SHARED });
  const [rpm, tpm] = [Kinds.perMinute("rpm", 10), Kinds.perMinute("tpm", 100)];
  const { place } = ours;
  assert.ok(await place.grants(claim("ada", [rpm], { rpm: 1 }), T0));
  // An adjustment of a lease adds to whatever is there, also to nothing.
  tamper(cluster, ours, { b_tpm_tk: 5_000, b_tpm_tc: -5_000 });
  const origin = { asOfMs: T0 + 1, generation: null };
  assert.ok(await place.grants(claim("ada", [rpm, tpm], { tpm: 30 }, { origin }), T0 + 1));
  const item = cluster.item(place.namespaceId, "ada");
  assert.equal(item?.b_tpm_cp, 100_000);
  assert.equal(item?.b_tpm_tk, 70_000);
});

test("a claim that comes to no end on a bucket that was split is not told of one of its shards as if it were the whole", async () => {
  const cluster = new Cluster();
  const limits = [Kinds.perMinute("rpm", 3)];
  const one = claim("ada", limits, { rpm: 3 });
  const first = await cluster.open();
  let isSlow = false;
  const slow = await cluster.open({
    line: {
      // The answer comes when no caller waits for it any more.
      pause: async (call, before) => {
        if (isSlow && call === "write" && before === "answering") cluster.clock.set(cluster.clock.now() + MINUTE_MS);
      },
    },
  });
  assert.ok(await slow.place.grants(claim("ada", limits, { rpm: 1 }), T0));
  assert.ok(await first.buckets.resize(one.bucket, "more", T0));
  isSlow = true;
  const [answer] = await slow.place.take([one], T0 + MINUTE_MS);
  assert.deepEqual(answer, { kind: "unseen" });
});

test("what is bought for shards that have heard of different limits is worth the same on all of them, and no more", async () => {
  const cluster = new Cluster();
  const [first, operator] = [await cluster.open(), await cluster.open()];
  const of = (limit: Limit, asOfMs: number) => {
    return claim("ada", [limit], { rpm: 1 }, { origin: { asOfMs, generation: null } });
  };
  const old = of(Kinds.custom("rpm", { capacity: 10, refillAmount: 1, refillPeriodMs: HOUR_MS }), T0);
  assert.ok(await first.place.grants(old, T0));
  assert.ok(await first.buckets.resize(old.bucket, "more", T0));
  // One of the two shards hears of it.
  const newer = of(Kinds.custom("rpm", { capacity: 100, refillAmount: 1, refillPeriodMs: HOUR_MS }), T0 + 2);
  assert.ok(await first.place.grants(newer, T0 + 2));
  // Planned before that, by configuration that said something else.
  const between = of(Kinds.quota("rpm", 10, { reset: { cron: "0 0 1 * *" } }), T0 + 1);
  const { amounts } = await operator.place.topUp(between, { rpm: 24 }, T0 + 3);
  assert.deepEqual(amounts, [{ limit: "rpm", milli: 24_000 }]);
  const shards = [0, 1].map((shard) => cluster.item(first.place.namespaceId, "ada", shard) as Record<string, number>);
  assert.deepEqual(
    shards.map(({ b_rpm_cp }) => b_rpm_cp),
    [100_000, 100_000],
  );
  // Ten less two that were taken, and what was bought.
  assert.equal((shards[0]?.b_rpm_tk ?? 0) + (shards[1]?.b_rpm_tk ?? 0), 32_000);
});

// When the limits of two shards were read, and up to when each has gone through their changes: changed to a quota and back.
for (const [what, ...shards] of [
  [
    "the first alone, which read them later, would take",
    { cfa: T0 + 9, cfc: numberOfInstant(T0) },
    { cfa: T0 + 5, cfc: numberOfInstant(T0 + 2) },
  ],
  [
    "the second alone, which read them later, would take",
    { cfa: T0 + 5, cfc: numberOfInstant(T0 + 2) },
    { cfa: T0 + 9, cfc: numberOfInstant(T0) },
  ],
  [
    "the first alone, which read them earlier, would take",
    { cfa: T0, cfc: numberOfInstant(T0 + 2) },
    { cfa: T0 + 9, cfc: numberOfInstant(T0 + 2) },
  ],
  [
    "the second alone, which read them earlier, would take",
    { cfa: T0 + 9, cfc: numberOfInstant(T0 + 2) },
    { cfa: T0, cfc: numberOfInstant(T0 + 2) },
  ],
] as const) {
  test(`of two shards with the same limits, a purchase by others that ${what} leaves both by what they had`, async () => {
    const cluster = new Cluster();
    const [first, operator] = [await cluster.open(), await cluster.open()];
    const { namespaceId } = first.place;
    const limit = Kinds.custom("rpm", { capacity: 10, refillAmount: 1, refillPeriodMs: HOUR_MS });
    const one = claim("ada", [limit], { rpm: 10 });
    assert.ok(await first.place.grants(one, T0));
    assert.ok(await first.buckets.resize(one.bucket, "more", T0));
    for (const [shard, readAndChanged] of shards.entries()) {
      const item = cluster.item(namespaceId, "ada", shard);
      cluster.world.table.put(namespaceId, { bucket: one.bucket, shard }, { ...item, ...readAndChanged });
    }
    const between = {
      set: limitSet([Kinds.quota("rpm", 10, { reset: { cron: "0 0 1 * *" } })]),
      fromMs: T0 + 1,
      number: numberOfInstant(T0 + 1),
    };
    const origin = { asOfMs: T0 + 1, generation: null, changeNumber: between.number, changes: [between] };
    const planned = claim("ada", between.set.limits, { rpm: 0 }, { origin });
    const { amounts } = await operator.place.topUp(planned, { rpm: 4 }, T0 + 10);
    const after = [0, 1].map((shard) => cluster.item(namespaceId, "ada", shard) as Record<string, number>);
    assert.deepEqual(
      after.map(({ b_rpm_cp, b_rpm_rsched }) => ({ b_rpm_cp, b_rpm_rsched })),
      [0, 1].map(() => ({ b_rpm_cp: 10_000, b_rpm_rsched: undefined })),
    );
    assert.deepEqual(amounts, [{ limit: "rpm", milli: 4_000 }]);
    assert.equal((after[0]?.b_rpm_tk ?? 0) + (after[1]?.b_rpm_tk ?? 0), 4_000);
  });
}

test("shards that are joined by a reading older than what was taken from one of them hold no more than they did", async () => {
  const cluster = new Cluster();
  const [slow, first] = [await cluster.open(), await cluster.open()];
  const limits = [Kinds.custom("rpm", { capacity: 20, refillAmount: 10, refillPeriodMs: 1_000 })];
  const take = (rpm: number) => claim("ada", limits, { rpm });
  assert.ok(await first.place.grants(take(1), T0));
  assert.ok(await first.buckets.resize(take(1).bucket, "more", T0));
  const takenMs = T0 + 10 * MINUTE_MS;
  cluster.clock.set(takenMs);
  // One shard is empty then, the other full.
  assert.ok(await first.place.grants(take(10), takenMs));
  assert.ok(await slow.buckets.resize(take(1).bucket, 1, takenMs - 5_000));
  assert.equal(await first.place.grants(take(11), takenMs + 1), false);
  assert.ok(await first.place.grants(take(10), takenMs + 1));
});

test("a give-back to shards that are split again in the middle is written once to each, not once for each pair", async () => {
  const cluster = new Cluster();
  const first = await cluster.open();
  const limits = [Kinds.custom("rpm", { capacity: 100_000, refillAmount: 1, refillPeriodMs: HOUR_MS })];
  const taken = claim("ada", limits, { rpm: 64_000 });
  const split = async () => {
    for (let times = 0; times < 2; times++) {
      cluster.clock.set(cluster.clock.now() + 11_000);
      assert.ok(await first.buckets.resize(taken.bucket, "more", cluster.clock.now()));
    }
  };
  let writes = 0;
  const giver = await cluster.open({
    line: {
      pause: async (call, before) => {
        if (call !== "write" || before !== "applying") return;
        // The first write tells of the shards. When the second has been given its share, there are more of them.
        if (++writes === 3) await split();
      },
    },
  });
  const [answer] = await giver.place.take([taken], T0);
  assert.equal(answer?.kind, "taken");
  await split();
  writes = 0;
  const held = { ...taken, ticket: answer.kind === "taken" ? answer.ticket : PLAIN_TICKET };
  const back = [{ limit: "rpm", milli: 64_000_000 }];
  const reply = await giver.buckets.credit(held, back, { nowMs: cluster.clock.now(), timeoutMs: MINUTE_MS });
  assert.equal(reply.kind, "applied");
  const items = Array.from({ length: 64 }, (_, shard) => cluster.item(giver.place.namespaceId, "ada", shard));
  const shards = items.filter((item) => item !== undefined);
  const heldMilli = shards.reduce((sum, item) => sum + Number(item.b_rpm_tk), 0);
  // Besides, a token an hour drips in.
  assert.ok(heldMilli >= 100_000_000 && heldMilli < 100_000_020, `${heldMilli}`);
  // Four of before and all there are now, each at most twice: once where it had changed under the writer.
  assert.ok(writes <= 2 * (4 + shards.length), `${writes} writes to ${shards.length} shards`);
  assert.ok(shards.length >= 16, `${shards.length} shards`);
});
