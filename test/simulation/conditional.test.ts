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

const SEEDS = 600;

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
  "claims taken": 2_000,
  "claims short": 166,
  "claims configSuspect": 20,
  "claims contended": 3,
  "forms take": 1_333,
  "forms rebase": 200,
  "forms create": 200,
  "forms credit": 533,
  "rounds that failed": 200,
  "transactions that failed": 6,
  gathers: 13,
  "shards become 1": 20,
  "shards become 2": 26,
  "shards become 4": 20,
  "shards become 8": 10,
  "joins with a lease out": 13,
  "tolerant cuts": 6,
  "epochs set back": 10,
  "clocks that were corrected": 10,
  "limits that come back": 6,
  "forgotten limits that come back": 3,
  "found to have landed": 3,
  "items that expired": 1,
  "faults of a write, late": 10,
  "faults of a transact, late": 10,
  "give-backs that came too late": 3,
  "operations bucket_topped_up": 13,
  "operations bucket_reset": 6,
  announcements: 6,
  "old configuration read": 6,
  crashes: 13,
  "hours closed": 266,
  "sheets written": 100,
  "sweeps that close hours": 33,
  "give-backs by another process": 100,
  "faults of a write, timedOut": 33,
  "granted after waiting": 3,
  crowds: 66,
  "takes on totals": 133,
  "debits on totals": 13,
  "credits on totals": 66,
  "refused by totals": 10,
  "changes of totals": 20,
  "changes of plans": 40,
  "changes met together": 6,
  "taken from shadows": 266,
  "passed by shadows": 200,
  "passed by shadows of what drips": 100,
  "passed by shadows of calendar quotas": 10,
  "passed by shadows of sessions": 10,
  "takes from slots": 533,
  "looks at live holds": 466,
  "slots given back": 166,
  "slots given back too late": 26,
  "renewals renewed": 80,
  "slots renewed": 2,
  "holds that ended by themselves": 40,
  "limits with all slots back": 80,
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
  "a give-back to a soft quota that always goes to the first shard": 108,
  "a request that is undone without its overdrafts": 40,
};

testMutants(
  { ...CONDITIONAL_MUTANTS, ...GIVE_BACK_MUTANTS, ...CROWD_MUTANTS, ...WHOLE_MUTANTS },
  { store: "conditional", seedsMax: 1_000, caughtBy: CAUGHT_BY },
);

testMutants(MARK_MUTANTS, {
  ...{ store: "conditional", seedsMax: 4_000, among: hasThresholds },
  caughtBy: { "marks without the period": 109, "marks without as seen": 18 },
});

testMutants(SHADOW_ITEM_MUTANTS, {
  ...{ store: "conditional", seedsMax: 4_000, among: hasShadows },
  caughtBy: {
    "a shadow that is not bounded from above": 159,
    "a shadow that takes what is not there": 33,
    "a count of a shadow that an undone request keeps": 47,
  },
});
