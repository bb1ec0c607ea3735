import { availableParallelism } from "node:os";
import { UsageError } from "../../scripts/script.ts";
import { shrinkBucketWorld } from "./bucket-stories.ts";
import { GROUNDS, type Ground, isBucketStore, playSeed } from "./play.ts";
import { playSeeds } from "./pool.ts";
import type { SeedReport } from "./simulation.ts";
import { shrinkWorld } from "./world-stories.ts";

/** What `npm run simulate` was asked for: one seed, or a range of them. */
export interface AskedSimulation {
  readonly seed: number | undefined;
  readonly from: number;
  readonly seeds: number;
  readonly store: string;
  readonly shrink: boolean;
}

/** Plays and prints what was asked for; the exit code. */
export async function simulateAsked(asked: AskedSimulation): Promise<number> {
  const { seed, from, seeds } = asked;
  const store = storeKind(asked.store);
  if (seed !== undefined) {
    if (asked.shrink) return shrink(seed, store);
    return conclude(1, tell(await playSeed(seed, store, true)));
  }
  if (asked.shrink) shrinkable(store);
  let violations = 0;
  let firstFailed = Number.POSITIVE_INFINITY;
  await playSeeds({ from, seeds, store, workers: availableParallelism() }, (report) => {
    const found = asked.shrink ? report.violations.length : tell(report);
    violations += found;
    if (found > 0) firstFailed = Math.min(firstFailed, report.seed);
  });
  if (asked.shrink && violations > 0) await shrink(firstFailed, store);
  return conclude(seeds, violations);
}

/** Prints the shortest story of a seed, and the data to keep it by. */
async function shrink(seed: number, store: Ground): Promise<number> {
  const ground = shrinkable(store);
  const found = isBucketStore(ground) ? await shrinkBucketWorld(seed, ground) : await shrinkWorld(seed, ground);
  if (found === undefined) {
    console.log(`seed ${seed} holds, there is nothing to shorten`);
    return 0;
  }
  console.log(`seed ${seed}, shortened:\n${found.report.lastSteps.join("\n")}\n${JSON.stringify(found.story)}`);
  return 1;
}

function tell({ seed, violations, lastSteps }: SeedReport): number {
  if (violations.length > 0) {
    console.log(`seed ${seed}:\n${lastSteps.join("\n")}`);
    for (const violation of violations) console.log(`seed ${seed}: ${violation}`);
  }
  return violations.length;
}

function conclude(seeds: number, violations: number): number {
  console.log(`seeds ${seeds}, violations ${violations}`);
  return violations === 0 ? 0 : 1;
}

function shrinkable(store: Ground): Exclude<Ground, "shared"> {
  if (store !== "shared") return store;
  throw new UsageError("Worlds with the original are not shortened; leave out --shrink or give another --store.");
}

function storeKind(given: string): Ground {
  const kind = GROUNDS.find((one) => one === given);
  if (kind !== undefined) return kind;
  throw new UsageError(`--store is ${JSON.stringify(given)}; give one of ${GROUNDS.join(", ")}.`);
}
