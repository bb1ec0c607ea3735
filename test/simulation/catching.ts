import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import type { Mutant } from "./mutants.ts";
import { simulate } from "./simulation.ts";
import { openFor, type StoreKind } from "./stores.ts";

// A simulation that finds nothing may be blind. Each mutant is a limiter with one deliberate bug, the ones that limiters really
// have; every bug has to be found in one of a few hundred small worlds, and for what it is.

interface Search {
  readonly store: StoreKind;
  /** One of the worlds of the seeds from 1 to this has to find each bug. */
  readonly seedsMax: number;
  /** Which of them have what the bugs are about; absent: all. */
  readonly among?: (seed: number) => boolean;
  /** The seed that found a bug the last time, for bugs that not one of the first few finds. */
  readonly caughtBy: Readonly<Record<string, number>>;
}

/** Declares a test for each mutant. */
export function testMutants(mutants: Readonly<Record<string, Mutant>>, search: Search): void {
  for (const [bug, mutant] of Object.entries(mutants)) {
    test(`the simulation catches ${bug}`, (t) => assertCaught(t, bug, mutant, search));
  }
}

async function assertCaught(t: TestContext, bug: string, mutant: Mutant, search: Search): Promise<void> {
  const { caughtBy, store, seedsMax, among = () => true } = search;
  const others: string[] = [];
  for (const seed of seedsFrom(caughtBy[bug], seedsMax)) {
    if (!among(seed)) continue;
    const { violations } = await simulate(seed, { open: () => openFor(store, seed), verbose: false, mutant });
    if (violations.some((violation) => mutant.caughtAs.test(violation))) {
      if (seed > EASY && seed !== caughtBy[bug])
        t.diagnostic(`found by seed ${seed}; written down, it is found at once`);
      return;
    }
    others.push(...violations);
  }
  assert.fail(`not found in ${seedsMax} worlds; found instead: ${others.slice(0, 5).join("; ") || "nothing"}`);
}

/** So few worlds cost nothing. */
const EASY = 10;

/** All of the seeds up to one. That one of them finds a bug does not depend on their order, so the one that found it before comes first. */
export function* seedsFrom(first: number | undefined, seedsMax: number): Generator<number> {
  if (first !== undefined && first <= seedsMax) yield first;
  for (let seed = 1; seed <= seedsMax; seed++) if (seed !== first) yield seed;
}
