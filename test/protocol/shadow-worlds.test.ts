import assert from "node:assert/strict";
import { test } from "node:test";
import { Limit } from "../../src/domain/limits/limit.ts";
import type { Claim } from "../../src/ports/bucket-store.ts";
import type { ItemStore } from "../../src/ports/item-store.ts";
import { installLimits } from "../../src/protocol/config/apply.ts";
import { resize } from "../../src/protocol/shards/resize.ts";
import { overriding } from "../../src/testing/fault-store.ts";
import { SeededRandom } from "../../src/testing/random.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { seeds } from "../depth.ts";
import { conditionalWorld, openConditional } from "../kit/conditional-store.ts";
import { claim, kinds, T0, TestedNamespace } from "../kit/contract-kit.ts";
import { calendar } from "../limits/kind-arbitraries.ts";
import { Cluster } from "./kit.ts";
import { SHADOW_MUTANTS } from "./shadow-mutants.ts";
import { playShadows } from "./shadow-world.ts";

test("in worlds of lost answers and clocks that are off a shadow holds what a hard limit would", async () => {
  for (const seed of seeds(20, 300)) assert.equal(await playShadows(seed), undefined, `seed ${seed}`);
});

/** One of so many worlds has to find each bug. */
const WORLDS = 60;

for (const [bug, spoiled] of Object.entries(SHADOW_MUTANTS)) {
  test(`the judge of shadows finds ${bug}`, async () => {
    for (let seed = 1; seed <= WORLDS; seed++) if ((await playShadows(seed, spoiled)) !== undefined) return;
    assert.fail(`not found in ${WORLDS} worlds`);
  });
}

test("a take from a shadow is one write and no read, whether it fits or not; at its edge a wrong guess costs a second", async () => {
  const clock = new SimulatedClock(T0);
  const random = new SeededRandom(1);
  const table = { now: () => clock.now(), random, writesPerSecond: Number.POSITIVE_INFINITY, staleMs: 0 };
  const world = conditionalWorld(table, calendar);
  const calls = { write: 0, read: 0, transact: 0 };
  const counted = (items: ItemStore) =>
    overriding<ItemStore>(items, {
      write: (...args) => {
        calls.write++;
        return items.write(...args);
      },
      read: (...args) => {
        calls.read++;
        return items.read(...args);
      },
      transact: (...args) => {
        calls.transact++;
        return items.transact(...args);
      },
    });
  const open = () => TestedNamespace.in(openConditional(world, { clock, random: () => 0.5, through: counted }));
  const [one, other] = [await open(), await open()];
  const limits = [Limit.perMinute("rpm", 1_000), Limit.perDay("tpd", 10, { shadow: true })];
  const ask = (tpd: number) => claim("a", limits, { rpm: 1, tpd });
  const costOf = async (place: TestedNamespace, tpd: number) => {
    const before = { ...calls };
    const [answer] = await place.take([ask(tpd)], T0);
    assert.ok(answer?.kind === "taken");
    return [calls.write - before.write, calls.read - before.read, calls.transact - before.transact, answer.shadowed];
  };
  await one.take([ask(1)], T0);
  assert.deepEqual(await costOf(one, 5), [1, 0, 0, []]);
  assert.deepEqual(await costOf(one, 5), [1, 0, 0, ["tpd"]]);
  assert.deepEqual(await costOf(one, 2), [1, 0, 0, []]);
  await other.take([ask(1)], T0);
  // The other took the one that this process believes to be there.
  assert.deepEqual(await costOf(one, 2), [2, 0, 0, ["tpd"]]);
  assert.deepEqual(await costOf(one, 2), [1, 0, 0, ["tpd"]]);
});

test("a level that is given back for another one gives back nothing that passed by its shadow", async () => {
  const clock = new SimulatedClock(T0);
  const table = { now: () => clock.now(), random: new SeededRandom(1), writesPerSecond: Number.POSITIVE_INFINITY };
  const world = conditionalWorld({ ...table, staleMs: 0 }, calendar);
  const open = () => TestedNamespace.in(openConditional(world, { clock, random: () => 0.5 }));
  const [one, other] = [await open(), await open()];
  const still = { refillAmount: 1, refillPeriodMs: 1_000_000_000_000 };
  const project = [Limit.custom("rpm", { capacity: 5, ...still })];
  const org = [Limit.custom("tpm", { capacity: 10, ...still, shadow: true })];
  await one.take([claim("org", org, { tpm: 4 })], T0);
  await one.take([claim("project", project, { rpm: 1 })], T0);
  // Another process has what this one needs of the project, so that it waits for it, and lets the level above go meanwhile.
  await other.take([claim("project", project, { rpm: 4 })], T0);
  const claims = [
    claim("key", project, { rpm: 1 }),
    claim("project", project, { rpm: 1 }),
    claim("org", org, { tpm: 7 }),
  ];
  const asked = one.take(claims, T0);
  for (let i = 0; i < 100; i++) await clock.advance(20);
  await asked;
  assert.equal(await one.level("org", "tpm", T0), 6_000);
});

const drip = (more: object) => [Limit.custom("tpm", { capacity: 20, refillAmount: 1, refillPeriodMs: 1e12, ...more })];
const NEWER = { asOfMs: T0 + 1, generation: 2 };

/** A bucket that another process has split in two, unseen, after so much was taken from it; and how its limits change on both shards. */
async function splitAfter(tokens: number) {
  const cluster = new Cluster();
  const [one, other] = [await cluster.open(), await cluster.open()];
  const used = claim("ada", drip({}), { tpm: Math.min(tokens, 20) });
  await one.place.ticket(used, T0);
  if (tokens > 20) await one.place.debit(used, { tpm: tokens - 20 }, T0);
  const { context } = other.buckets as unknown as { context: Parameters<typeof resize>[0] };
  assert.equal(await resize(context, used.bucket, "more", T0), true);
  const become = ({ bucket, set }: Claim) =>
    installLimits(context, { bucket, set, origin: NEWER, readingMs: T0 + 1, configConfirmed: false });
  return { place: one.place, become };
}

test("a shadow decides by no shard, also where another process has split the bucket unseen", async () => {
  const { place } = await splitAfter(4);
  const asked = claim("ada", drip({ shadow: true }), { tpm: 12 }, { origin: NEWER });
  // Each shard has 8 of the 16: nothing is decided by one of them, and the next request has joined them.
  assert.equal((await place.take([asked], T0 + 1))[0]?.kind, "contended");
  const [answer] = await place.take([asked], T0 + 2);
  assert.ok(answer?.kind === "taken");
  assert.deepEqual(answer.shadowed, []);
  assert.equal(await place.level("ada", "tpm", T0 + 2), 4_000);
});

test("shards that have become shadows refuse no request that has not heard of it", async () => {
  const { place, become } = await splitAfter(4);
  await become(claim("ada", drip({ shadow: true }), {}));
  const asked = claim("ada", drip({}), { tpm: 12 });
  assert.equal((await place.take([asked], T0 + 1))[0]?.kind, "contended");
  assert.deepEqual(kinds(await place.take([asked], T0 + 2)), ["taken"]);
  assert.equal(await place.level("ada", "tpm", T0 + 2), 4_000);
});

test("what the shards of a shadow owe is owed after they are joined", async () => {
  const { place, become } = await splitAfter(30);
  const asked = claim("ada", drip({ shadow: true }), { tpm: 12 }, { origin: NEWER });
  await become(asked);
  assert.equal((await place.take([asked], T0 + 1))[0]?.kind, "contended");
  const [answer] = await place.take([asked], T0 + 2);
  assert.ok(answer?.kind === "taken");
  assert.deepEqual(answer.shadowed, ["tpm"]);
  assert.equal(await place.level("ada", "tpm", T0 + 2), -10_000);
});
