import assert from "node:assert/strict";
import { test } from "node:test";
import { limitMakers } from "../../src/domain/limits/limit.ts";
import { limitSet } from "../../src/domain/limits/limit-set.ts";
import type { Claim } from "../../src/ports/bucket-store.ts";
import { ConfigReadings } from "../../src/protocol/config/config-readings.ts";
import { claim, DAY_MS, HOUR_MS, SECOND_MS, T0 } from "../kit/contract-kit.ts";
import { calendar } from "../limits/kind-arbitraries.ts";
import {
  bindsOnlyTakenLimits,
  expiresAfterAMinute,
  FAULTLESS,
  type Faulty,
  givesBackIntoAnyPeriod,
  makesMissingShards,
  removesShardsUnseen,
  repeatsEpochs,
  takeInRounds,
  trustsItsCache,
} from "./faulty-clients.ts";
import { Cluster, type Process } from "./kit.ts";

// Each rule of the protocol exists because a short trace breaks the promise without it. Here are the traces: each is played
// by clients that keep the rule, and by clients that lack it.

const Kinds = limitMakers(calendar);

/** What a trace comes to with the rule, and without. */
async function played(
  faulty: Faulty,
  trace: (client: Faulty) => Promise<number>,
): Promise<{ on: number; off: number }> {
  return { on: await trace(FAULTLESS), off: await trace(faulty) };
}

/** So many requests for one token, one after the other: how many are granted. */
async function granted({ place }: Process, one: Claim, requests: number, nowMs: number): Promise<number> {
  let count = 0;
  for (let i = 0; i < requests; i++) if (await place.grants(one, nowMs)) count++;
  return count;
}

const since = (asOfMs: number) => ({ origin: { asOfMs, generation: null } });

test("allSides: rebased for one limit, another that is spent meanwhile is full again and again", async () => {
  const { on, off } = await played(bindsOnlyTakenLimits, async (client) => {
    const cluster = new Cluster();
    const [a, b] = [await cluster.open(client()), await cluster.open(client())];
    const tpm = Kinds.perDay("tpm", 100);
    let taken = 0;
    for (let round = 0; round < 20; round++) {
      // Another process changes the other limit from time to time, and the one that takes has an old image.
      const limits = [Kinds.perDay("rpm", 1_000 + (round % 2)), tpm];
      await a.place.grants(claim("ada", limits, { rpm: 1 }, since(T0 + round)), T0);
      taken += await b.place.drain((n) => claim("ada", limits, { tpm: n }, since(T0 + round)), T0, 100);
    }
    return taken;
  });
  assert.equal(on, 100);
  assert.equal(off, 2_000);
});

test("ttlCovers: an item that expires before it is full is granted twice within a millisecond", async () => {
  const { on, off } = await played(expiresAfterAMinute, async (client) => {
    const cluster = new Cluster();
    const a = await cluster.open(client());
    const one = claim("ada", [Kinds.perDay("rpd", 10)], { rpd: 1 });
    await a.place.grants(one, T0);
    let taken = 1 + (await granted(a, one, 20, T0 + 59_999));
    cluster.clock.set(T0 + 60_000);
    cluster.world.table.sweep(1);
    taken += await granted(a, one, 20, T0 + 60_000);
    return taken;
  });
  assert.equal(on, 10);
  assert.equal(off, 20);
});

test("creditPins: what was taken yesterday and comes back today is granted on top of today's quota", async () => {
  const { on, off } = await played(givesBackIntoAnyPeriod, async (client) => {
    const cluster = new Cluster();
    const a = await cluster.open(client());
    const limits = [Kinds.quota("day", 10, { reset: { cron: "0 0 * * *" } })];
    const all = claim("ada", limits, { day: 10 });
    const yesterday = await a.place.ticket(all, T0);
    const todayMs = T0 + DAY_MS;
    assert.ok(await a.place.grants(all, todayMs));
    await a.place.giveBack(all, yesterday, { day: 10 }, todayMs + 1);
    return 10 + (await granted(a, claim("ada", limits, { day: 1 }), 20, todayMs + 2));
  });
  assert.equal(on, 10);
  assert.equal(off, 20);
});

test("shardZeroFirst: a shard that is gone is created again, and full", async () => {
  const { on, off } = await played(makesMissingShards, async (client) => {
    const cluster = new Cluster();
    const [a, b] = [await cluster.open(client()), await cluster.open(client())];
    const limits = [Kinds.perDay("rpd", 100)];
    const one = claim("ada", limits, { rpd: 1 });
    assert.ok(await a.place.grants(claim("ada", limits, { rpd: 100 }), T0));
    assert.ok(await a.buckets.resize(one.bucket, "more", T0 + 1));
    // The other process sees two shards, both of them empty. Then they are joined again.
    await b.place.state("ada");
    assert.ok(await a.buckets.resize(one.bucket, 1, T0 + 2));
    return 100 + 50 * (await granted(b, claim("ada", limits, { rpd: 50 }), 4, T0 + 3));
  });
  assert.equal(on, 100);
  assert.equal(off, 150);
});

test("oneReading: where every round reads the clock again, the brim runs away from a caller that is not alone", async () => {
  /** Ten requests in a row, each half an hour after the last: how many are contended. */
  async function contended(take: (slow: Process, one: Claim) => Promise<string | undefined>): Promise<number> {
    const cluster = new Cluster();
    const { clock } = cluster;
    const other = await cluster.open({ exact: true });
    const one = claim("ada", [Kinds.perSecond("rps", 1, { burst: 100 })], { rps: 1 });
    const pause = async (call: string, before: string) => {
      // Each write is a second under way, and its answer another. In between another process takes from the full bucket.
      if (call !== "write") return;
      clock.set(clock.now() + SECOND_MS);
      if (before === "applying") assert.ok(await other.place.grants(one, clock.now()));
    };
    const slow = await cluster.open({ exact: true, line: { pause } });
    assert.ok(await other.place.grants(one, T0));
    clock.set(T0 + SECOND_MS);
    let count = 0;
    for (let i = 0; i < 10; i++) {
      if ((await take(slow, one)) === "contended") count++;
      clock.set(clock.now() + HOUR_MS / 2);
    }
    return count;
  }
  const inRounds = (readings: "one" | "each round its own") =>
    contended(({ line, clock }, one) => takeInRounds(line, clock, one, readings));
  assert.equal(await contended(async ({ place, clock }, one) => (await place.take([one], clock.now()))[0]?.kind), 0);
  assert.equal(await inRounds("one"), 0);
  assert.equal(await inRounds("each round its own"), 10);
});

interface Reader {
  readonly process: Process;
  readonly readings: ConfigReadings;
  cached: Omit<Claim, "bucket" | "take" | "bypass">;
}

test("configOrder: caches that disagree rebase a bucket with every take, and undo the change", async () => {
  const rebases: number[] = [];
  const { on, off } = await played(trustsItsCache, async (client) => {
    const cluster = new Cluster();
    const [before, after] = [limitSet([Kinds.perDay("rpd", 100)]), limitSet([Kinds.perDay("rpd", 50)])];
    let stored = before;
    const reader = async (): Promise<Reader> => {
      const { readings = new ConfigReadings() } = client();
      const process = await cluster.open({ readings });
      return { process, readings, cached: { set: stored, origin: read(readings) } };
    };
    const read = (readings: ConfigReadings) => ({
      asOfMs: cluster.clock.now(),
      generation: null,
      reading: readings.begin(),
    });
    // One cache was filled just before the change, the other just after it, in the same millisecond.
    const early = await reader();
    stored = after;
    const late = await reader();
    let undone = 0;
    for (let second = 1; second <= 20; second++) {
      cluster.clock.set(T0 + second * SECOND_MS);
      for (const one of [early, late]) {
        const { set: _, origin: __, ...rest } = claim("ada", [...one.cached.set.limits], { rpd: 1 });
        const asked = async () => (await one.process.place.take([{ ...one.cached, ...rest }], cluster.clock.now()))[0];
        let answer = await asked();
        if (answer?.kind === "configSuspect") {
          one.cached = { set: stored, origin: read(one.readings) };
          answer = await asked();
        }
        assert.equal(answer?.kind, "taken");
        if (second > 1 && cluster.item(one.process.place.namespaceId, "ada")?.b_rpd_cp === 100_000) undone++;
      }
    }
    rebases.push(cluster.rebases);
    return undone;
  });
  assert.deepEqual({ on, off }, { on: 0, off: 19 });
  assert.deepEqual(rebases, [1, 39]);
});

test("halvePinsTokens: what is taken from a shard while it goes is granted again by the one that stays", async () => {
  const { on, off } = await played(removesShardsUnseen, async (client) => {
    const cluster = new Cluster();
    const limits = [Kinds.perDay("rpd", 100)];
    const one = claim("ada", limits, { rpd: 1 });
    const b = await cluster.open({ ...client(), coalesce: false });
    let taken = 0;
    let joins = false;
    const pause = async (call: string, before: string) => {
      if (call !== "transact" || before !== "applying" || !joins) return;
      joins = false;
      taken += await granted(b, one, 60, T0 + 3);
    };
    const a = await cluster.open({ ...client(), line: { pause } });
    taken += await granted(a, one, 1, T0);
    assert.ok(await a.buckets.resize(one.bucket, "more", T0 + 1));
    await b.place.state("ada");
    joins = true;
    // Only the other process makes time pass, and it takes none.
    const resized = a.buckets.resize(one.bucket, 1, T0 + 3);
    await cluster.clock.advance(10 * SECOND_MS);
    assert.ok(await resized);
    return taken + (await granted(b, one, 200, T0 + 4));
  });
  assert.equal(on, 100);
  assert.equal(off, 129);
});

test("epochGrows: rebased within one millisecond, a bucket is taken for the one that it was", async () => {
  const { on, off } = await played(repeatsEpochs, async (client) => {
    const cluster = new Cluster();
    const [a, b] = [await cluster.open(client()), await cluster.open(client())];
    const fast = [Kinds.perSecond("rps", 100)];
    const slow = [Kinds.custom("rps", { capacity: 100, refillAmount: 1, refillPeriodMs: DAY_MS })];
    assert.ok(await a.place.grants(claim("ada", fast, { rps: 100 }, since(T0 - 1)), T0));
    assert.equal(await b.place.grants(claim("ada", slow, { rps: 1 }, since(T0)), T0), false);
    // By what it remembers of the same epoch a second has brought a hundred. Now it brings a thousandth of one.
    return Number(await a.place.grants(claim("ada", fast, { rps: 100 }, since(T0 - 1)), T0 + SECOND_MS)) * 100;
  });
  assert.equal(on, 0);
  assert.equal(off, 100);
});
