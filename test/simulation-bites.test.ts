import assert from "node:assert/strict";
import { test } from "node:test";
import { CHANGE_MUTANTS } from "./simulation/change-mutants.ts";
import { CODE_MUTANTS } from "./simulation/code-mutants.ts";
import { KIND_MUTANTS } from "./simulation/kind-mutants.ts";
import { MUTANTS, type Mutant } from "./simulation/mutants.ts";
import { simulate } from "./simulation/simulation.ts";
import { openFor } from "./simulation/stores.ts";
import { TOTAL_MUTANTS } from "./simulation/total-mutants.ts";

// A simulation that finds nothing may be blind. Each of these is a limiter with one deliberate bug, the ones that limiters
// really have; every bug has to be found within a few hundred small worlds, and for what it is.

const SEEDS_MAX = 400;

const ALL = { ...MUTANTS, ...KIND_MUTANTS, ...CHANGE_MUTANTS, ...TOTAL_MUTANTS, ...CODE_MUTANTS };

for (const [bug, mutant] of Object.entries(ALL)) {
  test(`the simulation catches ${bug}`, async () => {
    const others: string[] = [];
    for (let seed = 1; seed <= SEEDS_MAX; seed++) {
      const found = await violationsOf(seed, mutant);
      if (found.some((violation) => mutant.caughtAs.test(violation))) return;
      others.push(...found);
    }
    assert.fail(`not found in ${SEEDS_MAX} worlds; found instead: ${others.slice(0, 5).join("; ") || "nothing"}`);
  });
}

async function violationsOf(seed: number, mutant: Mutant): Promise<readonly string[]> {
  return (await simulate(seed, { open: () => openFor("memory", seed), verbose: false, mutant })).violations;
}
