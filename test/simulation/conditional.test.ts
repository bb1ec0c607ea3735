import assert from "node:assert/strict";
import { test } from "node:test";
import { atDepth } from "../depth.ts";
import { testMutants } from "./catching.ts";
import { CONDITIONAL_MUTANTS } from "./conditional-mutants.ts";
import { CROWD_MUTANTS } from "./crowd-mutants.ts";
import { GIVE_BACK_MUTANTS } from "./give-back-mutants.ts";
import { hasThresholds } from "./profile.ts";
import { SHADOW_ITEM_MUTANTS } from "./shadow-mutants.ts";
import { hasShadows } from "./shadow-profile.ts";
import { simulate } from "./simulation.ts";
import { assertSound } from "./sound.ts";
import { openFor } from "./stores.ts";
import { MARK_MUTANTS } from "./threshold-mutants.ts";
import { WHOLE_MUTANTS } from "./whole-mutants.ts";

test("worlds of single-item conditional writes keep the promise at every step", () =>
  assertSound({ store: "conditional", quick: 15, deep: 2_000, least: LEAST }));

const LEAST: Readonly<Record<string, number>> = {
  "claims taken": 18_000,
  "claims short": 2_900,
  "claims configSuspect": 2_400,
  "claims contended": 23,
  "forms take": 15_000,
  "forms rebase": 3_600,
  "forms create": 1_800,
  "forms credit": 5_900,
  "rounds that failed": 5_500,
  "transactions that failed": 210,
  gathers: 43,
  "shards become 1": 110,
  "shards become 2": 190,
  "shards become 4": 71,
  "shards become 8": 22,
  "joins with a lease out": 46,
  "tolerant cuts": 23,
  "epochs set back": 120,
  "clocks that were corrected": 66,
  "limits that come back": 490,
  "forgotten limits that come back": 42,
  "found to have landed": 110,
  "items that expired": 1,
  "faults of a write, late": 180,
  "faults of a transact, late": 26,
  "give-backs that came too late": 72,
  "operations bucket_topped_up": 110,
  "operations bucket_reset": 78,
  announcements: 870,
  "old configuration read": 890,
  crashes: 130,
  "hours closed": 1_800,
  "sheets written": 510,
  "sweeps that close hours": 410,
  "give-backs by another process": 950,
  "faults of a write, timedOut": 340,
  "granted after waiting": 62,
  crowds: 490,
  "takes on totals": 3_500,
  "debits on totals": 120,
  "credits on totals": 620,
  "refused by totals": 49,
  "changes of totals": 470,
  "changes of plans": 520,
  "changes met together": 67,
  "sets with an end": 310,
  "taken from shadows": 440,
  "passed by shadows": 340,
  "passed by shadows of what drips": 170,
  "passed by shadows of calendar quotas": 55,
  "passed by shadows of sessions": 32,
  "takes from slots": 690,
  "looks at live holds": 620,
  "slots given back": 230,
  "slots given back too late": 53,
  "renewals renewed": 65,
  "slots renewed": 19,
  "holds that ended by themselves": 59,
  "limits with all slots back": 94,
  "charge answered": 130,
  "refunds applied": 110,
};

test("a seed plays the same way again, step by step, on conditional writes", async () => {
  const played = (seed: number) => simulate(seed, { open: () => openFor("conditional", seed), verbose: false });
  for (const seed of atDepth([3], [3, 10, 17])) assert.deepEqual(await played(seed), await played(seed));
});

/** The seeds that found these bugs when this was written; where worlds are drawn differently since, the others are searched. */
const CAUGHT_BY: Readonly<Record<string, number>> = {
  "a lost write that is repeated without its nonce": 36,
  "a split that mints": 25,
  "a count of resets that goes back with the shards": 25,
  "a limit that is forgotten too early": 53,
  "a give-back that does not look at the period": 927,
  "a give-back into an hour that is over": 90,
  "a process that forgets a bucket while it writes to it": 46,
  "a take that landed late for nobody, and stays": 12,
  "a shortage that a process remembers for twice as long as it may": 28,
  "a switch that is stamped on nothing": 121,
  "a take that waits for the one before it, however long that takes": 125,
  "a give-back to a soft quota that always goes to the first shard": 270,
  "a quota in shards that is given the whole difference on each": 137,
  "a request that is undone without its overdrafts": 37,
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
    "a shadow that is not bounded from above": 180,
    "a shadow that takes what is not there": 47,
    "a count of a shadow that an undone request keeps": 47,
  },
});
