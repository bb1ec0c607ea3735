import assert from "node:assert/strict";
import { test } from "node:test";
import { type Limit, limitMakers } from "../../src/domain/limits/limit.ts";
import type { Claim } from "../../src/ports/bucket-store.ts";
import { ConfigReadings } from "../../src/protocol/config/config-readings.ts";
import { SHARED } from "../../src/protocol/shared/dialect.ts";
import type { LineOptions } from "../kit/conditional-line.ts";
import { claim, DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, T0 } from "../kit/contract-kit.ts";
import { calendar } from "../limits/kind-arbitraries.ts";
import { OriginalClient } from "../simulation/original-client.ts";
import type { Faulty } from "./faulty-clients.ts";
import {
  cutsWithoutRebase,
  givesBackUnmarked,
  installsFromCache,
  replacesExpired,
  reshards,
  SHARED_FAULTLESS,
  storesBelowZero,
  trustsTheEpoch,
} from "./faulty-shared-clients.ts";
import { Cluster, type Process } from "./kit.ts";

// The rules of a table that the original writes too: each is played by a client that keeps it and by one that lacks it, beside
// a client that does what the original does.

const Kinds = limitMakers(calendar);

/** What a trace comes to with the rule, and without. */
async function played(
  faulty: Faulty,
  trace: (client: Faulty) => Promise<number>,
): Promise<{ on: number; off: number }> {
  return { on: await trace(SHARED_FAULTLESS), off: await trace(faulty) };
}

async function granted({ place }: Process, one: Claim, requests: number, nowMs: number): Promise<number> {
  let count = 0;
  for (let i = 0; i < requests; i++) if (await place.grants(one, nowMs)) count++;
  return count;
}

/** How many of so many requests for one token the original admits. */
async function admitted(original: OriginalClient, { bucket }: Claim, name: string, requests: number): Promise<number> {
  let count = 0;
  for (let i = 0; i < requests; i++) if (!(await original.acquire(bucket, { [name]: 1 })).refused) count++;
  return count;
}

/** The original, at the same table. What its configuration tells may change. */
function originalOf(cluster: Cluster, { place }: Process, limits: () => readonly Limit[], line: LineOptions = {}) {
  // By chance it asks the last of the shards that it knows of.
  return new OriginalClient(cluster.world.table.lineTo(place.namespaceId, line), {
    now: () => cluster.clock.now(),
    random: () => 0.9,
    resolve: limits,
    calendar,
  });
}

const since = (asOfMs: number) => ({ origin: { asOfMs, generation: null } });

test("sharedRebasesOver: what is cut off under the same epoch is cut off once more by the original", async () => {
  const { on, off } = await played(cutsWithoutRebase, async (client) => {
    const cluster = new Cluster();
    const ours = await cluster.open(client());
    const limits = [Kinds.perMinute("rpm", 100)];
    const one = claim("ada", limits, { rpm: 1 });
    assert.ok(await ours.place.grants(claim("ada", limits, { rpm: 90 }), T0));
    cluster.clock.set(T0 + HOUR_MS - SECOND_MS);
    let writes = 0;
    const pause = async (call: string, before: string) => {
      // Between the read of its slow pass and the write that follows, one of ours takes from the full bucket.
      if (call === "write" && before === "applying" && ++writes === 2)
        await ours.place.grants(one, cluster.clock.now());
    };
    const original = originalOf(cluster, ours, () => limits, { pause });
    await original.acquire(one.bucket, { rpm: 20 });
    assert.ok(writes >= 2, "there was no slow pass");
    cluster.clock.set(cluster.clock.now() + MINUTE_MS);
    return granted(ours, one, 200, cluster.clock.now());
  });
  assert.equal(on, 100);
  assert.equal(off, 0);
});

test("sharedCreditMarks: what comes back over the brim is spent in full by the original", async () => {
  const { on, off } = await played(givesBackUnmarked, async (client) => {
    const cluster = new Cluster();
    const ours = await cluster.open(client());
    const limits = [Kinds.perMinute("rpm", 10)];
    const all = claim("ada", limits, { rpm: 10 });
    const original = originalOf(cluster, ours, () => limits);
    for (let minute = 0; minute < 6; minute++) {
      cluster.clock.set(T0 + minute * MINUTE_MS);
      assert.ok(await ours.place.grants(all, cluster.clock.now()));
    }
    for (let lease = 0; lease < 6; lease++) await ours.place.credit(all, { rpm: 10 }, cluster.clock.now());
    return admitted(original, all, "rpm", 100);
  });
  assert.equal(on, 10);
  assert.equal(off, 60);
});

test("sharedKeepsShards: a shard that ours makes and removes is made anew by the original, with tokens in it", async () => {
  const { on, off } = await played(reshards, async (client) => {
    const cluster = new Cluster();
    const ours = await cluster.open(client());
    const limits = [Kinds.perDay("rpd", 100)];
    const one = claim("ada", limits, { rpd: 1 });
    const original = originalOf(cluster, ours, () => limits);
    let taken = await granted(ours, one, 200, T0);
    await ours.buckets.resize(one.bucket, "more", T0 + 1);
    taken += await admitted(original, one, "rpd", 20);
    await ours.buckets.resize(one.bucket, 1, T0 + 2);
    return taken + (await admitted(original, one, "rpd", 200));
  });
  assert.equal(on, 100);
  assert.equal(off, 150);
});

test("sharedPinsTerms: a rate that the original lowers in place is still granted by who remembers the old one", async () => {
  const { on, off } = await played(trustsTheEpoch, async (client) => {
    const cluster = new Cluster();
    const ours = await cluster.open(client());
    const fast = [Kinds.perSecond("rps", 100)];
    const slow = [Kinds.custom("rps", { capacity: 100, refillAmount: 1, refillPeriodMs: DAY_MS })];
    const all = claim("ada", fast, { rps: 100 }, since(T0 - 1));
    assert.ok(await ours.place.grants(all, T0));
    // Releases of the original that know no windows do it without a mark.
    const item = cluster.item(ours.place.namespaceId, "ada") ?? {};
    const lowered = { ...item, b_rps_ra: (slow[0]?.refillAmount ?? 0) * 1000, b_rps_rp: DAY_MS };
    cluster.world.table.put(ours.place.namespaceId, { bucket: all.bucket, shard: 0 }, lowered);
    cluster.clock.set(T0 + SECOND_MS);
    // Limits older than the item's: ours goes by the item.
    return 100 * (await granted(ours, claim("ada", fast, { rps: 100 }, since(T0 - 1)), 1, T0 + SECOND_MS));
  });
  assert.equal(on, 0);
  assert.equal(off, 100);
});

test("sharedKeepsStored: a rate lowered in place under an old epoch refuses everybody", async () => {
  const { on, off } = await played(storesBelowZero, async (client) => {
    const cluster = new Cluster();
    const ours = await cluster.open(client());
    const fast = [Kinds.perSecond("rps", 10, { burst: 100 })];
    const slow = [Kinds.perSecond("rps", 1, { burst: 100 })];
    const original = originalOf(cluster, ours, () => slow);
    const before = claim("ada", fast, { rps: 10 }, since(T0));
    assert.ok(await ours.place.grants(claim("ada", fast, { rps: 50 }, since(T0)), T0));
    for (let second = 0; second <= 600; second++) {
      cluster.clock.set(T0 + second * SECOND_MS);
      assert.ok(await ours.place.grants(before, cluster.clock.now()), `second ${second}`);
    }
    await original.setLimits(before.bucket, slow);
    const after = claim("ada", slow, { rps: 1 }, since(T0 + 600 * SECOND_MS));
    let count = 0;
    for (let second = 601; second <= 660; second++) {
      cluster.clock.set(T0 + second * SECOND_MS);
      count += await granted(ours, after, 1, cluster.clock.now());
    }
    return count;
  });
  assert.equal(on, 60);
  assert.equal(off, 0);
});

test("sharedKeepsExpired: an item that has expired and is still there keeps its debt", async () => {
  const { on, off } = await played(replacesExpired, async (client) => {
    const cluster = new Cluster();
    const ours = await cluster.open(client());
    const limits = [Kinds.perDay("rpd", 10)];
    const one = claim("ada", limits, { rpd: 1 });
    assert.ok(await ours.place.grants(one, T0));
    assert.equal((await ours.place.debit(one, { rpd: 50 }, T0)).kind, "applied");
    // The original's slow pass shortens it.
    const key = { bucket: one.bucket, shard: 0 };
    const item = cluster.item(ours.place.namespaceId, "ada") ?? {};
    cluster.world.table.put(ours.place.namespaceId, key, { ...item, ttl: Math.floor(T0 / 1000) + 60 });
    cluster.clock.set(T0 + HOUR_MS);
    let count = 0;
    for (const process of [ours, await cluster.open(client())]) {
      count += await granted(process, one, 20, T0 + HOUR_MS);
    }
    // A client that writes to it sees to it that it stays.
    assert.equal((await ours.place.debit(one, { rpd: 1 }, T0 + HOUR_MS)).kind, "applied");
    const renewed = Number(cluster.item(ours.place.namespaceId, "ada")?.ttl ?? Number.POSITIVE_INFINITY);
    assert.ok(client === replacesExpired || renewed * 1000 > T0 + 5 * DAY_MS, "the item was not renewed");
    return count;
  });
  assert.equal(on, 0);
  assert.equal(off, 10);
});

test("a claim that is refused renews what the original lets expire before the debt is paid, with one write", async () => {
  const cluster = new Cluster();
  const ours = await cluster.open({ dialect: SHARED });
  const one = claim("ada", [Kinds.perDay("rpd", 10)], { rpd: 1 });
  assert.ok(await ours.place.grants(one, T0));
  assert.equal((await ours.place.debit(one, { rpd: 50 }, T0)).kind, "applied");
  const ttlS = () => Number(cluster.item(ours.place.namespaceId, "ada")?.ttl);
  const item = cluster.item(ours.place.namespaceId, "ada") ?? {};
  const shortened = { ...item, ttl: Math.floor((T0 + DAY_MS) / 1000) };
  cluster.world.table.put(ours.place.namespaceId, { bucket: one.bucket, shard: 0 }, shortened);
  cluster.clock.set(T0 + HOUR_MS);
  let writes = 0;
  cluster.world.table.watch(() => {
    writes++;
  });
  assert.equal(await granted(ours, one, 5, T0 + HOUR_MS), 0);
  // 41 are owed, and then 10 are to be had.
  const fullMs = T0 + (51 * DAY_MS) / 10;
  assert.ok(ttlS() * 1000 >= fullMs + HOUR_MS, `kept until ${ttlS()}, full at ${fullMs / 1000}`);
  assert.equal(writes, 1);
});

test("sharedReadsAfter: limits that were read before the original changed them in place do not undo the change", async () => {
  const { on, off } = await played(installsFromCache, async (client) => {
    const cluster = new Cluster();
    const { dialect = SHARED, readings = new ConfigReadings() } = client();
    const ours = await cluster.open({ dialect, readings });
    const [before, after] = [[Kinds.perMinute("rpm", 100)], [Kinds.perMinute("rpm", 50)]];
    const original = originalOf(cluster, ours, () => after);
    const read = () => ({ origin: { asOfMs: cluster.clock.now(), generation: null, reading: readings.begin() } });
    const cached = claim("ada", before, { rpm: 1 }, read());
    assert.ok(await ours.place.grants(cached, T0));
    await original.setLimits(cached.bucket, after);
    cluster.clock.set(T0 + SECOND_MS);
    // First by what it has in its cache, then, if it is told to, by what it reads now.
    const [answer] = await ours.place.take([cached], T0 + SECOND_MS);
    const stored = cluster.item(ours.place.namespaceId, "ada")?.b_rpm_cp;
    if (answer?.kind === "configSuspect")
      assert.ok(await ours.place.grants(claim("ada", after, { rpm: 1 }, read()), T0 + SECOND_MS));
    return Number(stored) / 1000;
  });
  assert.equal(on, 50);
  assert.equal(off, 100);
});
