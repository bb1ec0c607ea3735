import assert from "node:assert/strict";
import { test } from "node:test";
import { type Limit, limitMakers } from "../../src/domain/limits/limit.ts";
import type { Claim } from "../../src/ports/bucket-store.ts";
import { claim, DAY_MS, HOUR_MS, kinds, SECOND_MS, T0 } from "../kit/contract-kit.ts";
import { calendar } from "../limits/kind-arbitraries.ts";
import { Cluster, type Process } from "./kit.ts";

// What an acquire costs, counted at the table: the design promises one write and no read.

const Kinds = limitMakers(calendar);

const FREE = { writes: 0, transactions: 0, reads: 0 };
const ONE_WRITE = { writes: 1, transactions: 0, reads: 0 };
const FIRST_CONTACT = { writes: 1, transactions: 0, reads: 1 };

const since = (asOfMs: number) => ({ origin: { asOfMs, generation: null } });

async function taken({ place }: Process, one: Claim, nowMs: number): Promise<void> {
  assert.deepEqual(kinds(await place.take([one], nowMs)), ["taken"]);
}

test("first contact is one read and one write, for a bucket that is not there and for one that is", async () => {
  const cluster = new Cluster();
  const one = claim("ada", [Kinds.perMinute("rpm", 100)], { rpm: 1 });
  for (let i = 0; i < 2; i++) {
    await taken(await cluster.open(), one, T0);
    assert.deepEqual(cluster.spent(), FIRST_CONTACT);
  }
});

test("first contact with a chain of levels is one read for all, and a write each", async () => {
  const cluster = new Cluster();
  const a = await cluster.open();
  const limits = [Kinds.perMinute("rpm", 100)];
  const levels = ["ada", "team", "org"].map((id) => claim(id, limits, { rpm: 1 }));
  assert.deepEqual(kinds(await a.place.take(levels, T0)), ["taken", "taken", "taken"]);
  assert.deepEqual(cluster.spent(), { writes: 3, transactions: 0, reads: 1 });
  assert.deepEqual(kinds(await a.place.take(levels, T0 + 1)), ["taken", "taken", "taken"]);
  assert.deepEqual(cluster.spent(), { writes: 3, transactions: 0, reads: 0 });
});

/** The hour before stands beside the open one, and nobody has put it on its sheet: that comes first, by what is there now. */
const CLOSES_TWO_HOURS = { writes: 2, transactions: 0, reads: 1 };

const STEADY: readonly (readonly [string, readonly Limit[], number])[] = [
  ["a moment later", [Kinds.perMinute("rpm", 100)], 5],
  ["after a refill", [Kinds.perMinute("rpm", 100)], 30 * SECOND_MS],
  ["after an idle hour, which is closed with it", [Kinds.perMinute("rpm", 100)], HOUR_MS],
  ["after an idle day, for which it is rebased", [Kinds.perMinute("rpm", 100)], DAY_MS],
  [
    "across the boundary of a schedule",
    [Kinds.perMinute("rpm", 100, { schedule: [{ cron: "* 13-17 * * *", scale: 2 }] })],
    2 * HOUR_MS,
  ],
  ["across a reset", [Kinds.quota("rpm", 100, { reset: { cron: "0 0 * * *" } })], DAY_MS],
  ["after a session has ended", [Kinds.quota("rpm", 100, { resetAfterMs: 5 * HOUR_MS })], 6 * HOUR_MS],
  [
    "with limits of four kinds",
    [
      Kinds.perMinute("rpm", 100),
      Kinds.quota("day", 100, { reset: { cron: "0 0 * * *" } }),
      Kinds.quota("five", 100, { resetAfterMs: 5 * HOUR_MS }),
      Kinds.perMinute("soft", 100, { soft: true }),
    ],
    20 * SECOND_MS,
  ],
];

for (const [when, limits, laterMs] of STEADY) {
  test(`an acquire is one write ${when}`, async () => {
    const cluster = new Cluster();
    const a = await cluster.open();
    const one = claim("ada", limits, Object.fromEntries(limits.map(({ name }) => [name, 1])));
    await taken(a, one, T0);
    cluster.spent();
    for (let step = 1; step <= 3; step++) {
      cluster.clock.set(T0 + step * laterMs);
      await taken(a, one, T0 + step * laterMs);
      const closesTwo = laterMs >= HOUR_MS && step > 1;
      assert.deepEqual(cluster.spent(), closesTwo ? CLOSES_TWO_HOURS : ONE_WRITE, `step ${step}`);
    }
  });
}

test("changed limits cost one rebase for all processes together, and each at most one more round", async () => {
  const cluster = new Cluster();
  const processes: Process[] = [];
  for (let i = 0; i < 10; i++) processes.push(await cluster.open());
  const before = claim("ada", [Kinds.perMinute("rpm", 100)], { rpm: 1 }, since(T0));
  const after = claim("ada", [Kinds.perMinute("rpm", 200)], { rpm: 1 }, since(T0 + SECOND_MS));
  for (const process of processes) await taken(process, before, T0);
  cluster.spent();
  for (const process of processes) {
    await taken(process, after, T0 + 2 * SECOND_MS);
    const { writes, reads } = cluster.spent();
    assert.ok(writes <= 2 && reads === 0, `${writes} writes, ${reads} reads`);
  }
  assert.equal(cluster.rebases, 1);
  for (const process of processes) {
    await taken(process, after, T0 + 3 * SECOND_MS);
    const { writes } = cluster.spent();
    assert.ok(writes <= 2, `${writes} writes`);
  }
  assert.equal(cluster.rebases, 1);
});

test("a refusal is one trip to a bucket that others may have filled, and none while it is remembered", async () => {
  const cluster = new Cluster();
  const a = await cluster.open({ denyMemoryMs: 1_000 });
  const limits = [Kinds.perDay("rpd", 10)];
  await taken(a, claim("ada", limits, { rpd: 10 }), T0);
  cluster.spent();
  const one = claim("ada", limits, { rpd: 1 });
  assert.deepEqual(kinds(await a.place.take([one], T0 + 1)), ["short"]);
  const cold = cluster.spent();
  assert.equal(cold.writes + cold.reads, 1, "cold");
  for (const laterMs of [2, 500, 999]) {
    assert.deepEqual(kinds(await a.place.take([one], T0 + laterMs)), ["short"]);
    assert.deepEqual(cluster.spent(), FREE, `${laterMs} ms later`);
  }
  assert.deepEqual(kinds(await a.place.take([one], T0 + 5_000)), ["short"]);
  const later = cluster.spent();
  assert.equal(later.writes + later.reads, 1, "when it is too old to go by");
});

test("a level that is known to be short costs the other levels no write, and one read of them while it is remembered", async () => {
  const cluster = new Cluster();
  const a = await cluster.open({ denyMemoryMs: 1_000 });
  const limits = [Kinds.perDay("rpd", 10)];
  const chain = [claim("ada", limits, { rpd: 10 }), claim("org", [Kinds.perDay("rpd", 1_000)], { rpd: 10 })];
  assert.deepEqual(kinds(await a.place.take(chain, T0)), ["taken", "taken"]);
  assert.deepEqual(kinds(await a.place.take([chain[0] as Claim], T0 + 1)), ["short"]);
  cluster.spent();
  assert.deepEqual(kinds(await a.place.take(chain, T0 + 2)), ["short", "skipped"]);
  assert.deepEqual(
    cluster.spent(),
    { writes: 0, transactions: 0, reads: 1 },
    "the level that was not asked is looked at",
  );
  for (const laterMs of [3, 500, 999]) {
    assert.deepEqual(kinds(await a.place.take(chain, T0 + laterMs)), ["short", "skipped"]);
    assert.deepEqual(cluster.spent(), FREE, `${laterMs} ms later`);
  }
});

test("who hammers an empty key below a busy parent costs the parent one read while the refusal is remembered", async () => {
  const cluster = new Cluster();
  const a = await cluster.open({ denyMemoryMs: 1_000 });
  const org = (rpd: number) => claim("org", [Kinds.perDay("rpd", 1_000)], { rpd });
  const below = (id: string, rpd: number) => [claim(id, [Kinds.perDay("rpd", 10)], { rpd }), org(rpd)];
  await a.place.take(below("ada", 10), T0);
  await a.place.take(below("bob", 1), T0);
  assert.deepEqual(kinds(await a.place.take(below("ada", 1), T0 + 1)), ["short", "taken"]);
  await a.place.credit(org(1), { rpd: 1 }, T0 + 1);
  cluster.spent();
  let reads = 0;
  for (let i = 0; i < 9; i++) {
    await taken(a, org(1), T0 + 2 + i);
    assert.deepEqual(cluster.spent(), ONE_WRITE);
    const answers = await a.place.take(below("ada", 1), T0 + 2 + i);
    assert.deepEqual(kinds(answers), ["short", "skipped"]);
    const { writes, reads: own } = cluster.spent();
    assert.equal(writes, 0);
    reads += own;
    const state = answers[1]?.kind === "skipped" ? answers[1].state : undefined;
    // Each time as the last take of this process left it.
    assert.equal(state?.limits[0]?.tokensMilli, (1_000 - 11 - 1 - i) * 1_000);
  }
  assert.equal(reads, 1);
});

test("levels leave together while nothing is scarce; one that refused goes first, and alone if it refuses again", async () => {
  const cluster = new Cluster();
  let [underWay, together] = [0, 0];
  const pause = async (_call: unknown, before: string) => {
    if (before === "applying") together = Math.max(together, ++underWay);
    else underWay--;
    await new Promise<void>((resolve) => setImmediate(resolve));
  };
  const a = await cluster.open({ line: { pause } });
  const one = (id: string, rpd: number) => claim(id, [Kinds.perDay("rpd", 100)], { rpd });
  const chain = (rpd: number) => ["ada", "team", "org"].map((id) => one(id, rpd));
  await a.place.take(chain(1), T0);
  cluster.spent();
  together = 0;
  assert.deepEqual(kinds(await a.place.take(chain(1), T0 + 1)), ["taken", "taken", "taken"]);
  assert.deepEqual([cluster.spent(), together], [{ writes: 3, transactions: 0, reads: 0 }, 3], "one trip");

  await taken(a, one("team", 90), T0 + 2);
  cluster.spent();
  assert.deepEqual(kinds(await a.place.take(chain(20), T0 + 3)), ["taken", "short", "taken"]);
  assert.deepEqual(
    cluster.spent(),
    { writes: 3, transactions: 0, reads: 0 },
    "nobody else writes, so nobody is waited for",
  );
  assert.deepEqual(kinds(await a.place.take(chain(20), T0 + 4)), ["skipped", "short", "skipped"]);
  assert.deepEqual(
    cluster.spent(),
    { writes: 1, transactions: 0, reads: 1 },
    "it went first; then the others are looked at, together",
  );

  together = 0;
  assert.deepEqual(kinds(await a.place.take(chain(1), T0 + 5)), ["taken", "taken", "taken"]);
  assert.deepEqual([cluster.spent().writes, together], [3, 2], "two trips: one alone, then two together");
});

test("a hundred acquires at once on one bucket are at most three writes", async () => {
  const cluster = new Cluster();
  const pause = () => new Promise<void>((resolve) => setImmediate(resolve));
  const a = await cluster.open({ line: { pause } });
  const limits = [Kinds.perMinute("rpm", 1_000)];
  const one = claim("ada", limits, { rpm: 1 });
  await taken(a, one, T0);
  cluster.spent();
  const answers = await Promise.all(Array.from({ length: 100 }, () => a.place.take([one], T0 + 1)));
  assert.equal(answers.filter(([answer]) => answer?.kind === "taken").length, 100);
  const { writes, reads } = cluster.spent();
  assert.ok(writes <= 3 && reads === 0, `${writes} writes, ${reads} reads`);
  const item = cluster.item(a.place.namespaceId, "ada");
  assert.equal(item?.b_rq, 101, "requests are told from writes");
  assert.equal(item?.b_rpm_tc, 101_000);
});

test("of a hundred at once on a bucket of ten, ten are granted, for at most three writes", async () => {
  const cluster = new Cluster();
  const pause = () => new Promise<void>((resolve) => setImmediate(resolve));
  const a = await cluster.open({ line: { pause } });
  const one = claim("ada", [Kinds.perDay("rpd", 10)], { rpd: 1 });
  const answers = await Promise.all(Array.from({ length: 100 }, () => a.place.take([one], T0)));
  assert.equal(answers.filter(([answer]) => answer?.kind === "taken").length, 10);
  assert.equal(answers.filter(([answer]) => answer?.kind === "short").length, 90);
  assert.ok(cluster.spent().writes <= 3);
});

test("strict is one transaction, also for a bucket that is made", async () => {
  const cluster = new Cluster();
  const a = await cluster.open();
  const limits = [Kinds.perMinute("rpm", 100)];
  const levels = ["ada", "org"].map((id) => claim(id, limits, { rpm: 1 }));
  await a.place.take(levels, T0, { atomic: true });
  assert.deepEqual(cluster.spent(), { writes: 0, transactions: 1, reads: 1 }, "first contact");
  await a.place.take(levels, T0 + 1, { atomic: true });
  const { writes, transactions, reads } = cluster.spent();
  assert.deepEqual({ writes, transactions }, { writes: 0, transactions: 1 });
  // A transaction shows no images: what was known is over.
  assert.ok(reads <= 1, `${reads} reads`);
});

test("an adjustment is one write, down or up", async () => {
  const cluster = new Cluster();
  const a = await cluster.open();
  const one = claim("ada", [Kinds.perMinute("rpm", 100)], { rpm: 5 });
  await taken(a, one, T0);
  cluster.spent();
  assert.equal((await a.place.debit(one, { rpm: 3 }, T0 + 10)).kind, "applied");
  assert.deepEqual(cluster.spent(), ONE_WRITE);
  assert.equal((await a.place.credit(one, { rpm: 4 }, T0 + 20)).kind, "applied");
  assert.deepEqual(cluster.spent(), ONE_WRITE);
});

test("rolling back is one write a level", async () => {
  const cluster = new Cluster();
  const a = await cluster.open();
  const limits = [Kinds.perMinute("rpm", 100), Kinds.quota("day", 100, { reset: { cron: "0 0 * * *" } })];
  const levels = ["ada", "team", "org"].map((id) => claim(id, limits, { rpm: 1, day: 1 }));
  await a.place.take(levels, T0);
  cluster.spent();
  for (const level of levels) assert.equal((await a.place.credit(level, { rpm: 1, day: 1 }, T0 + 5)).kind, "applied");
  assert.deepEqual(cluster.spent(), { writes: 3, transactions: 0, reads: 0 });
});

test("two processes in turn on one bucket below its brim never miss", async () => {
  const cluster = new Cluster();
  const both = [await cluster.open(), await cluster.open()] as const;
  const limits = [Kinds.perMinute("rpm", 1_000)];
  await taken(both[0], claim("ada", limits, { rpm: 500 }), T0);
  await taken(both[1], claim("ada", limits, { rpm: 1 }), T0);
  cluster.spent();
  for (let i = 1; i <= 20; i++) await taken(both[i % 2 === 0 ? 0 : 1], claim("ada", limits, { rpm: 1 }), T0 + i);
  assert.deepEqual(cluster.spent(), { writes: 20, transactions: 0, reads: 0 });
});
