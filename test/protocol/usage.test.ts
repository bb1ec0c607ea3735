import assert from "node:assert/strict";
import { test } from "node:test";
import type { UsageSnapshot } from "../../src/domain/charge/usage.ts";
import { Limit, limitMakers } from "../../src/domain/limits/limit.ts";
import type { ConditionalProcess } from "../kit/conditional-store.ts";
import { claim, DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, T0 } from "../kit/contract-kit.ts";
import { calendar } from "../limits/kind-arbitraries.ts";
import {
  expiresWhenFull,
  FAULTLESS,
  type Faulty,
  forgetsCounters,
  givesBackIntoPastHours,
  joinsUncounted,
  skipsSheets,
} from "./faulty-clients.ts";
import { Cluster, type Process } from "./kit.ts";

// Usage on single-item conditional writes: each rule that exists because a short trace loses usage without it, played by clients
// that keep the rule and by clients that lack it; and what the rules come to.

const Kinds = limitMakers(calendar);
const rpm = [Kinds.perMinute("rpm", 1_000)];
const one = claim("ada", rpm, { rpm: 1 });
const none = claim("ada", rpm, { rpm: 0 });
const since = (asOfMs: number) => ({ origin: { asOfMs, generation: null } });

async function played(
  faulty: Faulty,
  trace: (client: Faulty) => Promise<unknown>,
): Promise<{ on: unknown; off: unknown }> {
  return { on: await trace(FAULTLESS), off: await trace(faulty) };
}

async function hours({ place }: Process): Promise<readonly UsageSnapshot[]> {
  return (await place.scope.usage.query({ window: "hourly", fromMs: 0, toMs: 2 ** 53 }, { limit: 100 })).items;
}

/** The counters of each hour since the beginning, by the limit. */
async function used(process: Process, limit = "rpm"): Promise<readonly (readonly [number, number])[]> {
  return (await hours(process)).map(({ windowStartMs, counters }) => [
    (windowStartMs - T0) / HOUR_MS,
    counters[limit] ?? 0,
  ]);
}

test("sheetFirst: a process is killed between the roll and the sheet, and the next roll loses the hour", async () => {
  const { on, off } = await played(skipsSheets, async (client) => {
    const cluster = new Cluster();
    const a = await cluster.open(client());
    await a.place.take([one], T0);
    await a.place.take([one], T0 + HOUR_MS);
    a.line.crash();
    const b = await cluster.open(client());
    await b.place.take([one], T0 + 2 * HOUR_MS);
    return used(b);
  });
  assert.deepEqual(on, [
    [0, 1],
    [1, 1],
    [2, 1],
  ]);
  assert.deepEqual(off, [
    [1, 1],
    [2, 1],
  ]);
});

test("hourClause: a give-back of a process that knows nothing of the bucket changes an hour that is over", async () => {
  const { on, off } = await played(givesBackIntoPastHours, async (client) => {
    const cluster = new Cluster();
    const a = await cluster.open(client());
    const ticket = await a.place.ticket(claim("ada", rpm, { rpm: 5 }), T0);
    const b = await cluster.open(client());
    await b.place.giveBack(claim("ada", rpm, { rpm: 5 }), ticket, { rpm: 5 }, T0 + HOUR_MS);
    return used(b);
  });
  assert.deepEqual(on, [
    [0, 5],
    [1, -5],
  ]);
  assert.deepEqual(off, [[0, 0]]);
});

test("forgottenCounters: a limit that is forgotten takes with it what was counted of it in the hour", async () => {
  const { on, off } = await played(forgetsCounters, async (client) => {
    const cluster = new Cluster();
    const a = await cluster.open(client());
    const both = [...rpm, Kinds.perMinute("tpm", 60)];
    await a.place.take([claim("ada", both, { rpm: 1, tpm: 3 }, since(T0))], T0);
    // Later than it takes to refill, and with limits that are newer.
    await a.place.take([claim("ada", rpm, { rpm: 1 }, since(T0 + 1))], T0 + 10 * MINUTE_MS);
    await a.place.take([claim("ada", [Kinds.perMinute("rpm", 999)], { rpm: 1 }, since(T0 + 2))], T0 + 20 * MINUTE_MS);
    assert.equal(cluster.item(a.place.namespaceId, "ada")?.b_tpm_tk, undefined, "it is forgotten");
    await a.place.take([claim("ada", [Kinds.perMinute("rpm", 999)], { rpm: 1 }, since(T0 + 2))], T0 + HOUR_MS);
    return used(a, "tpm");
  });
  assert.deepEqual(on, [
    [0, 3],
    [1, 0],
  ]);
  assert.deepEqual(off, [
    [0, 0],
    [1, 0],
  ]);
});

test("joinPinsCounters: what is let through on a shard while it goes moves no token, and is lost with it", async () => {
  const { on, off } = await played(joinsUncounted, async (client) => {
    const cluster = new Cluster();
    const limits = [Kinds.perDay("rpd", 100)];
    const free = claim("ada", limits, { rpd: 1 }, { bypass: true });
    const b = await cluster.open({ ...client(), coalesce: false });
    let joins = false;
    const pause = async (call: string, before: string) => {
      if (call !== "transact" || before !== "applying" || !joins) return;
      joins = false;
      for (let i = 0; i < 20; i++) await b.place.take([free], T0 + 3);
    };
    const a = await cluster.open({ ...client(), line: { pause } });
    await a.place.take([claim("ada", limits, { rpd: 1 })], T0);
    assert.ok(await a.buckets.resize(free.bucket, "more", T0 + 1));
    await b.place.state("ada");
    joins = true;
    const resized = a.buckets.resize(free.bucket, 1, T0 + 3);
    await cluster.clock.advance(10 * SECOND_MS);
    assert.ok(await resized);
    const [hour] = await hours(a);
    return hour?.counters.rpd === 21 ? "all" : "less";
  });
  assert.deepEqual({ on, off }, { on: "all", off: "less" });
});

test("ttlKeepsUsage: a user who comes once is full again within a minute, and so is its usage gone", async () => {
  const { on, off } = await played(expiresWhenFull, async (client) => {
    const cluster = new Cluster();
    const a = await cluster.open(client());
    await a.place.take([one], T0);
    cluster.clock.set(T0 + DAY_MS);
    cluster.world.table.sweep(1);
    return used(a);
  });
  assert.deepEqual(on, [[0, 1]]);
  assert.deepEqual(off, []);
});

test("an item of an earlier release begins with 0: what it counted for ever is no hour's", async () => {
  const cluster = new Cluster();
  const a = await cluster.open();
  const { namespaceId } = a.place;
  await a.place.take([one], T0);
  const { uh: _, ...old } = cluster.item(namespaceId, "ada") ?? {};
  cluster.world.table.put(namespaceId, { bucket: one.bucket, shard: 0 }, { ...old, b_rpm_tc: 7_000_000, b_rq: 7_000 });
  a.buckets.forget(one.bucket);
  await a.place.take([one], T0 + 1);
  assert.deepEqual(await used(a), [[0, 1]]);
  assert.equal((await hours(a))[0]?.requests, 1);
});

test("while a sheet cannot be written the old hour goes on, and nobody is refused for it", async () => {
  const cluster = new Cluster();
  const a = await cluster.open();
  for (let hour = 0; hour < 2; hour++) {
    cluster.clock.set(T0 + hour * HOUR_MS);
    await a.place.take([one], T0 + hour * HOUR_MS);
  }
  cluster.clock.set(T0 + 2 * HOUR_MS);
  const { namespaceId } = a.place;
  const { write } = a.line;
  a.line.write = (sent, call) => {
    if (sent.key.sheet === undefined) return write.call(a.line, sent, call);
    return { kind: "refused", why: "throttled", cause: new Error("busy") };
  };
  const taken = a.place.take([one], T0 + 2 * HOUR_MS);
  await cluster.clock.advance(10 * SECOND_MS);
  assert.equal((await taken)[0]?.kind, "taken");
  assert.deepEqual(await used(a), [
    [0, 1],
    [1, 2],
  ]);
  a.line.write = write;
  await a.place.take([one], T0 + 2 * HOUR_MS + MINUTE_MS);
  assert.deepEqual(await used(a), [
    [0, 1],
    [1, 2],
    [2, 1],
  ]);
  assert.ok(cluster.world.table.get(namespaceId, { bucket: one.bucket, shard: 0, sheet: "2026-03-15" }));
});

test("the process that closed an hour puts it on its sheet beside a later take, and then removes it", async () => {
  const cluster = new Cluster();
  const a = await cluster.open();
  const at = async (nowMs: number, id: string) => {
    cluster.clock.set(nowMs);
    await a.place.take([claim(id, rpm, { rpm: 1 })], nowMs);
    await a.buckets.settled();
  };
  await at(T0, "ada");
  await at(T0 + HOUR_MS, "ada");
  const item = () => cluster.item(a.place.namespaceId, "ada") ?? {};
  const sheet = () =>
    cluster.world.table.get(a.place.namespaceId, { bucket: one.bucket, shard: 0, sheet: "2026-03-15" });
  assert.deepEqual([item().up, item().b_rpm_tp, item().b_rqp, sheet()], [T0 / HOUR_MS, 1_000, 1, undefined]);
  // Any bucket will do to be reminded.
  await at(T0 + HOUR_MS + 11 * MINUTE_MS, "bob");
  assert.equal(sheet()?.h12, "1;rpm=1000");
  await at(T0 + HOUR_MS + 12 * MINUTE_MS, "ada");
  assert.deepEqual(
    Object.keys(item()).filter((name) => /^(up|b_rqp|b_.*_(tp|bp|op))$/.test(name)),
    [],
  );
  cluster.spent();
  await at(T0 + 2 * HOUR_MS, "ada");
  assert.deepEqual(cluster.spent(), { writes: 1, transactions: 0, reads: 0 }, "nothing is in the way of the next roll");
});

test("a sweep closes hours, killed after each of its writes, and no usage changes; then the bucket may expire", async () => {
  for (let kill = 0; kill < 8; kill++) {
    const cluster = new Cluster();
    const a = await cluster.open();
    for (let hour = 0; hour < 2; hour++) await a.place.take([one], T0 + hour * HOUR_MS);
    const before = await hours(a);
    const nowMs = T0 + 5 * HOUR_MS;
    cluster.clock.set(nowMs);
    const places = [{ bucket: one.bucket, shard: 0 }];
    const options = { nowMs, afterHours: 2 };
    let left = kill;
    const dying = await cluster.open({
      through: (line) => {
        const { write } = line;
        line.write = (sent, call) => (left-- > 0 ? write.call(line, sent, call) : new Promise(() => {}));
        return line;
      },
    });
    void dying.buckets.closeHours(places, options);
    await new Promise((resolve) => setImmediate(resolve));
    assert.deepEqual(await hours(a), before, `killed after ${kill} writes`);
    const b = await cluster.open();
    const [closed] = await b.buckets.closeHours(places, options);
    assert.equal(closed?.kind, "closed");
    assert.deepEqual(await hours(a), before);
    assert.deepEqual(await b.buckets.closeHours(places, options), [{ kind: "closed", hours: 0, shardCount: 1 }]);
    cluster.clock.set(nowMs + DAY_MS);
    assert.equal(cluster.world.table.sweep(1), 1, "the bucket goes, its sheet stays");
    assert.deepEqual(await hours(a), before);
  }
});

test("a give-back to a bucket that a sweep has let go keeps it, and what it counts", async () => {
  const cluster = new Cluster();
  const a = await cluster.open();
  const ticket = await a.place.ticket(one, T0);
  const nowMs = T0 + 3 * HOUR_MS;
  cluster.clock.set(nowMs);
  const sweep = await cluster.open();
  await sweep.buckets.closeHours([{ bucket: one.bucket, shard: 0 }], { nowMs, afterHours: 2 });
  const b = await cluster.open();
  await b.place.giveBack(one, ticket, { rpm: 1 }, nowMs + 1);
  cluster.clock.set(nowMs + DAY_MS);
  cluster.world.table.sweep(1);
  assert.deepEqual(await used(a), [
    [0, 1],
    [3, -1],
  ]);
});

test("holds that nobody gave back are in the usage once a sweep has let their bucket go, short ones and long ones", async () => {
  for (const holdMs of [MINUTE_MS, 30 * MINUTE_MS, 5 * HOUR_MS, DAY_MS]) {
    const cluster = new Cluster();
    const a = await cluster.open();
    const held = claim("ada", [Limit.concurrent("parallel", 5, { holdMs })], { parallel: 3 });
    await a.place.take([held], T0 + MINUTE_MS);
    const sweep = await cluster.open();
    let hour = 0;
    // The sweep runs every hour, and DynamoDB removes what has expired.
    while (cluster.world.table.sweep(1) === 0) {
      assert.ok(++hour < 72, "the bucket goes");
      cluster.clock.set(T0 + hour * HOUR_MS);
      const options = { nowMs: cluster.clock.now(), afterHours: 2 };
      await sweep.buckets.closeHours([{ bucket: held.bucket, shard: 0 }], options);
    }
    const sum = { requests: 0, slots: 0, heldMs: 0 };
    for (const { requests, counters, heldMs } of await hours(a)) {
      sum.requests += requests;
      sum.slots += counters.parallel ?? 0;
      sum.heldMs += heldMs.parallel ?? 0;
    }
    assert.deepEqual(sum, { requests: 1, slots: 3, heldMs: 3 * holdMs }, `held for ${holdMs} ms`);
  }
});

test("split over the edge of an hour and joined again, a bucket has counted everything once", async () => {
  const cluster = new Cluster();
  const a = await cluster.open({ coalesce: false });
  const take = async (count: number, nowMs: number) => {
    cluster.clock.set(nowMs);
    for (let i = 0; i < count; i++) await a.place.take([one], nowMs);
  };
  await take(5, T0 + HOUR_MS - MINUTE_MS);
  assert.ok(await a.buckets.resize(one.bucket, "more", T0 + HOUR_MS - MINUTE_MS));
  await take(20, T0 + HOUR_MS - 1);
  await take(20, T0 + HOUR_MS);
  assert.ok(await a.buckets.resize(one.bucket, 1, T0 + HOUR_MS + 1));
  await take(1, T0 + 2 * HOUR_MS);
  assert.deepEqual(await used(a), [
    [0, 25],
    [1, 20],
    [2, 1],
  ]);
  assert.deepEqual(
    (await hours(a)).map(({ requests }) => requests),
    [25, 20, 1],
  );
});

test("joined by a reading from before the hour ended, shards keep in that hour what they counted in it", async () => {
  const cluster = new Cluster();
  const a = await cluster.open({ coalesce: false });
  const beforeMs = T0 + HOUR_MS - MINUTE_MS;
  cluster.clock.set(beforeMs);
  await a.place.take([one], beforeMs);
  assert.ok(await a.buckets.resize(one.bucket, "more", beforeMs));
  for (let i = 0; i < 20; i++) await a.place.take([one], beforeMs);
  cluster.clock.set(T0 + HOUR_MS + 1);
  assert.ok(await a.buckets.resize(one.bucket, 1, beforeMs));
  assert.deepEqual(await used(a), [[0, 21]]);
});

/** A process that knows the time of the store, and sets back an epoch that another one put ahead of it. */
function knowing({ clock }: Cluster): Partial<ConditionalProcess> {
  return { coalesce: false, serverTime: { isKnown: () => true, latestMs: () => clock.now() } };
}

test("split a second time while its hour is ahead of the clock, a bucket counts in no hour that is on a sheet", async () => {
  const cluster = new Cluster();
  const ahead = await cluster.open();
  await ahead.place.take([one], T0 + HOUR_MS);
  cluster.clock.set(T0 + 40 * MINUTE_MS);
  const a = await cluster.open(knowing(cluster));
  // Sets back the epoch. What the jump had brought is taken off, so that nothing is there until some has dripped in.
  await a.place.take([none], cluster.clock.now());
  for (let i = 0; i < 2; i++) {
    await cluster.clock.advance(MINUTE_MS);
    assert.ok(await a.buckets.resize(one.bucket, "more", cluster.clock.now()));
    for (let i = 0; i < 20; i++) assert.equal((await a.place.take([one], cluster.clock.now()))[0]?.kind, "taken");
    assert.ok(await a.buckets.resize(one.bucket, 1, cluster.clock.now()));
  }
  assert.deepEqual(await used(a), [[1, 41]]);
});

test("let go while its hour is ahead of the clock, a bucket is there until no hour on a sheet can be opened again", async () => {
  const cluster = new Cluster();
  const ahead = await cluster.open();
  const undone = async ({ place }: Process, nowMs: number) => {
    const held = { ...none, ticket: await place.ticket(none, nowMs) };
    await place.scope.buckets.credit(held, none.take, { nowMs, timeoutMs: SECOND_MS, undoes: "request" });
  };
  await ahead.place.take([one], T0 + 5 * HOUR_MS);
  await undone(ahead, T0 + 6 * HOUR_MS);
  const a = await cluster.open(knowing(cluster));
  cluster.clock.set(T0 + MINUTE_MS);
  // Sets back the epoch, and leaves nothing counted in the hour that is ahead.
  await undone(a, cluster.clock.now());
  const places = [{ bucket: one.bucket, shard: 0 }];
  const [closed] = await a.buckets.closeHours(places, { nowMs: cluster.clock.now(), afterHours: 2 });
  assert.deepEqual(closed, { kind: "closed", hours: 1, shardCount: 1 });
  cluster.clock.set(T0 + 5 * HOUR_MS + MINUTE_MS);
  cluster.world.table.sweep(1);
  a.buckets.forget(one.bucket);
  await a.place.take([one], cluster.clock.now());
  assert.deepEqual(await used(a), [
    [5, 1],
    [6, 1],
  ]);
});
