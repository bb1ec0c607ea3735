import assert from "node:assert/strict";
import { atDepth, firstSeed } from "../depth.ts";
import { hasThresholds } from "../simulation/profile.ts";
import { hasShadows } from "../simulation/shadow-profile.ts";
import { simulate } from "../simulation/simulation.ts";
import { hasSlots } from "../simulation/slot-profile.ts";
import { BEYOND_RATES } from "../simulation/stores.ts";
import { type BatchWorld, straightGroundOn } from "../simulation/straight-ground.ts";

/** Some of them as they come, the others with what is drawn in few worlds. */
const SEEDS = [
  ...first(atDepth(2, 10), () => true),
  ...first(atDepth(1, 8), hasShadows, 16),
  ...first(atDepth(2, 12), hasSlots, 16),
  ...first(atDepth(1, 2), hasThresholds, 16),
];

/** Plays worlds of the simulation, each on a store of its own: throws where that differs from the model. */
export async function judgedWorlds(open: () => Promise<BatchWorld>): Promise<void> {
  const tally: Record<string, number> = {};
  for (const seed of SEEDS) {
    const world = await open();
    const ground = straightGroundOn.bind(undefined, world);
    const site = () => ({ ground, countsChanges: true, ...BEYOND_RATES, close: () => {} });
    const { violations, lastSteps, tally: counted } = await simulate(seed, { open: site, verbose: false });
    assert.deepEqual(violations, [], `seed ${seed}:\n${lastSteps.join("\n")}`);
    for (const [what, count] of Object.entries(counted)) tally[what] = (tally[what] ?? 0) + count;
  }
  // Worlds in which little happens prove little.
  const few = { "claims taken": 100, "claims short": 20, "give-backs": 20, debits: 10, "taken from shadows": 5 };
  const least: Readonly<Record<string, number>> = atDepth<Record<string, number>>(
    { ...few, "takes from slots": 8, "thresholds told": 1 },
    {
      ...{ ...few, "give-backs": 60, "takes that were stale": 1, "takes from slots": 10, "thresholds told": 1 },
      ...{ "batches lostBefore": 1, "batches lostAfter": 1, "batches copied": 1, "operations bucket_topped_up": 1 },
      ...{ "passed by shadows": 2, "slots given back": 2 },
    },
  );
  for (const [what, count] of Object.entries(least)) {
    assert.ok((tally[what] ?? 0) >= count, `${what}: only ${tally[what]} in all worlds, ${count} were expected`);
  }
}

function first(count: number, isMeant: (seed: number) => boolean, after = 0): number[] {
  const seeds: number[] = [];
  for (let seed = firstSeed() + after; seeds.length < count; seed++) if (isMeant(seed)) seeds.push(seed);
  return seeds;
}
