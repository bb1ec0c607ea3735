import assert from "node:assert/strict";
import { test } from "node:test";
import { testMutants } from "./catching.ts";
import { CONDITIONAL_MUTANTS } from "./conditional-mutants.ts";
import { CROWD_MUTANTS } from "./crowd-mutants.ts";
import { GIVE_BACK_MUTANTS } from "./give-back-mutants.ts";
import { playSeeds } from "./pool.ts";
import { hasThresholds } from "./profile.ts";
import { SHADOW_ITEM_MUTANTS } from "./shadow-mutants.ts";
import { hasShadows } from "./shadow-profile.ts";
import { type SeedReport, simulate } from "./simulation.ts";
import { openFor } from "./stores.ts";
import { MARK_MUTANTS } from "./threshold-mutants.ts";
import { WHOLE_MUTANTS } from "./whole-mutants.ts";

const SEEDS = 900;

test("over five hundred worlds of single-item conditional writes keep the promise at every step", async () => {
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
  "claims short": 250,
  "claims configSuspect": 30,
  "claims contended": 5,
  "forms take": 2_000,
  "forms rebase": 300,
  "forms create": 300,
  "forms credit": 800,
  "rounds that failed": 300,
  "transactions that failed": 10,
  gathers: 20,
  "shards become 1": 30,
  "shards become 2": 40,
  "shards become 4": 30,
  "shards become 8": 15,
  "joins with a lease out": 20,
  "tolerant cuts": 10,
  "epochs set back": 15,
  "clocks that were corrected": 15,
  "limits that come back": 10,
  "forgotten limits that come back": 5,
  "found to have landed": 5,
  "items that expired": 1,
  "faults of a write, late": 15,
  "faults of a transact, late": 15,
  "give-backs that came too late": 5,
  "operations bucket_topped_up": 20,
  "operations bucket_reset": 10,
  announcements: 10,
  "old configuration read": 10,
  crashes: 20,
  "hours closed": 400,
  "sheets written": 150,
  "sweeps that close hours": 50,
  "give-backs by another process": 150,
  "faults of a write, timedOut": 50,
  "granted after waiting": 5,
  crowds: 100,
  "takes on totals": 200,
  "debits on totals": 20,
  "credits on totals": 100,
  "refused by totals": 15,
  "changes of totals": 30,
  "changes of plans": 60,
  "changes met together": 10,
  "taken from shadows": 400,
  "passed by shadows": 300,
  "passed by shadows of what drips": 150,
  "passed by shadows of calendar quotas": 15,
  "passed by shadows of sessions": 15,
  "takes from slots": 800,
  "looks at live holds": 700,
  "slots given back": 250,
  "slots given back too late": 40,
  "renewals renewed": 80,
  "slots renewed": 4,
  "holds that ended by themselves": 60,
  "limits with all slots back": 120,
};

test("a seed plays the same way again, step by step, on conditional writes", async () => {
  const played = (seed: number) => simulate(seed, { open: () => openFor("conditional", seed), verbose: false });
  for (const seed of [3, 10, 17]) assert.deepEqual(await played(seed), await played(seed));
});

/** The seeds that found these bugs when this was written; where worlds are drawn differently since, the others are searched. */
const CAUGHT_BY: Readonly<Record<string, number>> = {
  "a lost write that is repeated without its nonce": 30,
  "a split that mints": 25,
  "a count of resets that goes back with the shards": 25,
  "a limit that is forgotten too early": 53,
  "a give-back that does not look at the period": 927,
  "a give-back into an hour that is over": 267,
  "a process that forgets a bucket while it writes to it": 46,
  "a take that landed late for nobody, and stays": 24,
  "a shortage that a process remembers for twice as long as it may": 28,
  "a switch that is stamped on nothing": 121,
  "a take that waits for the one before it, however long that takes": 259,
  "a give-back to a soft quota that always goes to the first shard": 270,
  "a quota in shards that is given the whole difference on each": 137,
  "a request that is undone without its overdrafts": 40,
};

testMutants(
  { ...CONDITIONAL_MUTANTS, ...GIVE_BACK_MUTANTS, ...CROWD_MUTANTS, ...WHOLE_MUTANTS },
  { store: "conditional", seedsMax: 1_000, caughtBy: CAUGHT_BY },
);

testMutants(MARK_MUTANTS, {
  ...{ store: "conditional", seedsMax: 4_000, among: hasThresholds },
  caughtBy: {
    "marks without the period": 109,
    "a threshold that is told before the request is decided": 148,
    "marks without as seen": 577,
  },
});

testMutants(SHADOW_ITEM_MUTANTS, {
  ...{ store: "conditional", seedsMax: 4_000, among: hasShadows },
  caughtBy: {
    "a shadow that is not bounded from above": 159,
    "a shadow that takes what is not there": 33,
    "a count of a shadow that an undone request keeps": 47,
  },
});
