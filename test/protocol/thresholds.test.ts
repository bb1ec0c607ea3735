import assert from "node:assert/strict";
import { test } from "node:test";
import { freshBucket } from "../../src/domain/bucket/bucket-state.ts";
import { limitMakers } from "../../src/domain/limits/limit.ts";
import { limitSet } from "../../src/domain/limits/limit-set.ts";
import type { Crossed } from "../../src/domain/limits/thresholds.ts";
import type { Claim } from "../../src/ports/bucket-store.ts";
import type { ItemStore, ItemWrite } from "../../src/ports/item-store.ts";
import { UndecidedTakes } from "../../src/protocol/marks/mark.ts";
import { overriding } from "../../src/testing/fault-store.ts";
import { claim, DAY_MS, kinds, MINUTE_MS, T0 } from "../kit/contract-kit.ts";
import { calendar } from "../limits/kind-arbitraries.ts";
import { Cluster, type Process } from "./kit.ts";

// Marks of what was told, written beside the takes: what they cost, and what becomes of them when answers are lost.

const Kinds = limitMakers(calendar);
const NOTIFY = { notifyAt: [80, 95] };
const DAILY = [Kinds.quota("day", 100, { reset: { cron: "0 0 * * *" }, ...NOTIFY })];
const RPM = [Kinds.perMinute("rpm", 100, NOTIFY)];
const ofDay = (tokens: number): Claim => claim("ada", DAILY, { day: tokens });
const ofMinute = (tokens: number): Claim => claim("ada", RPM, { rpm: tokens });
const isMark = (write: ItemWrite) => "b_day_tb" in write.set || "b_rpm_tb" in write.set;

function heardBy({ buckets }: Process): Crossed[] {
  const told: Crossed[] = [];
  buckets.watchThresholds((crossed) => told.push(crossed));
  return told;
}

/** Marks wait in front of it until it is open. */
class Gate {
  open = () => {};
  readonly opened = new Promise<void>((resolve) => {
    this.open = resolve;
  });

  readonly marks = (items: ItemStore): ItemStore =>
    writing(items, async (write, send) => {
      if (isMark(write)) await this.opened;
      return send();
    });
}

/** A process whose first mark is sent when something else has happened. */
function outrun(cluster: Cluster, meanwhile: () => Promise<void>): Promise<Process> {
  let isFirst = true;
  const through = (items: ItemStore): ItemStore =>
    writing(items, async (write, send) => {
      if (isMark(write) && isFirst) {
        isFirst = false;
        await meanwhile();
      }
      return send();
    });
  return cluster.open({ through });
}

const percents = (told: readonly Crossed[]) => told.map(({ percent }) => percent);

async function taken({ place, buckets }: Process, one: Claim, nowMs: number): Promise<void> {
  assert.deepEqual(kinds(await place.take([one], nowMs)), ["taken"]);
  await buckets.settled();
}

test("a threshold costs one write when it is told, and nothing before and after", async () => {
  const cluster = new Cluster();
  const process = await cluster.open();
  const told = heardBy(process);
  await taken(process, ofDay(79), T0);
  assert.deepEqual(cluster.spent(), { writes: 1, transactions: 0, reads: 1 });
  await taken(process, ofDay(1), T0 + 1);
  assert.deepEqual(cluster.spent(), { writes: 2, transactions: 0, reads: 0 });
  for (let i = 0; i < 5; i++) await taken(process, ofDay(1), T0 + 2 + i);
  assert.deepEqual(cluster.spent(), { writes: 5, transactions: 0, reads: 0 });
  await taken(process, ofDay(15), T0 + 10);
  assert.deepEqual(cluster.spent(), { writes: 2, transactions: 0, reads: 0 });
  assert.deepEqual(percents(told), [80, 95]);
  // Of another process, which has not seen the bucket.
  const other = await cluster.open();
  await taken(other, ofDay(0), T0 + 11);
  assert.deepEqual(cluster.spent(), { writes: 1, transactions: 0, reads: 1 });
  assert.deepEqual(heardBy(other), []);
});

test("levels of a request that is refused and undone write no marks", async () => {
  const cluster = new Cluster();
  let marks = 0;
  const through = (items: ItemStore): ItemStore =>
    writing(items, (write, send) => {
      if (isMark(write)) marks++;
      return send();
    });
  const process = await cluster.open({ through });
  const told = heardBy(process);
  const org = [Kinds.perMinute("rpm", 90)];
  const both = (tokens: number) => [claim("ada", RPM, { rpm: tokens }), claim("org", org, { rpm: tokens })];
  await process.place.take([claim("org", org, { rpm: 20 })], T0);
  assert.deepEqual(kinds(await process.place.take(both(85), T0)), ["taken", "short"]);
  await process.buckets.settled();
  assert.deepEqual([marks, percents(told)], [0, []]);
});

test("of what a request took from a bucket again and again, as it yielded, the last is looked at", () => {
  const looked: unknown[] = [];
  const takes = new UndecidedTakes({ look: ({ bucket }, { readingMs }) => looked.push([bucket.entityId, readingMs]) });
  const left = freshBucket(limitSet(RPM), { asOfMs: T0, generation: 1 }, T0, calendar);
  const take = (entityId: string, readingMs: number) =>
    takes.look(claim(entityId, RPM, { rpm: 80 }), { amounts: [], readingMs }, left);
  for (const [i, entityId] of ["ada", "org", "org"].entries()) take(entityId, T0 + i);
  assert.deepEqual(looked, []);
  takes.decided();
  assert.deepEqual(looked, [
    ["ada", T0],
    ["org", T0 + 2],
  ]);
});

test("what was used of a quota is told, also where it is no quota any more when the mark is written", async () => {
  const cluster = new Cluster();
  const gate = new Gate();
  let isSlow = false;
  const through = (items: ItemStore): ItemStore =>
    overriding(items, {
      read: async (...args) => {
        if (isSlow) await gate.opened;
        return items.read(...args);
      },
    });
  const process = await cluster.open({ through });
  const told = heardBy(process);
  const both = (tokens: number) => [ofDay(tokens), claim("org", [Kinds.perMinute("day", 100)], { day: tokens })];
  await process.place.take(both(1), T0);
  isSlow = true;
  // A transaction shows no item: its marks begin with a read.
  assert.deepEqual(kinds(await process.place.take(both(80), T0 + 2_000, { atomic: true })), ["taken", "taken"]);
  // By a clock that is behind: at the reading of the take the rate is full again.
  const next = { origin: { asOfMs: T0 + 1, generation: 2 } };
  await taken(await cluster.open(), claim("ada", [Kinds.perSecond("day", 1_000)], { day: 1 }, next), T0 + 1);
  gate.open();
  await process.buckets.settled();
  assert.deepEqual(
    told.map(({ percent, used, capacity }) => [percent, used, capacity]),
    [[80, 81, 100]],
  );
});

test("takes of one bucket that are under way together are told with one write", async () => {
  const cluster = new Cluster();
  const process = await cluster.open();
  const told = heardBy(process);
  await taken(process, ofDay(50), T0);
  cluster.spent();
  await Promise.all(Array.from({ length: 40 }, () => process.place.take([ofDay(1)], T0 + 1)));
  await process.buckets.settled();
  assert.ok(cluster.spent().writes <= 4, "as many as the takes, and one for the mark");
  assert.deepEqual(percents(told), [80]);
  assert.equal(told[0]?.atMs, T0 + 1);
});

test("a take does not wait for the mark", async () => {
  const cluster = new Cluster();
  const gate = new Gate();
  const process = await cluster.open({ through: gate.marks });
  const told = heardBy(process);
  assert.deepEqual(kinds(await process.place.take([ofDay(80)], T0)), ["taken"]);
  assert.deepEqual(kinds(await process.place.take([ofDay(1)], T0)), ["taken"]);
  assert.deepEqual(told, []);
  gate.open();
  await process.buckets.thresholdsTold();
  assert.deepEqual(percents(told), [80]);
});

for (const lost of ["before it landed", "after it landed"] as const) {
  test(`a mark whose answer is lost ${lost} is told once`, async () => {
    const cluster = new Cluster();
    let losses = 2;
    const through = (items: ItemStore): ItemStore =>
      writing(items, async (write, send) => {
        if (!isMark(write) || losses-- <= 0) return send();
        if (lost === "after it landed") await send();
        return { kind: "unknown", cause: new Error("lost") };
      });
    const process = await cluster.open({ through });
    const told = heardBy(process);
    await taken(process, ofDay(80), T0);
    assert.deepEqual(percents(told), [80]);
    assert.equal(
      cluster.item(process.place.namespaceId, "ada")?.b_day_th,
      `80@${T0 + DAY_MS / 2}.${resetsOn(cluster, process)}`,
    );
    await taken(process, ofDay(1), T0 + 1);
    assert.deepEqual(percents(told), [80]);
  });
}

function resetsOn(cluster: Cluster, { place }: Process): unknown {
  return cluster.item(place.namespaceId, "ada")?.b_day_rn ?? 0;
}

test("what a process that died left untold is told by the next take", async () => {
  const cluster = new Cluster();
  const dying = await cluster.open({
    through: (items) => writing(items, async (write, send) => (isMark(write) ? new Promise(() => {}) : send())),
  });
  const told = heardBy(dying);
  await dying.place.take([ofDay(96)], T0);
  const next = await cluster.open();
  const heard = heardBy(next);
  await taken(next, ofDay(1), T0 + 1);
  assert.deepEqual([told, percents(heard)], [[], [80, 95]]);
});

test("a mark that is outrun tells what is left of it, and never what another told", async () => {
  const cluster = new Cluster();
  const other = await cluster.open();
  const heard = heardBy(other);
  const process = await outrun(cluster, async () => {
    // Meanwhile the other takes nothing more, and finds that 80 is reached as well.
    await other.place.take([ofDay(0)], T0 + 1);
    await other.buckets.settled();
  });
  const told = heardBy(process);
  await taken(process, ofDay(85), T0);
  assert.deepEqual([percents(heard), percents(told)], [[80], []]);
  await taken(process, ofDay(10), T0 + 2);
  assert.deepEqual([percents(heard), percents(told)], [[80], [95]]);
});

test("a mark that comes too late for what refills is told by what is used then", async () => {
  const cluster = new Cluster();
  const other = await cluster.open();
  const heard = heardBy(other);
  const process = await outrun(cluster, async () => {
    // The other tells the crossing, sees the limit far below it, and so may tell the next crossing.
    await taken(other, ofMinute(1), T0 + 1);
    cluster.clock.set(T0 + MINUTE_MS);
    await taken(other, ofMinute(1), T0 + MINUTE_MS);
  });
  const told = heardBy(process);
  await taken(process, ofMinute(85), T0);
  assert.deepEqual([percents(heard), percents(told)], [[80], []]);
  await taken(process, ofMinute(80), T0 + MINUTE_MS);
  assert.deepEqual([percents(heard), percents(told)], [[80], [80]]);
});

test("a mark that is outrun by a clock ahead tells no more than the take there left", async () => {
  const cluster = new Cluster();
  const ahead = await cluster.open();
  const heard = heardBy(ahead);
  const process = await outrun(cluster, async () => {
    // It is full again by then. By the clock of the first, what has come since is missing.
    await taken(ahead, ofMinute(85), T0 + 3 * MINUTE_MS);
  });
  const told = heardBy(process);
  await taken(process, ofMinute(85), T0);
  assert.deepEqual([percents(heard), percents(told)], [[80], []]);
});

test("a mark that is outrun takes none back by a clock that is ahead", async () => {
  const cluster = new Cluster();
  const other = await cluster.open();
  const heard = heardBy(other);
  const process = await outrun(cluster, async () => {
    await taken(other, ofMinute(1), T0);
    // By this clock it is full again, and no take has seen that.
    cluster.clock.set(T0 + MINUTE_MS);
  });
  const told = heardBy(process);
  await taken(process, ofMinute(85), T0);
  await taken(other, ofMinute(1), T0 + 1);
  assert.deepEqual([percents(heard), percents(told)], [[80], []]);
});

test("a take of several levels tells nothing that others had given back before it", async () => {
  const cluster = new Cluster();
  const other = await cluster.open();
  let giveBack = async () => {};
  const through = (items: ItemStore): ItemStore =>
    overriding(items, {
      transact: async (...asked) => {
        // The bucket was read already.
        await giveBack();
        return items.transact(...asked);
      },
    });
  const process = await cluster.open({ through });
  const told = heardBy(process);
  const both = (tokens: number) => [ofMinute(tokens), claim("org", [Kinds.perMinute("rpm", 1_000)], { rpm: tokens })];
  const takeBoth = async (tokens: number) => {
    assert.deepEqual(kinds(await process.place.take(both(tokens), T0, { atomic: true })), ["taken", "taken"]);
    await process.buckets.settled();
  };
  await takeBoth(75);
  giveBack = async () => {
    giveBack = async () => {};
    await other.place.credit(ofMinute(50), { rpm: 50 }, T0);
  };
  await takeBoth(25);
  assert.deepEqual(percents(told), [], "50 are used, not 100");
  await takeBoth(45);
  assert.deepEqual(percents(told), [80, 95]);
});

/** A process whose transactions are answered when something else has happened: the bucket is read after them, for its mark. */
function afterTransactions(cluster: Cluster, meanwhile: () => Promise<void>): Promise<Process> {
  const through = (items: ItemStore): ItemStore =>
    overriding(items, {
      transact: async (...asked) => {
        const reply = await items.transact(...asked);
        await meanwhile();
        return reply;
      },
    });
  return cluster.open({ through });
}

async function tookBoth({ place, buckets }: Process, tokens: number, nowMs: number): Promise<void> {
  const both = [ofMinute(tokens), claim("org", [Kinds.perMinute("rpm", 1_000)], { rpm: tokens })];
  assert.deepEqual(kinds(await place.take(both, nowMs, { atomic: true })), ["taken", "taken"]);
  await buckets.settled();
}

test("a take of several levels takes no mark back that others set before the bucket was read", async () => {
  const cluster = new Cluster();
  const other = await cluster.open();
  const fullMs = T0 + 2 * MINUTE_MS;
  const process = await afterTransactions(cluster, () => taken(other, ofMinute(85), fullMs));
  const [told, heard] = [heardBy(process), heardBy(other)];
  await taken(other, ofMinute(85), T0);
  await tookBoth(process, 1, fullMs);
  await taken(other, ofMinute(1), fullMs);
  assert.deepEqual([percents(told), percents(heard)], [[], [80, 80]]);
});

test("a mark of a period that is over takes no later one back", async () => {
  const cluster = new Cluster();
  const other = await cluster.open();
  const heard = heardBy(other);
  const midnight = T0 + DAY_MS / 2;
  const process = await outrun(cluster, async () => {
    await taken(other, ofDay(95), midnight);
  });
  const told = heardBy(process);
  await taken(process, ofDay(85), midnight - 1);
  await taken(other, ofDay(1), midnight + 1);
  assert.deepEqual([percents(heard), percents(told)], [[80, 95], []]);
});

test("a mark that comes too late keeps no later period from being told", async () => {
  for (const isReset of [false, true]) {
    const cluster = new Cluster();
    const late = new Gate();
    const process = await cluster.open({ through: late.marks });
    const told = heardBy(process);
    const next = new Gate();
    const other = await cluster.open({ through: next.marks });
    const heard = heardBy(other);
    const nextMs = isReset ? T0 + 1 : T0 + DAY_MS / 2;
    assert.deepEqual(kinds(await process.place.take([ofDay(85)], T0)), ["taken"]);
    if (isReset) await other.place.reset(ofDay(0), ["day"], T0);
    assert.deepEqual(kinds(await other.place.take([ofDay(95)], nextMs)), ["taken"]);
    // Both have sent their marks. That of the period that is over lands first.
    late.open();
    await process.buckets.settled();
    next.open();
    await other.buckets.settled();
    assert.deepEqual([percents(told), percents(heard)], [[80], [80, 95]], isReset ? "reset by hand" : "at midnight");
  }
});

test("uses of several periods that wait for one mark are all told", async () => {
  const cluster = new Cluster();
  const gate = new Gate();
  const process = await cluster.open({ through: gate.marks });
  const told = heardBy(process);
  const midnight = T0 + DAY_MS / 2;
  for (const [tokens, atMs] of [
    [80, T0],
    [15, T0 + 1],
    [95, midnight],
    [80, midnight + DAY_MS],
  ] as const) {
    cluster.clock.set(atMs);
    assert.deepEqual(kinds(await process.place.take([ofDay(tokens)], atMs)), ["taken"]);
  }
  gate.open();
  await process.buckets.settled();
  assert.deepEqual(percents(told), [80, 95, 80, 95, 80]);
});

test("a store that does not take the mark fails no take, and the next one tells", async () => {
  const cluster = new Cluster();
  let isDown = true;
  const through = (items: ItemStore): ItemStore =>
    writing(items, async (write, send) =>
      isMark(write) && isDown ? { kind: "refused", why: "unreachable", cause: new Error("down") } : send(),
    );
  const process = await cluster.open({ through });
  const told = heardBy(process);
  const faults: string[] = [];
  process.buckets.onFault(({ reason }) => faults.push(reason));
  assert.deepEqual(kinds(await process.place.take([ofDay(80)], T0)), ["taken"]);
  await cluster.clock.advance(MINUTE_MS);
  await process.buckets.settled();
  assert.deepEqual([told, faults], [[], ["a threshold could not be told"]]);
  isDown = false;
  await taken(process, ofDay(1), T0 + MINUTE_MS);
  assert.deepEqual(percents(told), [80]);
});

test("a bucket in shards tells by what all of them hold, once for all processes", async () => {
  const cluster = new Cluster();
  const process = await cluster.open();
  const other = await cluster.open();
  const [told, heard] = [heardBy(process), heardBy(other)];
  const { bucket } = ofDay(0);
  await taken(process, ofDay(10), T0);
  assert.ok(await process.buckets.resize(bucket, "more", T0 + 1));
  let used = 10;
  for (let i = 0; used < 97; i++) {
    const one = i % 2 === 0 ? process : other;
    const before = [...told, ...heard].length;
    await taken(one, ofDay(3), T0 + 10 + i);
    used += 3;
    const all = [...told, ...heard];
    if (all.length > before) assert.equal(all.length - before, 1);
    const due = used >= 95 ? 2 : used >= 80 ? 1 : 0;
    assert.ok(all.length <= due, `${all.length} told with ${used} used`);
  }
  assert.deepEqual(percents([...told, ...heard]).toSorted(), [80, 95]);
  const items = [0, 1].map((shard) => cluster.item(process.place.namespaceId, "ada", shard));
  assert.deepEqual(
    items.map((item) => item !== undefined && "b_day_th" in item),
    [true, false],
  );
  assert.equal((await process.place.state("ada"))?.limits[0]?.told, 95);
  assert.ok(await process.buckets.resize(bucket, 1, T0 + 1_000));
  await taken(process, ofDay(1), T0 + 1_001);
  assert.equal([...told, ...heard].length, 2);
  const midnight = T0 + DAY_MS / 2;
  await taken(other, ofDay(96), midnight);
  assert.equal([...told, ...heard].length, 4);
});

/** A store of which each write goes through a function. */
function writing(
  items: ItemStore,
  by: (write: ItemWrite, send: () => ReturnType<ItemStore["write"]>) => ReturnType<ItemStore["write"]>,
): ItemStore {
  return overriding(items, { write: (write, call) => by(write, () => items.write(write, call)) });
}
