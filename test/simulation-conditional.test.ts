import assert from "node:assert/strict";
import { test } from "node:test";
import { CONDITIONAL_MUTANTS } from "./simulation/conditional-mutants.ts";
import { playSeeds } from "./simulation/pool.ts";
import { type SeedReport, simulate } from "./simulation/simulation.ts";
import { openFor } from "./simulation/stores.ts";

const SEEDS = 200;
const MUTANT_SEEDS_MAX = 60;

test("two hundred worlds of single-item conditional writes keep the promise at every step", async () => {
  const broken: SeedReport[] = [];
  const tally: Record<string, number> = {};
  await playSeeds({ from: 1, seeds: SEEDS, store: "conditional", workers: 2 }, (report) => {
    if (report.violations.length > 0) broken.push(report);
    for (const [what, count] of Object.entries(report.tally)) tally[what] = (tally[what] ?? 0) + count;
  });
  const [first] = broken.sort((one, other) => one.seed - other.seed);
  assert.equal(
    first,
    undefined,
    `${broken.length} seeds, first ${first?.seed}: ${first?.violations.join("\n")}\n${first?.lastSteps.join("\n")}`,
  );
  // Worlds in which little happens prove little.
  for (const [what, count] of Object.entries(LEAST)) {
    assert.ok((tally[what] ?? 0) >= count, `${what}: only ${tally[what]} in all worlds, ${count} were expected`);
  }
});

const LEAST: Readonly<Record<string, number>> = {
  "claims taken": 3_000,
  "claims short": 400,
  "claims configSuspect": 30,
  "claims contended": 1,
  "forms take": 2_000,
  "forms rebase": 500,
  "forms create": 300,
  "forms credit": 800,
  "rounds that failed": 300,
  "transactions that failed": 10,
  gathers: 50,
  "shards become 1": 10,
  "shards become 2": 50,
  "shards become 4": 3,
  "found to have landed": 5,
  "items that expired": 20,
  "faults of a write, late": 20,
  "faults of a transact, late": 3,
  "give-backs that came too late": 30,
  "operations bucket_topped_up": 20,
  "operations bucket_reset": 10,
  announcements: 10,
  "old configuration read": 10,
  crashes: 20,
};

// A lost answer to a write that took nothing; answers that overtook each other; a give-back by an image of another period;
// debts and give-backs over a split; sessions over a join; expiry under debt; epochs set back; numbers at the edge of exactness.
// A reading from before the clock was corrected; limits that change their kind in the middle; a session that began full but
// for a fraction; waits told of one shard, a millitoken too short, or by limits that were about to be replaced.
const FOUND = [
  110, 222, 263, 505, 538, 559, 579, 933, 1013, 1143, 1165, 1219, 1239, 1372, 1568, 1796, 10_208, 10_410, 10_801,
  11_346, 20_402, 20_559, 20_641, 31_259, 40_147, 40_560, 6_571, 51_503, 52_075, 52_341, 52_625, 4_871, 5_091, 8_780,
  2917, 7611, 4601, 60_323, 2877,
];

test("seeds that once found something find nothing any more", async () => {
  for (const seed of FOUND) {
    const { violations } = await simulate(seed, { open: () => openFor("conditional", seed), verbose: false });
    assert.deepEqual(violations, [], `seed ${seed}`);
  }
});

test("a seed plays the same way again, step by step, on conditional writes", async () => {
  const played = (seed: number) => simulate(seed, { open: () => openFor("conditional", seed), verbose: false });
  for (const seed of [3, 10, 17]) assert.deepEqual(await played(seed), await played(seed));
});

for (const [bug, mutant] of Object.entries(CONDITIONAL_MUTANTS)) {
  test(`the simulation catches ${bug}`, async () => {
    const others: string[] = [];
    for (let seed = 1; seed <= MUTANT_SEEDS_MAX; seed++) {
      const { violations } = await simulate(seed, { open: () => openFor("conditional", seed), verbose: false, mutant });
      if (violations.some((violation) => mutant.caughtAs.test(violation))) return;
      others.push(...violations);
    }
    assert.fail(
      `not found in ${MUTANT_SEEDS_MAX} worlds; found instead: ${others.slice(0, 5).join("; ") || "nothing"}`,
    );
  });
}
